"""Reception: the spools that a host fills, and receptions that end together."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Item, Message, PositionsGone, SpoolClosed, SpoolFeed, SpoolIndex, SpoolReach, Unread, commit
from bridge.transport.address import Address
from bridge.transport.mqtt_rounds import FETCH_AHEAD, Fetch, Grouping
from dags import Kind, Schema
from engine.host import notifying_spool, reception
from engine.host.notifying_spool import NotifyingSpool
from engine.host.reception import Receptions, _RecentPermit
from engine.job.pace_keeper import JobSpools
from engine.records.job_folder import spool_folder
from tests.bridge.spools.test_log import data, marker
from tests.engine.follower_scene import LateCopies
from tests.twins.memory_clock import MemoryClock
from tests.twins.memory_spool import MemorySpool

ROOMY = 10**9
ITEMS = st.lists(st.one_of(st.integers(1, 3).map(lambda many: data(*range(many))), st.just(marker("m"))), max_size=3)
ACTS = st.lists(st.one_of(ITEMS, st.integers(0, 20), st.none()), max_size=12)
"""Steps: items are appended; a consumer commits a position; None asks for the reach of a batch."""


def made(folder: Path, on_growth: Callable[[bool], None] = lambda _marked: None) -> NotifyingSpool:
    return NotifyingSpool(folder, most_bytes=ROOMY, on_growth=on_growth)


def reached(spool: NotifyingSpool | SpoolIndex, start: int, size: int) -> SpoolReach | None:
    try:
        return spool.reach(start, size)
    except PositionsGone:
        return None


@given(acts=ACTS, size=st.sampled_from([0, 300, 700, ROOMY]))
def test_its_reach_agrees_with_a_reader_of_its_folder(acts: Sequence[Sequence[Item] | int | None], size: int) -> None:
    """Whenever it is first asked for, and whatever is appended and removed before and after."""
    with TemporaryDirectory() as folder:
        spool = made(Path(folder) / "spool")
        commit(spool.folder, "job", 0)
        for act in acts:
            if act is None:
                reached(spool, 0, size)
            elif isinstance(act, int):
                commit(spool.folder, "job", min(act, spool.end))
                spool.prune()
            else:
                spool.append(act)
        looking = SpoolIndex(spool.folder)
        starts = range(spool.end + 1)
        assert [reached(looking, start, size) for start in starts] == [reached(spool, start, size) for start in starts]
        assert looking.marker_position("m") == spool.marker_position("m")
        spool.close()


def test_items_that_come_while_the_index_is_built_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends do not wait meanwhile."""
    spool = made(tmp_path / "spool")
    spool.append([data(1)])

    def looking(folder: Path) -> SpoolIndex:
        index = SpoolIndex(folder)
        spool.append([data(2)])
        return index

    monkeypatch.setattr(notifying_spool, "SpoolIndex", looking)
    assert 2 == spool.reach(0, ROOMY).end
    spool.append([data(3)])
    assert 3 == spool.reach(0, ROOMY).end
    spool.close()


def test_of_two_appends_the_second_may_notify_first(tmp_path: Path) -> None:
    """The items of the first are neither passed over nor taken twice."""
    spool = made(tmp_path / "spool")
    index = SpoolIndex(spool.folder)
    appended = [[marker("m")], [data(1)], [data(2)]]
    first, second, third = ((spool.append(items), items) for items in appended)
    for at in (second, first, third):
        index.feed(*at)
    assert SpoolReach(end=1, size=1, marker="m") == index.reach(0, ROOMY)
    assert SpoolIndex(spool.folder).reach(1, ROOMY) == index.reach(1, ROOMY)
    spool.close()


def test_it_notifies_when_it_has_grown(tmp_path: Path) -> None:
    """The listener finds the new items, and learns whether there is a marker; nothing new is no notification."""
    heard: list[tuple[bool, int]] = []
    spool = made(tmp_path / "spool", lambda marked: heard.append((marked, spool.reach(0, 0).end)))
    spool.append([data(1)])
    spool.append([])
    spool.append([data(2), marker("m")])
    assert [(False, 1), (True, 1)] == heard
    spool.close()


def test_a_job_reads_the_folders_of_foreign_spools_only(tmp_path: Path) -> None:
    """A spool of its host is up to date; once the host does not fill it any more, the job reads its folder."""
    own, foreign = (made(spool_folder(tmp_path, name)) for name in ("own", "foreign"))
    owned = {"own": own}
    spools = JobSpools(tmp_path, owned.get)
    for spool in (own, foreign):
        spool.append([data(1)])
    readable = spools.readable(["own", "foreign"])
    assert readable["own"] is own
    assert [1, 1] == [readable[name].reach(0, ROOMY).end for name in ("own", "foreign")]
    assert (None, 1) == (spools.end("own"), spools.end("foreign"))
    assert (True, False) == (spools.all_notify(["own"]), spools.all_notify(["own", "foreign"]))
    owned.clear()
    assert 1 == spools.readable(["own"])["own"].reach(0, ROOMY).end
    assert not spools.all_notify(["own"])
    for spool in (own, foreign):
        spool.close()


