"""What operators ask of scattered jobs, and what they are answered where nothing can be done."""

import time
from collections.abc import Iterator

import pytest
from sqlmodel import col, select

from manager.costs.choice import Chooser
from manager.kernel.transitions import TransitionEvent
from manager.problem import Conflict, StateNotReady
from manager.savings.ledger import MINUTE, write
from manager.savings.settlement import CpuEstimate, Share, Work
from manager.store.tables import MeteredRow
from manager.use_case import Paging
from merge import Host
from tests.manager.managers import OPERATOR, Manager, instance_of, report, take
from tests.manager.savings.metered_minutes import CORE_MINUTE, minute

BUSY = "s:source > a:map{'add': 1} > b:count > k:sink"
IDLE = "s:source > c:map{'add': 2} > k:sink"
SECONDS = 50.0
"""For so long a job has run."""


class Town(Manager):
    """Two dataflows of one source, and what their jobs reported of themselves."""

    def __init__(self, url: str, *, strategy: str) -> None:
        super().__init__(url, strategy=strategy)
        self.equip(chooser=Chooser(self.seen, clock=lambda: SECONDS))

    def jobs(self) -> list[str]:
        return [each.job for each in self.service.running.jobs(OPERATOR, Paging()).items]

    def reasons(self) -> str:
        """Why the move under way was begun, once it was given up."""
        (moving,) = self.changes.moves.under_way()
        take(self.changes.moves, moving.move.id, TransitionEvent.HINDERED, why="a test")
        return self.service.operations.page(OPERATOR, Paging()).items[0].note


def town(url: str, strategy: str) -> Iterator[Town]:
    made = Town(url, strategy=strategy)
    made.lead()
    made.admit("ann")
    made.register("weather")
    for text in (BUSY, IDLE):
        made.submit("ann", text)
    yield made
    made.close()


@pytest.fixture
def packed(sqlite: str) -> Iterator[Town]:
    """Both in one job."""
    yield from town(sqlite, "pack")


@pytest.fixture
def scattered(sqlite: str) -> Iterator[Town]:
    """Each in a job of its own."""
    yield from town(sqlite, "launch")


def test_a_preview_says_what_would_move_and_moves_nothing(scattered: Town) -> None:
    """It is what is then asked for: the same tasks leave the same jobs."""
    jobs = scattered.jobs()
    preview = scattered.service.defragmentation.preview(OPERATOR)
    assert jobs == scattered.jobs()
    move = scattered.service.defragmentation.begin(OPERATOR)
    assert (move.leaves, move.tasks, len(move.joins)) == (preview.leaves, preview.tasks, len(preview.opens))
    assert (1, 0, False) == (preview.jobs, preview.bridges, preview.planned)
    assert preview.why == scattered.reasons().removesuffix("; given up: a test")


def test_by_the_strategy_plan_the_target_is_planned(sqlite: str) -> None:
    """A dataflow that a host no longer has to be cut for comes together; where all is well nothing would move."""
    made = Town(sqlite, strategy="plan")
    try:
        made.lead()
        made.admit("ann")
        made.register("weather")
        made.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag})) for tag in ("fpga", "gpu"))
        made.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
        stays = made.service.defragmentation.preview(OPERATOR)
        assert (0, True, "no task would be better off elsewhere") == (stays.tasks, stays.planned, stays.why)
        made.hosts += (Host(name="both", cores=8.0, tags=frozenset({"fpga", "gpu"})),)
        found = made.service.defragmentation.preview(OPERATOR)
        assert (("both",), 1, 0) == (found.opens, found.jobs, found.bridges)
    finally:
        made.close()


def test_what_is_asked_for_consolidates_scattered_jobs(scattered: Town) -> None:
    """All of them become one, and the journal says what it was worth."""
    left = scattered.jobs()
    move = scattered.service.defragmentation.begin(OPERATOR)
    assert (tuple(left), 1) == (move.leaves, len(move.joins))
    assert scattered.reasons().startswith("it was asked for. It is worth it: ")


def test_what_saves_most_is_named_by_the_figures_of_the_report(scattered: Town) -> None:
    """Sharing and packing as they were metered; where nothing was shared, nothing is said of sharing."""
    scattered.submit("ann", "s:source > a:map{'add': 1} > b:count > k:sink")
    busy = {instance_of(scattered, "count"): 0.001, instance_of(scattered, "map"): 0.001}
    report(scattered, scattered.jobs()[0], busy, SECONDS)
    saves = scattered.service.defragmentation.fragmentation(OPERATOR).saves
    assert (None, 0.0, "defragmenting") == (saves.sharing, saves.packing, saves.most)
    assert saves.crossover_seconds is not None
    assert saves.work_per_batch_seconds < saves.crossover_seconds
    for shared, most in ((0, "packing"), (3 * CORE_MINUTE, "sharing")):
        meter(scattered, shared)
        found = scattered.service.defragmentation.fragmentation(OPERATOR)
        whole = scattered.service.savings.report(OPERATOR).whole
        assert whole is not None
        assert found.saves.sharing == (whole.saved.cores_by_sharing and whole.saved.cores_by_sharing.cores)
        assert (whole.saved.cores_by_packing.likely, most) == (found.saves.packing, found.saves.most)


def meter(town: Town, shared: int) -> None:
    """Meter one more minute, in which so much work was shared."""
    with town.store.write() as session:
        ago = len(session.scalars(select(MeteredRow).where(col(MeteredRow.span) == MINUTE)).all()) + 1
        share = Share(
            tenant="ann", cpu=0, alone=CpuEstimate(), saving=CpuEstimate(), work=Work(done=1, alone=1 + shared)
        )
        assert write(session, "one", [minute(int(time.time()) // MINUTE * MINUTE - ago * MINUTE, {"d1": share})])


def test_what_is_asked_for_isolates_where_a_job_is_overloaded(packed: Town) -> None:
    """Only what overloads it goes to a job of its own."""
    (job,) = packed.jobs()
    report(packed, job, {instance_of(packed, "count"): 1.2, instance_of(packed, "map"): 0.01}, SECONDS)
    move = packed.service.defragmentation.begin(OPERATOR)
    assert (job,) == move.leaves
    assert 2 == len(move.joins)
    (moving,) = packed.changes.moves.under_way()
    gone = {step.instance for step in moving.move.steps if step.joins != step.leaves}
    assert instance_of(packed, "count") in gone
    assert "it was asked for, and a job is overloaded; given up: a test" == packed.reasons()


def test_where_nothing_would_move_that_is_said(packed: Town) -> None:
    """One job that keeps up with its pace is as it should be."""
    (job,) = packed.jobs()
    report(packed, job, {instance_of(packed, "count"): 0.1}, SECONDS)
    with pytest.raises(Conflict, match="no task would be better off elsewhere"):
        packed.service.defragmentation.begin(OPERATOR)


def test_without_a_host_it_is_not_answered_how_scattered_jobs_are(scattered: Town) -> None:
    """Nor is anything moved; it is worth it to ask again once one is there."""
    scattered.hosts = ()
    asked = scattered.service.defragmentation
    for ask in (asked.fragmentation, asked.preview, asked.begin):
        with pytest.raises(StateNotReady, match="no host can run a task") as refused:
            ask(OPERATOR)
        assert 5.0 == refused.value.retry_after
