"""Laws of a decision: a step is its parts, what is refused, and who is in quarantine."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

import networkx as nx
import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from merge import (
    ASSUMED_BUSY,
    BATCH_SECONDS,
    Conditions,
    Costs,
    DataflowExists,
    Instance,
    JobId,
    Jobs,
    NoSuchDataflow,
    Remove,
    Replace,
    Request,
    RunningGraph,
    SignatureCollision,
    StaleChange,
    Step,
    Submit,
    decide,
    explain,
    in_quarantine,
    merge,
    place,
    release,
    separated,
    unmerge,
)
from merge.jobs import MOST_PAUSED
from merge.placement.strategies import STRATEGIES
from tests import strategies
from tests.graphs import applied
from tests.laws.moves import HOSTS, at_home, bridges, expected, picture
from tests.notation import flow
from tests.strategies import START, Document, Walk, documents, families, ran, walks

CHANCE = st.randoms(use_true_random=True)


class Decided(NamedTuple):
    """A step of a walk, with all that it was decided by."""

    request: Request
    running: RunningGraph
    jobs: Jobs
    conditions: Conditions
    step: Step


def decisions(walk: Walk, chance: Random, *, replaces: bool = False) -> Iterator[Decided]:
    """Decide a walk; a submission takes the place of some other dataflow now and then, if that is wanted."""
    running, jobs = RunningGraph(), Jobs()
    for wish in walk.steps:
        request: Request
        if isinstance(wish, strategies.Submit):
            dataflow = flow(walk.documents[wish.document], wish.dataflow, wish.tenant)
            if dataflow.id in running.dataflows:
                continue
            others = sorted(running.dataflows)
            if replaces and others and chance.random() < 0.5:
                request = Replace(dataflow=chance.choice(others), by=dataflow)
            else:
                request = Submit(dataflow=dataflow, from_earliest=chance.random() < 0.2)
        elif wish.dataflow in running.dataflows:
            request = Remove(dataflow=wish.dataflow)
        else:
            continue
        strategy = chance.choice(sorted(STRATEGIES))
        conditions = Conditions(now=START, hosts=HOSTS, strategy=strategy, pace=chance.choice((1.0, 4.0)))
        step = decide(running, jobs, request, conditions)
        yield Decided(request, running, jobs, conditions, step)
        running, jobs = applied(running, step.change), step.jobs


@given(walk=walks(confined=True), chance=CHANCE)
def test_a_replacement_is_a_submission_and_a_removal_at_once(walk: Walk, chance: Random) -> None:
    """What runs, for whom, in which jobs and over which bridges is as if one had come after the other."""
    for request, running, jobs, conditions, step in decisions(walk, chance, replaces=True):
        if isinstance(request, Replace):
            first = decide(running, jobs, Submit(dataflow=request.by), conditions)
            between = applied(running, first.change)
            second = decide(between, first.jobs, Remove(dataflow=request.dataflow), conditions)
            assert picture(applied(running, step.change)) == picture(applied(between, second.change))
            assert at_home(second.jobs) == at_home(step.jobs)
            assert dict(second.jobs.jobs) == dict(step.jobs.jobs)
            assert dict(second.jobs.bridges) == dict(step.jobs.bridges)
            assert first.touches | second.touches == step.touches
            assert (first.opens, second.released.stops) == (step.opens, step.released.stops)


@given(walk=walks(confined=True), chance=CHANCE)
def test_a_step_places_and_releases_as_the_placements_do(walk: Walk, chance: Random) -> None:
    """A submission goes where its strategy places it, alone if it begins at the earliest; a removal is a release."""
    for request, running, jobs, conditions, step in decisions(walk, chance):
        if isinstance(request, Remove):
            assert (release(step.change.stops, jobs).stops, ()) == (step.released.stops, step.opens)
            continue
        assert isinstance(request, Submit)
        assert step.placed == place(
            "launch" if request.from_earliest else conditions.strategy,
            residue=step.change.residue,
            running=applied(running, step.change).tasks,
            jobs=jobs,
            hosts=HOSTS,
            costs=Costs(
                pace=conditions.pace, batch=BATCH_SECONDS, busy=dict.fromkeys(step.change.residue, ASSUMED_BUSY)
            ),
        )
        assert dict.fromkeys(step.touches & set(step.jobs.jobs), conditions.pace) == step.paces


@given(walk=walks(confined=True), chance=CHANCE)
def test_a_job_that_is_not_touched_goes_on_as_it_was(walk: Walk, chance: Random) -> None:
    """Its tasks, what it pauses, the bridges at either end of it, and whom it delivers to all stay as they are."""
    for _, running, jobs, _, step in decisions(walk, chance, replaces=True):
        after = applied(running, step.change)
        for job in {*jobs.jobs, *step.jobs.jobs} - step.touches:
            assert jobs.jobs[job] == step.jobs.jobs[job]
            assert _around(job, running, jobs) == _around(job, after, step.jobs)
            assert _delivered(job, running, jobs) == _delivered(job, after, step.jobs)


@given(walk=walks(), chance=CHANCE)
def test_jobs_keep_no_paused_source_and_not_ever_more_tasks(walk: Walk, chance: Random) -> None:
    """A paused task is one that has a slot, and a job has so many at most."""
    sources = set[Instance]()
    for *_, step in decisions(walk, chance, replaces=True):
        sources |= {task.instance for task in step.change.stops if not task.inputs}
        for job in step.jobs.jobs.values():
            assert not job.paused & sources
            assert len(job.paused) <= MOST_PAUSED


def _around(job: JobId, running: RunningGraph, jobs: Jobs) -> Mapping[object, int]:
    homes = at_home(jobs)
    return {each: count for each, count in bridges(running, homes).items() if job in {each.to, homes[each.parent]}}


def _delivered(job: JobId, running: RunningGraph, jobs: Jobs) -> set[tuple[str, str, Instance]]:
    return {
        (dataflow, sink, instance)
        for dataflow in running.dataflows
        for sink, instance in running.produced(dataflow).items()
        if jobs.homes[instance].job == job
    }


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


@given(family=families(least=2, most=2), removes=st.booleans())
def test_a_stale_change_is_refused(family: tuple[Document, ...], removes: bool) -> None:  # noqa: FBT001 - drawn
    """A change that was computed before another one was applied is refused, and leaves no trace."""
    old = applied(RunningGraph(), merge(RunningGraph(), flow(family[0], "first"), START))
    stale = unmerge(old, "first") if removes else merge(old, flow(family[1], "late"), START)
    new = applied(old, merge(old, flow(family[1], "second"), START))
    seen = picture(new)
    with pytest.raises(StaleChange) as refusal:
        new.advance(stale)
    assert str(refusal.value) == "the change was computed from version 1 and this is version 2; compute it anew"
    assert (refusal.value.base, refusal.value.version) == (1, 2)
    assert (seen, 2) == (picture(new), new.version)
    with pytest.raises(StaleChange):
        applied(new, stale)


@given(family=families(least=2, most=2))
def test_an_id_is_submitted_once(family: tuple[Document, ...]) -> None:
    """Another dataflow under a submitted id is refused, the same one or not; after a removal the id is free."""
    running = applied(RunningGraph(), merge(RunningGraph(), flow(family[0], "mine"), START))
    for document in family:
        with pytest.raises(DataflowExists) as refusal:
            merge(running, flow(document, "mine"), START)
        assert str(refusal.value) == (
            "a dataflow with the id 'mine' is already submitted; remove it first, or use another id"
        )
        assert refusal.value.dataflow == "mine"
        with pytest.raises(DataflowExists):
            explain(running, flow(document, "mine"), START)
    removed = applied(running, unmerge(running, "mine"))
    other = applied(removed, merge(removed, flow(family[1], "mine"), START))
    assert expected([flow(family[1], "mine")]) == picture(other)


@given(walk=walks(most=4))
def test_what_is_not_submitted_cannot_be_asked_for(walk: Walk) -> None:
    """A dataflow that never came, or went, is named in the refusal of whatever is asked about it."""
    running = ran(walk)
    gone = {step.dataflow for step in walk.steps} - set(running.dataflows)
    for name in ("never", *gone):
        for ask in (running.dataflow, running.produced, running.dags_of, lambda name: unmerge(running, name)):
            with pytest.raises(NoSuchDataflow) as refusal:
                ask(name)
            assert str(refusal.value) == (
                f"no dataflow with the id {name!r} is submitted; list the submitted ones to find its id"
            )
            assert refusal.value.dataflow == name


@given(document=documents(), place=st.integers(0, 20))
def test_a_collision_of_signatures_is_refused(document: Document, place: int) -> None:
    """Where a running task has the same signature and another text, nothing is shared and nothing changes."""
    honest = flow(document)
    place %= len(honest.tasks)
    forged = replace(honest.tasks[place], text=honest.tasks[place].text + b" ")
    running = applied(RunningGraph(), merge(RunningGraph(), honest, START))
    tasks = (*honest.tasks[:place], forged, *honest.tasks[place + 1 :])
    with pytest.raises(SignatureCollision) as refusal:
        merge(running, replace(honest, id="forged", tasks=tasks), START)
    assert refusal.value.key == forged.key
    assert str(refusal.value) == (
        f"the signature {forged.key.signature.hex()} already stands for another task; "
        "submit with a changed config and report this"
    )
    assert expected([honest]) == picture(running)
