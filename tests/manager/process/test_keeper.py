"""The keeper of broker and host: it outlives managers, is adopted, and ends when it is asked to."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bridge.transport.mqtt_client import MqttClient, NotConnected
from manager.process import keeper, keeper_process
from manager.process.keeper import KeeperDown, KeeperHandle
from manager.process.keeper_process import BROKER_USER, KeeperOrder, first_free, folder, read_record
from tests.clock import set_clock
from tests.integration.serving import runs

BOUND = 60.0


@pytest.fixture
def order(tmp_path: Path) -> KeeperOrder:
    return KeeperOrder(root=str(tmp_path / "root"), release="1")


@pytest.fixture
def kept(order: KeeperOrder) -> Iterator[KeeperHandle]:
    made = KeeperHandle(order)
    made.start()
    yield made
    made.stop()


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {BOUND:g} s: {what}")
        time.sleep(0.02)


def connects(made: KeeperHandle) -> bool:
    """Whether the broker lets Braid in."""
    client = MqttClient(made.address, "tester")
    try:
        client.start()
    except NotConnected:
        return False
    client.stop()
    return made.address.user == BROKER_USER


def below(made: KeeperHandle) -> list[psutil.Process]:
    """The keeper's process and those below it."""
    process = psutil.Process(made.pid)
    return [process, *process.children(recursive=True)]


def test_a_keeper_is_a_process_apart(kept: KeeperHandle) -> None:
    """It has a session of its own, so that what ends the manager's terminal or group does not end it."""
    assert connects(kept)
    assert kept.pid is not None
    assert kept.pid == os.getsid(kept.pid) != os.getsid(0)


def test_the_next_manager_adopts_it(kept: KeeperHandle, order: KeeperOrder) -> None:
    """The same process goes on, and ends when the second is asked to stop."""
    kept.leave()
    other = KeeperHandle(order)
    other.start()
    assert (kept.pid, kept.address) == (other.pid, other.address)
    processes = below(other)
    other.stop()
    until(lambda: not any(map(runs, processes)), "the end of all")


def test_a_keeper_of_something_else_is_replaced(kept: KeeperHandle, order: KeeperOrder) -> None:
    """What is wanted now is kept, and the broker is where it was: sessions and hosts elsewhere know its address."""
    before, address = kept.pid, kept.address
    kept.leave()
    other = KeeperHandle(replace(order, release="2"))
    other.start()
    assert before != other.pid
    assert address == other.address
    other.stop()


