"""Connections outside, checked where they are made: names that change, redirects, libraries with threads."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec.asyn
import pytest

from dags import Secret
from engine.implementations.outside.file_stores import OpenedFolder, RemoteFileStore, guarded
from engine.outside import HostBarred, HostOutside
from engine.side_effect import OutsideUnreachable
from tests.tasks.worksite import OWNER, allow, keep_secret

LISTED, OTHER = "127.0.0.1", "127.0.0.2"
NAME = "moves.example"


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    """A tenant's secret at a host whose operator lists one address."""
    keep_secret(tmp_path, "lake", "unused")
    allow(tmp_path, LISTED)
    return Secret.model_validate({"secret": "lake", "owner": OWNER}, context={"outside": HostOutside(tmp_path)})


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which both addresses take connections."""
    with socket.create_server((LISTED, 0)) as first:
        number = first.getsockname()[1]
        with socket.create_server((OTHER, number)):
            yield number


def looked_up(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Have each look-up of the name give the next of some addresses."""
    left, ask = list(answers), socket.getaddrinfo

    def answer(host: Any, port: Any, *about: Any, **more: Any) -> Any:
        return ask(left.pop(0) if host == NAME else host, port, *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def connect(address: str, port: int) -> None:
    socket.create_connection((address, port), timeout=5).close()


def test_a_name_with_another_address_the_second_time_leads_nowhere(
    secret: Secret, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that is connected to is checked, not only the one that was looked up first."""
    looked_up(monkeypatch, LISTED, LISTED, LISTED, OTHER)
    with guarded(secret, [NAME]):
        connect(NAME, port)
    with guarded(secret, [NAME]) as guard, pytest.raises(HostBarred, match="tasks may not connect to"):
        connect(NAME, port)
    assert "only an operator can allow it" in guard.refused


def test_a_listed_name_leads_to_the_addresses_that_it_has(
    tmp_path: Path, secret: Secret, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that lists a name need not list its addresses; another address is as barred as before."""
    allow(tmp_path, NAME)
    looked_up(monkeypatch, OTHER, OTHER)
    with guarded(secret, [NAME]):
        connect(NAME, port)
        with pytest.raises(HostBarred):
            connect(LISTED, port)


def test_a_library_s_own_thread_is_guarded_too(secret: Secret, port: int) -> None:
    """File systems connect in a thread of fsspec, where a server may redirect them; afterwards it is free again."""

    async def follow(address: str) -> None:
        _, writer = await asyncio.open_connection(address, port)
        writer.close()
        await writer.wait_closed()

    loop = fsspec.asyn.get_loop()
    with guarded(secret, [LISTED]):
        fsspec.asyn.sync(loop, follow, LISTED)
        with pytest.raises(HostBarred):
            fsspec.asyn.sync(loop, follow, OTHER)
    fsspec.asyn.sync(loop, follow, OTHER)


def test_sockets_of_the_machine_are_barred(tmp_path: Path, secret: Secret) -> None:
    """They have no address that an operator could list."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        with guarded(secret, ()), pytest.raises(HostBarred):
            client.connect(path)
        client.connect(path)


def test_a_remote_store_says_why_it_was_not_reached(secret: Secret, port: int) -> None:
    """Whatever the file system makes of a refused connection, the reason is the operator's rule."""

    class Redirected:
        def cat_file(self, *_path: Any, **_about: Any) -> bytes:
            try:
                connect(OTHER, port)
            except OSError as error:
                raise RuntimeError("it is hidden what happened") from error
            return b""

    folder = OpenedFolder(system=Redirected(), path="lake", renames=False, hosts=())
    store = RemoteFileStore(folder, "lake", lambda: guarded(secret, ()))
    with pytest.raises(OutsideUnreachable, match="lake cannot be read: it leads to an address that tasks may not"):
        store.read("a", 4)
