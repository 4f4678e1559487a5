"""The behaviour of the embedded broker that differs from mosquitto."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge import broker_setup
from bridge.broker import Broker, start_broker
from tests.bridge.embedded.visitor import Visitor

LOADED = "import sys; sys.path.append(sys.argv[1]); import embedded.__main__; print(*sorted(sys.modules))"
USERS = {"braid": "a secret", "other": "another secret"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path, USERS, kind="embedded") as started:
        yield started


def test_users_have_client_ids_of_their_own(broker: Broker) -> None:
    """Using the client id of another user neither disconnects that client nor gets its messages.

    Mosquitto gives the connection, and the session, to the last client with an id.
    """
    with Visitor(broker.address("braid"), "a", name="same", lasting=True) as first:
        with Visitor(broker.address("other"), name="same", lasting=True) as second:
            assert not second.resumed
            second.publish("a", b"one")
            assert [b"one"] == first.take(1)
            second.publish("a", b"two")
        assert [b"two"] == first.take(1)
        assert second.messages.empty()


def test_its_process_loads_nothing_of_braid() -> None:
    """It loads nothing that needs much memory either."""
    loaded = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-I", "-c", LOADED, str(Path(broker_setup.__file__).parent)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert [] == sorted({"bridge", "engine", "manager", "numpy", "pyarrow", "pydantic"} & set(loaded))


def test_a_broker_that_cannot_read_its_files_says_which(tmp_path: Path) -> None:
    """It does not start, and shows no traceback."""
    listener = ["--listener", "127.0.0.1", "0", str(tmp_path / "nowhere")]
    command = [*broker_setup.embedded_start(), *listener]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own
    assert 1 == ended.returncode
    assert ended.stderr.startswith(f"{tmp_path / 'nowhere'} cannot be read: ")
    assert 1 == len(ended.stderr.splitlines())
