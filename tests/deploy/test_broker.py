"""The broker of the compose file and its entrance, run here by the same script and command: who comes in, and how."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from bridge.embedded import hashed
from manager.tenants.broker_access import Grant, access_list, password_list, user_of
from tests import needs
from tests.documentation.pages import ROOT

pytestmark = pytest.mark.mosquitto
BOUND = 20.0
BRAID = "from manager.command import app; app()"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The script with folders and ports of its own; its environment."""
    needs.mosquitto_passwd()
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        ports = str(first.getsockname()[1]), str(second.getsockname()[1])
    folders = {name: tmp_path / name.lower() for name in ("ACCESS", "RUN", "DATA", "TENANTS")}
    for folder in folders.values():
        folder.mkdir()
    environment = {
        **{name: str(folder) for name, folder in folders.items()},
        "ADDRESS": "127.0.0.1",
        "PORT": ports[0],
        "ENTRANCE_PORT": ports[1],
        "BROKER_PASSWORD": "own",
    }
    path = f"{os.environ['PATH']}:/usr/sbin"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own script
            ["/bin/sh", str(ROOT / "deploy" / "mosquitto" / "run.sh")], env={**environment, "PATH": path}, stderr=log
        )
    yield environment
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(BOUND), (tmp_path / "log").read_text()


@pytest.fixture
def entrance(broker: dict[str, str]) -> Iterator[str]:
    """The port of an entrance before that broker, with a list that has only ann."""
    keep(broker, "ann")
    listen, socket_path = f"127.0.0.1:{broker['ENTRANCE_PORT']}", f"{broker['TENANTS']}/socket"
    arguments = ["entrance", "--listen", listen, "--access", broker["ACCESS"], "--socket", socket_path]
    process = subprocess.Popen([sys.executable, "-c", BRAID, *arguments], cwd=ROOT)  # noqa: S603 - our own
    yield broker["ENTRANCE_PORT"]
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(BOUND)


def test_tenants_come_in_by_lists_that_change(broker: dict[str, str], entrance: str) -> None:
    """It waits for the lists; who is added to them later comes in, Braid's own user only at its own listener."""
    until(lambda: comes_in(broker["PORT"], "braid", "own"), "Braid's own user to come in")
    until(lambda: comes_in(entrance, user_of("ann"), "secret"), "ann to come in")
    assert not comes_in(entrance, "braid", "own")
    assert not comes_in(entrance, user_of("bob"), "secret")
    assert not comes_in(broker["PORT"], user_of("ann"), "secret")
    keep(broker, "ann", "bob")
    until(lambda: comes_in(entrance, user_of("bob"), "secret"), "the lists to be read again")
    config = Path(broker["RUN"], "mosquitto.conf").read_text(encoding="utf-8")
    assert "@" not in config
    assert "own" not in Path(broker["RUN"], "passwords").read_text(encoding="utf-8").split(":")


def test_nobody_but_its_group_reaches_the_socket(broker: dict[str, str]) -> None:
    """Who came in past the entrance could use the client ids of others."""
    keep(broker, "ann")
    socket_path = Path(broker["TENANTS"], "socket")
    until(socket_path.exists, "mosquitto's socket")
    assert not socket_path.stat().st_mode & 0o007


def keep(broker: dict[str, str], *tenants: str) -> None:
    """Write the lists as the manager does."""
    folder = Path(broker["ACCESS"])
    (folder / "acl").write_text(access_list({tenant: Grant(tenant=tenant) for tenant in tenants}), encoding="utf-8")
    hashes = {user_of(tenant): hashed("secret") for tenant in tenants}
    (folder / "passwords").write_text(password_list(hashes), encoding="utf-8")


def comes_in(port: str, user: str, password: str) -> bool:
    """Whether the broker lets somebody in."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(user, password)
    answers: list[bool] = []
    client.on_connect = lambda _client, _data, _flags, code, _properties: answers.append(not code.is_failure)
    try:
        client.connect("127.0.0.1", int(port))
        deadline = time.monotonic() + BOUND
        while not answers and time.monotonic() < deadline:
            client.loop(0.1)
    except OSError:
        return False
    finally:
        client.disconnect()
    return answers == [True]


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.1)
