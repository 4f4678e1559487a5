"""Laws of quarantine: who is in it shares no job with others, and nothing else changes for anybody."""

from collections.abc import Iterator, Mapping
from random import Random

import networkx as nx
from hypothesis import given, target

from merge import (
    ASSUMED_BUSY,
    BATCH_SECONDS,
    Conditions,
    Costs,
    JobId,
    Jobs,
    Remove,
    RunningGraph,
    Submit,
    decide,
    in_quarantine,
    separated,
)
from merge.placement.strategies import STRATEGIES
from tests.graphs import applied
from tests.laws.moves import HOSTS, at_home, bridges
from tests.laws.test_steps import CHANCE, decisions
from tests.notation import flow
from tests.strategies import START, Walk, walks


def names_in(running: RunningGraph, jobs: Jobs, job: JobId, greedy: frozenset[str]) -> set[str]:
    """Whose tasks that work are in a job: tenants in quarantine by name, all others as nobody."""
    names = in_quarantine(running, greedy)
    return {names.get(each, "") for each in jobs.jobs[job].active if running.tasks[each].inputs}


def ends(walk: Walk, chance: Random) -> tuple[RunningGraph, Jobs]:
    """What runs after a walk, and where."""
    running, jobs = RunningGraph(), Jobs()
    for decided in decisions(walk, chance):
        running, jobs = applied(running, decided.step.change), decided.step.jobs
    return running, jobs


def costs_of(running: RunningGraph) -> Costs:
    """The costs of tasks of which nothing is known."""
    return Costs(pace=1.0, batch=BATCH_SECONDS, busy=dict.fromkeys(running.tasks, ASSUMED_BUSY))


def separations(
    running: RunningGraph, jobs: Jobs, greedy: frozenset[str]
) -> Iterator[tuple[Jobs, Mapping[JobId, str]]]:
    """Separate until nothing is left to do; the jobs after each step, and which are somebody's own."""
    own: dict[JobId, str] = {}
    names = in_quarantine(running, greedy)
    while (found := separated(running, jobs, HOSTS, costs_of(running), quarantined=names, own=own)) is not None:
        jobs = jobs.apply(found)
        for job, _ in found.opens:
            (own[job],) = names_in(running, jobs, job, greedy)
        yield jobs, own


@given(walk=walks(confined=True), chance=CHANCE)
def test_tasks_in_quarantine_end_up_in_jobs_of_their_own(walk: Walk, chance: Random) -> None:
    """After a few moves no job has tasks of two of them, or of one and others; each other task is where it was."""
    running, jobs = ends(walk, chance)
    greedy = frozenset({chance.choice(sorted({each.tenant for each in running.dataflows.values()} or {"nobody"}))})
    names = in_quarantine(running, greedy)
    after = jobs
    for steps, (after, own) in enumerate(separations(running, jobs, greedy), 1):
        assert steps <= len(jobs.jobs)
        assert nx.is_directed_acyclic_graph(after.streams_between())
        assert dict(after.bridges) == bridges(running, at_home(after))
        assert own.keys() <= after.jobs.keys()
    target(float(len(names)))
    assert at_home(jobs).keys() == at_home(after).keys() == running.tasks.keys()
    for job in after.jobs:
        assert len(names_in(running, after, job, greedy)) <= 1
    for instance, task in running.tasks.items():
        if task.inputs and instance not in names:
            assert at_home(jobs)[instance] == at_home(after)[instance]


@given(walk=walks(confined=True), chance=CHANCE)
def test_what_is_submitted_goes_to_own_jobs_only_in_quarantine(walk: Walk, chance: Random) -> None:
    """A tenant's new tasks share jobs with none of before but its own, and nobody else's are placed there."""
    running, jobs = ends(walk, chance)
    greedy = frozenset({"bob"})
    own = frozenset[JobId]()
    for number, document in enumerate((*walk.documents, *walk.documents)):
        tenant = chance.choice(("bob", "ann"))
        conditions = Conditions(
            now=START, hosts=HOSTS, strategy=chance.choice(sorted(STRATEGIES)), quarantined={"bob": own}
        )
        step = decide(running, jobs, Submit(dataflow=flow(document, f"more-{number}", tenant)), conditions)
        joined = {home.job for _, home in step.placed.places if home.job in jobs.jobs}
        assert joined <= own if tenant in greedy else not joined & own
        running, jobs = applied(running, step.change), step.jobs
        if tenant in greedy:
            own |= set(step.opens)


def test_a_task_that_others_need_stays() -> None:
    """What two share leaves only what one of them has alone, and comes once the other has gone."""
    running, jobs = RunningGraph(), Jobs()
    conditions = Conditions(now=START, hosts=HOSTS)
    for name, text in (
        ("ann", "s:source > a:map{'add': 1} > k:sink"),
        ("eve", "s:source > a:map{'add': 1} > b:count > k:sink"),
    ):
        step = decide(running, jobs, Submit(dataflow=flow(text, name, name)), conditions)
        running, jobs = applied(running, step.change), step.jobs
    greedy = frozenset({"eve"})
    first = separated(running, jobs, HOSTS, costs_of(running), quarantined=in_quarantine(running, greedy), own={})
    assert first is not None
    assert {"count", "sink"} == {running.tasks[instance].type.name for instance, _ in first.places}
    step = decide(running, jobs, Remove(dataflow="ann"), conditions)
    running, jobs = applied(running, step.change), step.jobs
    both = separated(running, jobs, HOSTS, costs_of(running), quarantined=in_quarantine(running, greedy), own={})
    assert both is not None
    assert {each for each, _ in both.places} == running.tasks.keys()