def test_what_is_appended_is_at_all_peers_before_anybody_hears_of_it(tmp_path: Path) -> None:
    """A job is notified after the copies are complete, and so is the one that appended."""
    copies, order = LateCopies(), list[str]()

    def settle(*folders: Path) -> None:
        order.append("copied")
        LateCopies.settle(copies, *folders)

    copies.settle = settle  # type: ignore[method-assign]  # to see when it is called
    grown = NotifyingSpool(
        tmp_path / "spool", most_bytes=ROOMY, on_growth=lambda _marked: order.append("grown"), copies=copies
    )
    grown.append([data(1)])
    assert ["copied", "grown"] == order
    assert [(tmp_path / "spool",)] == copies.waited
    grown.close()


def test_a_spool_whose_host_another_machine_carries_takes_nothing(tmp_path: Path) -> None:
    """What it cannot copy it does not acknowledge: it counts as closed."""
    copies = LateCopies()
    spool = NotifyingSpool(tmp_path / "spool", most_bytes=ROOMY, on_growth=lambda _marked: None, copies=copies)
    copies.ended = True
    with pytest.raises(SpoolClosed, match="another machine carries this host"):
        spool.append([data(1)])
    spool.close()


BOUND = 20.0


class MqttClient:
    """A client that passes on a test's messages, and notes that it was stopped."""

    made: list["MqttClient"]

    def __init__(
        self,
        *_arguments: object,
        on_messages: Callable[[Sequence[Message]], None],
        grouping: Grouping,
        **_more: object,
    ) -> None:
        self.deliver = on_messages
        self.grouping = grouping
        self.stopped = threading.Event()
        self.made.append(self)

    def begin(self) -> None: ...

    def confirm(self) -> None: ...

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None: ...

    def stop(self) -> None:
        self.stopped.set()


def test_a_reception_that_died_of_an_error_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that died may itself be waiting until all receptions have stopped."""
    MqttClient.made = []
    monkeypatch.setattr(reception, "MqttClient", MqttClient)
    hung_up: list[bool] = []

    def breaks(_reported: Unread | str) -> NoReturn:
        raise KeyError("an error that nobody foresaw")

    def give_up(_died: Any) -> None:
        leaving = threading.Thread(target=receptions.hang_up)
        leaving.start()
        leaving.join(BOUND)
        hung_up.append(not leaving.is_alive())
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", give_up)
    address = Address.parse("mqtt://127.0.0.1")
    receptions = Receptions(tmp_path, "h", address, MQTTProtocolVersion.MQTTv5, on_unread=breaks, clock=MemoryClock())
    for topic in ("a", "b"):
        feed: Any = SpoolFeed(spool=MemorySpool(), schema=Schema.of({"n": Kind.INTEGER}))
        receptions.begin(f"raw/{topic}", {topic: feed}, due=lambda _after: 0.0, on_unread=breaks, on_trouble=breaks)
    MqttClient.made[0].deliver([Message("a", b"no JSON", 1)])
    assert ended.wait(BOUND)
    assert ([True], [True, True]) == (hung_up, [each.stopped.is_set() for each in MqttClient.made])


def test_raw_messages_are_grouped_for_their_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are fetched just before their next batch is due."""
    MqttClient.made = []
    monkeypatch.setattr(reception, "MqttClient", MqttClient)
    address, dues, few = Address.parse("mqtt://127.0.0.1"), [7.0], Fetch(messages=25, most=26)
    clock = MemoryClock(7.0)
    receptions = Receptions(
        tmp_path, "h", address, MQTTProtocolVersion.MQTTv5, on_unread=lambda _unread: None, clock=clock
    )
    feed: Any = SpoolFeed(spool=MemorySpool(), schema=Schema.of({"n": Kind.INTEGER}))
    receptions.begin(
        "raw",
        {"raw": feed},
        due=lambda _after: max(dues),
        on_unread=lambda _unread: None,
        on_trouble=lambda _trouble: None,
    )
    (raw,) = MqttClient.made
    found = [raw.grouping(few)]
    dues.append(7.2)
    found.append(raw.grouping(few))
    receptions.hang_up()
    assert [0.05, pytest.approx(0.2 - FETCH_AHEAD)] == found


def test_a_permit_to_connect_is_asked_once_for_many_clients() -> None:
    """All clients of a host connect at once after its broker was away; a refusal holds for none of them."""
    answers = [False, True]
    permit = _RecentPermit(lambda: answers.pop(0))
    assert [False, True, True, True] == [permit() for _ in range(4)]