def test_one_that_died_is_started_again(kept: KeeperHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its broker died with it, and comes back where it was."""
    monkeypatch.setattr(keeper, "_BACK_OFF", 0.0)
    before, address, processes = kept.pid, kept.address, below(kept)
    processes[0].kill()
    until(lambda: kept.pid != before, "another keeper")
    until(lambda: not any(map(runs, processes)), "the end of what was below it")
    assert address == kept.address
    assert connects(kept)


def test_a_broker_that_died_is_started_again(kept: KeeperHandle) -> None:
    """By its keeper, which stays."""
    keeper, broker = below(kept)
    broker.kill()
    until(lambda: not runs(broker) and len(below(kept)) > 1, "another broker")
    until(lambda: connects(kept), "to be let in")
    assert keeper.pid == kept.pid


def test_of_one_that_was_stopped_nothing_is_left(kept: KeeperHandle) -> None:
    """And what it says of itself misleads nobody: the next one starts anew, at the same address."""
    processes, address = below(kept), kept.address
    kept.stop()
    assert [] == [each for each in processes if runs(each)]
    kept.start()
    assert address == kept.address


def test_only_its_owner_may_read_what_it_says(kept: KeeperHandle, order: KeeperOrder) -> None:
    """It holds the broker's password, which no command line shows."""
    password = kept.address.password
    assert password
    root = Path(order.root)
    paths = [folder(root) / "record", root / "broker.url"]
    assert [0o600, 0o600] == [path.stat().st_mode & 0o777 for path in paths]
    assert not [each for each in below(kept) if any(password in word for word in each.cmdline())]


def test_tenants_have_an_entrance_of_their_own(entrance: KeeperOrder) -> None:
    """Where access is kept, the broker listens for them on a second port, and reads the lists again when asked."""
    made = KeeperHandle(entrance)
    made.reload()
    assert made.start().entrance not in {None, made.address.port}
    made.reload()
    assert connects(made)
    made.stop()


def test_a_keeper_that_does_not_come_up_is_quoted(order: KeeperOrder) -> None:
    """The error says what it last wrote."""
    made = KeeperHandle(replace(order, entrance=True))
    with pytest.raises(KeeperDown, match=r"the keeper did not come up; it last wrote: .*passwords is missing"):
        made.start()
    made.stop()


def test_another_process_with_its_id_is_not_taken_for_it(kept: KeeperHandle, order: KeeperOrder) -> None:
    """Ids of processes come round; the time when it began tells."""
    record = read_record(Path(order.root))
    assert record is not None
    assert keeper._alive(record) is not None
    assert keeper._alive(replace(record, began=f"1{record.began}")) is None
    assert runs(psutil.Process(kept.pid))


def test_a_keeper_lives_whatever_the_clock_is_set_to(
    kept: KeeperHandle, order: KeeperOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still taken for the one that was started, goes on under the next manager, and ends when it is asked to."""
    kept.leave()
    processes = below(kept)
    set_clock(monkeypatch, by=-1.0)
    other = KeeperHandle(order)
    assert kept.pid == other.start().pid
    other.stop()
    until(lambda: not any(map(runs, processes)), "the end of all")


def test_a_record_that_cannot_be_read_is_passed_over(order: KeeperOrder) -> None:
    """A keeper is started then."""
    path = folder(Path(order.root))
    path.mkdir(parents=True)
    (path / "record").write_text("{")
    made = KeeperHandle(order)
    made.start()
    assert connects(made)
    made.stop()


def test_a_keeper_that_hangs_is_killed(kept: KeeperHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that is below it, once its time is over."""
    monkeypatch.setattr(keeper, "_END_PATIENCE", 0.1)
    processes = below(kept)
    processes[0].send_signal(signal.SIGSTOP)
    kept.stop()
    until(lambda: not any(map(runs, processes)), "the end of all")


@pytest.fixture
def entrance(order: KeeperOrder) -> KeeperOrder:
    """An order with an entrance, which has its lists."""
    access = Path(order.root) / "access"
    access.mkdir(parents=True)
    for name in ("acl", "passwords"):
        (access / name).touch()
    return replace(order, entrance=True)


@contextmanager
def taken(port: int = 0) -> Iterator[int]:
    """A port that a stranger listens on."""
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        yield stranger.getsockname()[1]


@pytest.fixture
def standard(monkeypatch: pytest.MonkeyPatch) -> int:
    """A free port in the place of the standard one, which the tests of other services may not depend on either."""
    with taken() as port:
        monkeypatch.setattr(keeper_process, "MQTT_PORT", port)
    monkeypatch.setattr(keeper_process, "_TAKE_PATIENCE", 0.0)
    return port


def ports(order: KeeperOrder, had: tuple[int, int] | None = None) -> tuple[int, int]:
    """Where a keeper's broker listens for Braid and for tenants, if the one before it listened there."""
    before = None
    if had is not None:
        url = f"mqtt://{BROKER_USER}:secret@127.0.0.1:{had[0]}"
        before = keeper_process.KeeperRecord(pid=1, began="1", digest="", broker=url, entrance=had[1])
    with keeper_process._broker(order, Path(order.root), before) as broker:
        assert broker.entrance is not None
        return broker.address(BROKER_USER).port, broker.entrance.port


def test_tenants_come_in_at_the_standard_port_where_it_is_free(entrance: KeeperOrder, standard: int) -> None:
    """Every client of MQTT tries it first; another service on the machine gets another port."""
    own, first = ports(entrance)
    with taken(standard):
        _, other = ports(entrance)
    assert (standard, True, True) == (first, own != standard, other not in {standard, own})


def test_ports_stay_the_same_over_starts(entrance: KeeperOrder, standard: int) -> None:
    """Those that a broker had are taken again, whether or not the standard one is free by then."""
    with taken(standard):
        before = ports(entrance)
    assert before == ports(entrance, before)


def test_a_port_that_a_stranger_has_is_given_up_alone(
    entrance: KeeperOrder, standard: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one stays; where the broker is from now on is logged, and kept like any other."""
    own, _ = before = ports(entrance)
    with taken(standard):
        same, moved = ports(entrance, before)
        assert (own, True) == (same, moved not in before)
        assert f"port {standard} is in use by somebody else; the broker listens for tenants on {moved}" in caplog.text
    assert (own, moved) == ports(entrance, (own, moved))
    with taken(own):
        assert (True, moved) == ((found := ports(entrance, (own, moved)))[0] != own, found[1])


def test_who_is_quicker_gets_the_port(entrance: KeeperOrder, standard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another broker takes it between the look and the start, another port is chosen."""
    looks = iter([True])
    monkeypatch.setattr(
        keeper_process,
        "first_free",
        lambda host, *wanted: standard if standard in wanted and next(looks, False) else first_free(host, *wanted),
    )
    with taken(standard):
        assert standard not in ports(entrance)


def test_the_ports_of_a_keeper_are_written_down_in_its_root(entrance: KeeperOrder) -> None:
    """The next one takes them from there, after an end as after a kill."""
    made = KeeperHandle(entrance)
    before = made.start().entrance, made.address
    made.stop()
    assert before == (made.start().entrance, made.address)
    processes = below(made)
    made.leave()
    processes[0].kill()
    until(lambda: not runs(processes[0]), "the end of the keeper")
    # It buries the process that it started.
    made.stop()
    other = KeeperHandle(entrance)
    assert before == (other.start().entrance, other.address)
    other.stop()
