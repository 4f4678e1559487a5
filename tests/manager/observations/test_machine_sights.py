"""Sights of machines: what is kept of their statuses, and when they count as lost."""

from collections.abc import Iterator

import pytest

from bridge import topics
from manager.observations.reports import MachineStatus, read_machine_status
from manager.observations.sight import MACHINE_SILENT_AFTER
from ring.fleet import HostReport
from tests.manager.observations.listened_host import Hearing

STATUS = {"machine": "m", "alive": True, "boot": "1", "at": "10.0.0.1:7", "secret": "never shown"}


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    made = Hearing()
    made.listener.start()
    made.until_complete()
    yield made
    made.listener.stop()


def say(hearing: Hearing, **fields: object) -> MachineStatus:
    hearing.say(topics.machine("m", "status"), STATUS | fields)
    hearing.settle()
    return hearing.listener.machines()["m"][0]


def test_a_status_is_kept_whole(hearing: Hearing) -> None:
    """Each field is what the machine reported, and unknown ones are passed over."""
    report = {"version": 2, "in_sync": ["b"], "behind_bytes": 7, "later": 1}
    status = say(hearing, zone="z", tags=["gpu"], types=["map"], root="r", cores=2, hosts={"h": report}, later=1)
    seen = status.seen
    assert (status.boot, status.secret, seen.at, seen.zone, seen.root) == ("1", "never shown", "10.0.0.1:7", "z", "r")
    assert (seen.tags, seen.types, seen.cores) == (frozenset({"gpu"}), frozenset({"map"}), 2.0)
    assert dict(seen.hosts) == {"h": HostReport(version=2, in_sync=frozenset({"b"}), behind_bytes=7)}


def test_a_secret_is_not_written_into_logs(hearing: Hearing) -> None:
    """The text of a status does not contain it."""
    assert "never shown" not in repr(say(hearing))


def test_a_will_ends_a_machine_at_once(hearing: Hearing) -> None:
    """What it reported last stays known, and its next status brings it back."""
    say(hearing, zone="z", hosts={"h": {"version": 2}})
    hearing.say(topics.machine("m", "status"), {"machine": "m", "alive": False})
    hearing.settle()
    seen = hearing.listener.machines()["m"][0].seen
    assert (seen.alive, seen.zone, seen.hosts["h"].version) == (False, "z", 2)
    assert say(hearing, boot="2").seen.alive


def test_a_machine_says_which_hosts_are_its_own(hearing: Hearing) -> None:
    """Also by its last will, and by default it is the one of its name."""
    assert say(hearing).seen.own_hosts == ("m",)
    assert say(hearing, own=["m", "m.2"]).seen.own_hosts == ("m", "m.2")
    assert say(hearing, alive=False, own=["m", "m.2"]).seen.own_hosts == ("m", "m.2")


def test_machines_may_be_missed_until_silence_tells_something(hearing: Hearing) -> None:
    """As long as a live machine may not have been heard over this connection, and while there is none."""
    assert hearing.listener.misses_machines()
    hearing.clock += MACHINE_SILENT_AFTER + 1.0
    assert not hearing.listener.misses_machines()
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(hearing.listener.misses_machines, "the end of the connection")


def test_a_silent_machine_is_lost(hearing: Hearing) -> None:
    """It counts as alive until it was silent for too long while the broker was connected."""
    say(hearing)
    hearing.clock += MACHINE_SILENT_AFTER
    assert hearing.listener.machines()["m"][0].seen.alive
    hearing.clock += 0.1
    assert not hearing.listener.machines()["m"][0].seen.alive
    assert say(hearing).seen.alive


def test_silence_is_counted_from_the_connection_on(hearing: Hearing) -> None:
    """A machine is not lost because the manager could not hear it."""
    say(hearing)
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(lambda: not hearing.listener.sight().complete, "the end of the connection")
    hearing.broker.publish(topics.machine("m", "status"), b"", retain=True)
    hearing.clock += 100.0
    assert hearing.listener.machines()["m"][0].seen.alive
    hearing.client.start()
    hearing.until_complete()
    hearing.clock += MACHINE_SILENT_AFTER
    assert hearing.listener.machines()["m"][0].seen.alive
    hearing.clock += 0.1
    assert not hearing.listener.machines()["m"][0].seen.alive


def test_a_cleared_status_forgets_the_machine(hearing: Hearing) -> None:
    """So an operator can remove one that will never come back."""
    say(hearing)
    hearing.say(topics.machine("m", "status"), b"")
    hearing.settle()
    assert hearing.listener.machines() == {}


@pytest.mark.parametrize(
    ("fields", "is_news"),
    [
        ({}, False),
        ({"hosts": {"h": {"version": 1, "behind_bytes": 5}}}, False),
        ({"hosts": {"h": {"version": 1, "in_sync": ["b"]}}}, True),
        ({"secret": "another"}, True),
        ({"alive": False}, True),
    ],
)
def test_only_some_changes_are_news(hearing: Hearing, fields: dict[str, object], *, is_news: bool) -> None:
    """What changes all the time wakes nobody."""
    say(hearing, hosts={"h": {"version": 1}})
    calls: list[int] = []
    hearing.listener.on_news(lambda: calls.append(1))
    hearing.say(topics.machine("m", "status"), {**STATUS, "hosts": {"h": {"version": 1}}, **fields})
    hearing.settle()
    # Those of `settle` itself.
    assert len(calls) - 2 == int(is_news)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"at": "x"}', b'{"alive": true, "cores": "many"}'])
def test_an_unreadable_status_is_refused(payload: bytes) -> None:
    """The listener passes over what raises ValueError."""
    with pytest.raises(ValueError, match="validation error"):
        read_machine_status("m", payload)
