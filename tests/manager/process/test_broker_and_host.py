"""What a manager's process runs: `braid serve` by its settings, and files sent over a real broker."""

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from bridge import Message, topics
from bridge.broker import start_broker
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from engine.code.store import CodeStore, VoucherFile, WheelStore, digest_of
from engine.machines.orders import CommonFiles, common_files
from engine.outside import Vault
from manager.command import app
from manager.exit_codes import ExitCode
from manager.process.broker_and_host import CommonSender
from manager.process.commands import serve
from manager.settings import SECRET_SETTINGS, Settings
from tests.manager.braid_runner import Braid

SOURCE = "def entry(event): return event"
_BOUND = 30.0


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    with start_broker(tmp_path / "broker", {"braid": "secret"}) as broker:
        yield broker.address("braid")


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in common_files(root)}


class Receiving:
    """A machine's root, and the connection that fills it."""

    def __init__(self, root: Path, address: Address) -> None:
        self.root = root
        self._files = CommonFiles(root)
        self._client = MqttClient(
            address, f"machine-{root.name}", topics=[topics.common("#")], on_message=self._take, lasting=False
        )
        self._client.start()

    def _take(self, message: Message) -> None:
        self._files.take(message.topic, message.payload)
        self._client.acknowledge([message.token])

    def stop(self) -> None:
        self._client.stop()


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _BOUND
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_machine_has_what_the_manager_has(tmp_path: Path, address: Address) -> None:
    """Code, wheels, vouchers, reachable hosts and encrypted secrets come, change, go; the key never comes."""
    roots = [tmp_path / name for name in ("manager", "north", "south")]
    root = roots[0]

    def connect(name: str, **callbacks: Any) -> MqttClient:
        client = MqttClient(address, name, lasting=False, **callbacks)
        client.start()
        return client

    CodeStore(root).put(digest_of(SOURCE), SOURCE)
    WheelStore(root).put(bytes(range(256)) * 5000)
    VoucherFile(root).keep([])
    Vault(root).put("ann", "warehouse", "hush")
    (root / "reachable").write_bytes(b"")
    (root / "key").write_text("nobody else's")
    sender = CommonSender(root, connect)
    sender.start()
    north = Receiving(roots[1], address)
    until(lambda: contents(north.root) == contents(root) != {})
    assert not (north.root / "secrets.key").exists()
    assert not (north.root / "key").exists()
    (root / "reachable").unlink()
    Vault(root).put("ann", "warehouse", "another")
    Vault(root).remove("ann", "nothing")
    sender.look()
    until(lambda: contents(north.root) == contents(root))
    (north.root / "secrets.key").write_bytes((root / "secrets.key").read_bytes())
    assert Vault(north.root).reveal("ann", "warehouse") == "another"
    north.stop()
    sender.stop()
    # Without the manager, and with what it removed meanwhile.
    (root / "reachable").write_text("db")
    WheelStore(root).remove(next(path.stem for path in (root / "code" / "wheels").glob("*.whl")))
    south = Receiving(roots[2], address)
    until(lambda: "vouchers.json" in contents(south.root))
    again = CommonSender(root, connect)
    again.start()
    until(lambda: contents(south.root) == contents(root))
    late = Receiving(roots[1], address)
    until(lambda: contents(late.root) == contents(root))
    for each in (again, south, late):
        each.stop()


@pytest.mark.parametrize(
    "name",
    ["../key", "secrets.key", "code/../../x", "secrets/=a/../b", "/etc/passwd", "secrets/=a/=b/=c", "jobs/1/plans/1"],
)
def test_no_other_file_is_written(tmp_path: Path, name: str) -> None:
    """Whatever a list names: then nothing of it takes effect."""
    files = CommonFiles(tmp_path / "root")
    listed = '{"%s": {"digest": "%s", "parts": 1}, "reachable": {"digest": "%s", "parts": 1}}'
    files.take(topics.common(f"{name.replace('/', '%2F')}/0"), b"=" + SOURCE.encode())
    files.take(topics.common("reachable/0"), b"=" + SOURCE.encode())
    files.take(topics.common("list"), (listed % (name, digest_of(SOURCE), digest_of(SOURCE))).encode())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        *(("list", b"?"), ("list", b"[]"), ("list/0", b"{}")),
        *(("reachable/x", b"=x"), ("reachable", b"=x"), ("reachable/0", b"x")),
    ],
)
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, topic: str, payload: bytes) -> None:
    """What is there stays."""
    (tmp_path / "reachable").write_text("db")
    CommonFiles(tmp_path).take(topics.common(topic), payload)
    assert (tmp_path / "reachable").read_text() == "db"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, braid: Braid) -> list[Settings]:  # noqa: ARG001 - without settings of others
    """The settings of each service that would run."""
    found: list[Settings] = []
    serving = ModuleType("manager.process.manager")
    setattr(serving, "serve", lambda settings, **_: found.append(settings))  # noqa: B010 - a module of the test's own
    monkeypatch.setitem(sys.modules, "manager.process.manager", serving)
    return found


def test_serve_takes_its_settings_from_flags_environment_and_file(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the secrets can be flags."""
    Path("braid.toml").write_text('database = "postgresql://me:hush@db/braid"\nport = 1')
    monkeypatch.setenv("BRAID_BROKER", "mqtt://me:hush@broker")
    words = "serve --root kept --listen ::1 --port 2 --master local[1] --host none --pace 0.5"
    assert CliRunner().invoke(app, words.split()).exit_code == ExitCode.WELL
    assert served == [
        Settings(
            root=Path("kept"),
            listen="::1",
            port=2,
            broker=SecretStr("mqtt://me:hush@broker"),
            database=SecretStr("postgresql://me:hush@db/braid"),
            master="local[1]",
            host="none",
            pace=0.5,
        )
    ]


def test_serve_needs_no_setting(served: list[Settings]) -> None:
    """Without any it uses the defaults."""
    assert CliRunner().invoke(app, ["serve"]).exit_code == ExitCode.WELL
    assert [Settings()] == served


def test_every_setting_but_the_secrets_has_a_flag() -> None:
    """Every user of the machine can read the arguments of a process."""
    options = inspect.signature(serve).parameters.keys()
    assert Settings.model_fields.keys() - SECRET_SETTINGS == options - {"settings", "as_json"}


def test_serve_does_not_start_with_a_wrong_setting(served: list[Settings]) -> None:
    """The message names the flag."""
    result = CliRunner().invoke(app, ["serve", "--port", "0"])
    assert (ExitCode.PROBLEMS, []) == (result.exit_code, served)
    assert result.stderr.startswith("--port: the value should be greater than or equal to 1")
