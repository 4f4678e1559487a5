"""The core's division against the engine's: what placement counts on is what a host does."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.job.plan_log import divided
from engine.plan import Subscribed
from manager.planner import Planner, Supplied
from merge import Costs, Host, Jobs, RunningGraph, merge, place
from merge.shards import divided_work
from tests.catalogue import CATALOGUE, SOURCES
from tests.notation import flow

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TEXTS = (
    "s:source > a:count > k:sink",
    "s:source > a:map > b:count > k:sink",
    "s:source > a:lab:one > k:sink",
    "s:source{'source': 'traffic'} > a:window > k:sink",
    "s!:source > a!:count{'by': 'value'} > k:sink",
    "s:source{'source': 'traffic'} > a:count > b:count > k:sink",
    "s:source > a:lab:one > f:file",
    "s:source > a:lab:one > l:look > k:sink",
)


@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5), strategy=st.sampled_from(("pack", "launch")))
def test_a_host_divides_a_plan_as_placement_has_counted(texts: list[str], strategy: str) -> None:
    """The same tasks are divided, and every other one is in the shard in which its load was counted.

    It makes no difference whether a task was submitted or loaded.
    """
    running, jobs = _placed(texts, strategy)
    sources = {name: Supplied(f"source/{name}", Subscribed(topic="raw", fields={})) for name in SOURCES}
    for job in jobs.jobs:
        plan = replace(Planner(running, jobs, sources.__getitem__).plan(job, version=1), shards=3)
        division = divided(plan, CATALOGUE)
        for slot in plan.slots:
            # Only this one does anything.
            busy = {each: float(each == slot.instance) for each in running.tasks}
            tasks = [running.tasks[each] for each in sorted(jobs.jobs[job].active)]
            work = divided_work(tasks, running.tasks, busy)
            assert work == divided_work((replace(each, keeping=None) for each in tasks), running.tasks, busy)
            (entering,) = {division.streams[each] for each in plan.streams if _reads(plan.parts(), each, slot.instance)}
            if work.spread:
                assert (1 / 3, entering.by.name) == (work.fullest(3), "KEY" if entering.key else "POSITION")
            else:
                (part,) = (each for each in work.whole if each.busy)
                assert ("NOTHING", min(part.instances) % 3) == (entering.by.name, entering.shard)


def _reads(parts: Iterable[tuple[frozenset[str], frozenset[int]]], stream: str, instance: int) -> bool:
    return any(stream in streams and instance in instances for streams, instances in parts)


def _placed(texts: Iterable[str], strategy: str) -> tuple[RunningGraph, Jobs]:
    running, jobs = RunningGraph(), Jobs()
    for number, text in enumerate(texts):
        change = merge(running, flow(text, str(number)), NOW)
        running.advance(change)
        placed = place(
            strategy,
            residue=change.residue,
            running=running.tasks,
            jobs=jobs,
            hosts=(Host(name="h", cores=8.0),),
            costs=Costs(pace=1.0, batch=0.06, busy=dict.fromkeys(running.tasks, 0.01)),
        )
        jobs = jobs.apply(placed)
    return running, jobs
