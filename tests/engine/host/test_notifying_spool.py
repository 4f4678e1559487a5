"""The spool that a host fills: its index always agrees with its folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Item, PositionsGone, SpoolClosed, SpoolIndex, SpoolReach, commit
from engine.host import spools
from engine.host.spools import NotifyingSpool
from engine.job.pace_keeper import JobSpools
from engine.records.job_folder import spool_folder
from tests.bridge.spools.test_log import data, marker
from tests.engine.late_copies import LateCopies

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

    monkeypatch.setattr(spools, "SpoolIndex", looking)
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
