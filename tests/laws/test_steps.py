"""Laws of a decision, at every step of random walks: a step is its parts, one after the other."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from merge import (
    ASSUMED_BUSY,
    BATCH_SECONDS,
    Conditions,
    Costs,
    Instance,
    JobId,
    Jobs,
    Remove,
    Replace,
    Request,
    RunningGraph,
    Step,
    Submit,
    decide,
    place,
    release,
)
from merge.jobs import MOST_PAUSED
from merge.placement.strategies import STRATEGIES
from tests import strategies
from tests.graphs import applied
from tests.laws.moves import HOSTS, at_home, bridges
from tests.laws.pictures import picture
from tests.notation import flow
from tests.strategies import START, Walk, walks

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
