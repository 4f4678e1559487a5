"""The writer of series: what it finds between two looks at the counters, and what it does not know."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.series.figures import SeriesFigures
from manager.series.resolutions import FINEST, read_steps, window
from manager.series.writer import SeriesWriter
from tests.manager.managers import Manager

EPOCH = 1_000 * 3_600
"""When tests begin: at a full hour."""
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = 10**9


class Scene:
    """Two dataflows that share all tasks but the sinks, a writer, and clocks that a test sets."""

    def __init__(self, url: str) -> None:
        self.now = 100.0
        self.steps = 0
        """The steps for which tasks have worked."""
        self.run = 1
        self.manager = Manager(url).lead()
        self.manager.admit("ann", "bob")
        self.manager.register("weather")
        self.ann = self.manager.submit("ann", "s:source > a:map > k:sink")
        self.bob = self.manager.submit("bob", "s:source > a:map > b:map > k:sink")
        with self.manager.committer.looking() as state:
            (self.job,) = map(str, state.plans)
            self.tasks = tuple(sorted(each for each, task in state.running.tasks.items() if task.inputs))
            self.sinks = {dataflow.tenant: dataflow.places["k"] for dataflow in state.running.dataflows.values()}
            self.source = next(iter(state.sources.values())).supplied.stream
        self.writer = self.writing(self.manager)
        self.hear()

    def writing(self, manager: Manager) -> SeriesWriter:
        tools = replace(manager.tools, seeing=self.manager.seen)
        return SeriesWriter(tools, clock=lambda: self.now, wall=lambda: EPOCH + self.now - 100.0)

    def hear(self) -> None:
        """Let the host and the job report their counters."""
        cpu = self.steps * 6.0
        self.manager.seen.every_host = (HostSeen(host="north", alive=True, cpu={"jvm": cpu}, seen=NOW),)
        did: dict[int, InstanceMeasured] = {
            each: InstanceMeasured(
                cpu_ns=self.steps * SECOND, taken=self.steps * 10, dead=self.steps * (each == self.tasks[0])
            )
            for each in self.tasks
        }
        outputs = {self.ann: {"k": {"p50": 0.1, "p99": 0.4}}}
        streams = {
            self.source: StreamMeasured(entered=self.steps * 30, lag_events=7),
            "other": StreamMeasured(entered=9_999),
        }
        last = Measured(at=self.now, run=self.run, batch=self.steps, instances=did, streams=streams, outputs=outputs)
        job = JobSeen(job=self.job, host="north", state="running", measured=(last,), seen=NOW)
        self.manager.seen.jobs[self.job] = job

    def go_on(self, steps: int = 1, *, hears: bool = True, writer: SeriesWriter | None = None) -> None:
        """Look after each step; tasks work meanwhile, and report it unless nothing is heard of them."""
        for _ in range(steps):
            self.now += FINEST
            self.steps += 1
            if hears:
                self.hear()
            (writer or self.writer).look()

    def read(self, dataflow: str) -> list[SeriesFigures | None]:
        """What is known of each step since the beginning."""
        with self.manager.store.read() as session:
            return read_steps(session, dataflow, window(EPOCH, EPOCH + self.now - 100.0))


@pytest.fixture
def scene(sqlite: str) -> Iterator[Scene]:
    made = Scene(sqlite)
    yield made
    made.manager.close()


def test_each_dataflow_has_its_own_figures(scene: Scene) -> None:
    """Events of its sources and at its outputs, dead letters of its tasks, ages of its outputs, and its share."""
    scene.writer.look()
    scene.go_on(2)
    (first, second), (others, _) = scene.read(scene.ann), scene.read(scene.bob)
    assert first == second
    assert first is not None
    assert others is not None
    assert (15.0, 30, 10, 1, 7) == (first.seconds, first.events_in, first.events_out, first.dead, first.waiting)
    assert (0.1, 0.4) == (first.latency_p50, first.latency_p99)
    assert (30, 10, 1) == (others.events_in, others.events_out, others.dead)
    assert others.latency_p50 is None
    assert first.cores is not None
    assert first.alone is not None
    # A second of each task in each step; what both need is halved.
    assert (1 + 0.5) / 15 <= first.cores < first.alone
    assert others.cores is not None
    assert first.cores < others.cores


def test_what_is_not_known_is_a_gap_and_not_zero(scene: Scene) -> None:
    """A job that is silent has no figures, and when it reports again what it did meanwhile counts once."""
    scene.writer.look()
    scene.go_on()
    scene.go_on(4, hears=False)
    scene.go_on()
    found = scene.read(scene.ann)
    assert [30, None, None, None, None] == [one and one.events_in for one in found[:5]]
    assert found[5] is not None
    assert (5 * 30, 5 * 15.0) == (found[5].events_in, found[5].seconds)


def test_a_restarted_job_counts_from_its_restart(scene: Scene) -> None:
    """Nothing is ever less than zero."""
    scene.writer.look()
    scene.go_on(3)
    scene.run, scene.steps = 2, 0
    scene.go_on()
    assert [30, 30, 30, 30] == [one and one.events_in for one in scene.read(scene.ann)]


def test_a_new_leader_goes_on(scene: Scene) -> None:
    """Its first look finds where the counters stand; only the leader writes."""
    scene.writer.look()
    scene.go_on(2)
    other = Manager(scene.manager.url, "two").lead()
    scene.go_on()
    writer = scene.writing(other)
    writer.look()
    scene.go_on(2, writer=writer)
    assert [30, 30, None, 30, 30] == [one and one.events_in for one in scene.read(scene.ann)]
    other.close()


def test_a_writer_that_ended_forgets(scene: Scene) -> None:
    """What was done while another manager led is not its own step's."""
    scene.writer.look()
    scene.go_on()
    scene.writer.end()
    scene.go_on(2)
    assert [30, None, 30] == [one and one.events_in for one in scene.read(scene.ann)]


def test_a_removed_dataflow_has_no_new_steps(scene: Scene) -> None:
    """Its old ones stay, and others' go on."""
    scene.writer.look()
    scene.go_on()
    scene.manager.changes.dataflows.remove(scene.bob, who="bob")
    scene.go_on()
    assert [True, False] == [one is not None for one in scene.read(scene.bob)]
    assert [True, True] == [one is not None for one in scene.read(scene.ann)]


def test_no_cpu_means_no_cores(scene: Scene) -> None:
    """Of hosts that do not report theirs; all else is known."""
    scene.writer.look()
    scene.now += FINEST
    scene.steps += 1
    scene.hear()
    scene.manager.seen.every_host = ()
    scene.writer.look()
    (found,) = scene.read(scene.ann)
    assert found is not None
    assert (None, None, 30) == (found.cores, found.alone, found.events_in)
