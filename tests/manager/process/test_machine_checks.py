"""The doctor's checks for machines that run hosts: disk, clock, and the way to each other."""

import itertools
import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from manager.client import Client
from manager.process import doctor
from manager.process.doctor import SLOW_SYNC, Finding, FindingState, copies_reach, service_clock, synced_writes
from manager.settings import ClientSettings, Settings
from tests.manager.client.scripted_service import URL, Service, page, refusal

NOW = 1_800_000_000.0
ServiceCheck = Callable[[ClientSettings, Settings], Finding]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root")


@pytest.fixture
def client(tmp_path: Path) -> ClientSettings:
    return ClientSettings(root=tmp_path / "root", url=URL, key=SecretStr("braid_1_hush"))


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that can be connected to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def serve(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """Have a scripted service answer the client of the checks."""
    monkeypatch.setattr(
        doctor,
        "Client",
        lambda url, key: Client(url, key, transport=httpx.MockTransport(service.answer), sleep=service.waited.append),
    )


@pytest.mark.parametrize(
    ("seconds", "expected"), [(SLOW_SYNC / 2, FindingState.OK), (SLOW_SYNC * 2, FindingState.WARN)]
)
def test_a_disk_that_syncs_slowly_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: FindingState
) -> None:
    """With how long it takes; nothing is left on the disk."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * seconds)
    found = synced_writes(settings)
    assert (found.state, f"takes {seconds * 1_000:.1f} ms" in found.detail) == (expected, True)
    assert list(settings.root.parent.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_reported(settings: Settings) -> None:
    """It is no error of the check."""
    settings.root.write_text("")
    found = synced_writes(settings)
    assert (found.state, str(settings.root) in found.detail) == (FindingState.WARN, True)


@pytest.mark.parametrize(
    ("ahead", "difference"),
    [
        (0, ""),
        (1, ""),
        (-2, ""),
        (5, "is at least 5 s ahead of this machine's"),
        (-8, "is at least 6 s behind this machine's"),
    ],
)
def test_a_clock_that_is_surely_apart_is_reported(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, ahead: int, difference: str
) -> None:
    """Dates have whole seconds and may be a second old, so a little is none."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    date = {"Date": formatdate(NOW + ahead, usegmt=True)}
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(404, headers=date))
    found = service_clock(client, settings)
    assert (found.state is FindingState.WARN, difference in found.detail) == (bool(difference), True)


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_service_without_a_date_is_not_compared(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, date: str | None
) -> None:
    """Another program may answer, or a proxy."""
    headers = {} if date is None else {"Date": date}
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, headers=headers))
    found = service_clock(client, settings)
    assert (found.state, "was not compared" in found.detail) == (FindingState.OK, True)


@pytest.mark.parametrize("check", [service_clock, copies_reach])
def test_a_service_that_does_not_answer_is_reported_if_it_was_named(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, check: ServiceCheck
) -> None:
    """Without a name the one of this machine is asked, which need not be there."""

    def refuse(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("nobody")

    monkeypatch.setattr(httpx, "get", refuse)
    serve(monkeypatch, Service([httpx.ConnectError("nobody")]))
    assert check(client, settings).state is FindingState.WARN
    assert check(client.model_copy(update={"url": None}), settings).state is FindingState.OK


def test_addresses_for_copies_are_tried(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, listening: str
) -> None:
    """Those of machines that are there and take copies; each that is not reached is named, with why."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    machines = [
        {"name": "a", "alive": True, "at": listening},
        {"name": "b", "alive": False, "at": gone},
        {"name": "c", "alive": True, "at": ""},
    ]
    service = Service([page(*machines)])
    serve(monkeypatch, service)
    found = copies_reach(client, settings)
    assert (found.state, found.detail) == (FindingState.OK, "can be sent to a")
    wrong = [{"name": "d", "alive": True, "at": gone}, {"name": "e", "alive": True, "at": "0.0.0.0:1"}]
    service.answers = [page(*machines, *wrong)]
    found = copies_reach(client, settings)
    expected = (
        f"cannot be sent from here to machine d at {gone}: Connection refused, "
        "machine e at 0.0.0.0:1: is no address that others can reach"
    )
    assert (found.state, found.detail) == (FindingState.WARN, expected)


def test_addresses_are_not_tried_without_an_operators_key(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no trouble, and is said."""
    serve(monkeypatch, Service([refusal(403, "forbidden")]))
    for each in (client, client.model_copy(update={"key": None})):
        found = copies_reach(each, settings)
        assert (found.state, "were not tried" in found.detail) == (FindingState.OK, True)
