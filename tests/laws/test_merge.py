"""Laws of merge, unmerge and explain, after every step of random walks."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import State
from merge import Explanation, Instance, RunningGraph, explain, explained, merge, unmerge
from merge.merger import Reuse
from tests.graphs import applied, streams_of
from tests.laws.pictures import expected, picture
from tests.notation import flow
from tests.strategies import ANNS, SHARED, START, Document, Submit, Walk, documents, ran, replay, walks

LATER = START + timedelta(days=1)


@given(walk=walks())
def test_merging_a_dataflow_with_itself_reuses_everything(walk: Walk) -> None:
    """A dataflow that is submitted a second time, under another id, starts nothing."""
    for stage in replay(walk):
        for dataflow in stage.dataflows.values():
            change = merge(stage.running, replace(dataflow, id="again"), LATER)
            assert change.starts == ()
            assert tuple(stage.running.index[task.key] for task in dataflow.tasks) == change.reuses
            assert stage.running.produced(dataflow.id) == applied(stage.running, change).produced("again")
            assert stage.running.running_dags.of_source == change.running_dags.of_source


@given(document=documents(confined=True))
def test_only_what_is_confined_starts_anew(document: Document) -> None:
    """Of a dataflow that is submitted a second time exactly the tasks with a scope start, in their order."""
    first, again = flow(document, "first"), flow(document, "again")
    running = applied(RunningGraph(), merge(RunningGraph(), first, START))
    change = merge(running, again, LATER)
    assert tuple(task.key for task in again.tasks if task.key.scope is not None) == tuple(
        task.key for task in change.starts
    )
    assert tuple(i for i, task in enumerate(again.tasks, 1) if task.key.scope is None) == change.reuses


@given(walk=walks(confined=True), document=documents(confined=True))
def test_unmerge_undoes_merge(walk: Walk, document: Document) -> None:
    """Removing what was just submitted leaves everything as it was before, but for the counters."""
    before = ran(walk)
    merged = applied(before, merge(before, flow(document, "guest"), LATER))
    after = applied(merged, unmerge(merged, "guest"))
    assert picture(before) == picture(after)
    assert before.index == after.index
    assert before.dataflows == after.dataflows
    assert before.tasks == after.tasks
    assert (before.version + 2, merged.next_instance) == (after.version, after.next_instance)


@given(walk=walks(confined=True))
def test_applying_only_looks_ahead(walk: Walk) -> None:
    """Applying a change leaves the graph that it starts from as it was and gives the one that advancing becomes."""
    advancing = RunningGraph()
    stages = list(replay(walk))
    kept = [(stage.before, picture(stage.before), deepcopy(stage.before)) for stage in stages]
    for stage in stages:
        assert stage.before == advancing
        advancing.advance(stage.change)
        assert stage.running == advancing
    for graph, seen, copied in kept:
        assert (seen, copied) == (picture(graph), graph)


def test_a_popular_task_serves_everybody() -> None:
    """However many dataflows come to use a task, and in whatever order they go, it serves exactly those."""
    names = [f"f{number}" for number in range(20)]
    running = RunningGraph()
    for number, name in enumerate(names):
        change = merge(running, flow("s:source > k:sink", name), START)
        ahead = applied(running, change)
        assert len(running.dataflows) == number
        assert frozenset(names[:number]) == frozenset().union(*map(running.serves, running.tasks))
        running.advance(change)
        assert ahead == running
        assert frozenset(names[: number + 1]) == running.serves(Instance(1)) == running.serves(Instance(2))
    for number, name in enumerate(names):
        change = unmerge(running, name)
        ahead = applied(running, change)
        assert frozenset(names[number:]) == running.serves(Instance(1)) == running.serves(Instance(2))
        running.advance(change)
        assert ahead == running
    assert (running.tasks, running.index, running.users, running.dataflows) == ({}, {}, {}, {})


@given(walk=walks(confined=True), order=st.randoms(use_true_random=True))
def test_only_what_is_submitted_decides_what_runs(walk: Walk, order: Random) -> None:
    """Whatever came and went before, and in whatever order: equal sets of dataflows have equal running graphs."""
    for stage in replay(walk):
        anew = RunningGraph()
        for name in order.sample(sorted(stage.dataflows), len(stage.dataflows)):
            anew.advance(merge(anew, stage.dataflows[name], LATER))
        assert picture(anew) == picture(stage.running)


@given(walk=walks(confined=True, sources=ANNS, tenants=("ann",)))
def test_what_runs_is_what_is_needed(walk: Walk) -> None:
    """After every step tasks, streams with their multiplicity, users and running DAGs are those of the definition."""
    for stage in replay(walk):
        assert expected(stage.dataflows.values()) == picture(stage.running)


@given(walk=walks(confined=True))
def test_every_sink_is_covered_and_nothing_else_runs(walk: Walk) -> None:
    """After every step the two constraints hold: each sink is produced, and all that runs is above some sink."""
    for stage in replay(walk):
        running, streams = stage.running, streams_of(stage.running)
        needed = set()
        for dataflow in stage.dataflows.values():
            produced = running.produced(dataflow.id)
            assert dataflow.sinks == tuple(produced)
            for sink, instance in produced.items():
                assert dataflow.tasks[dataflow.places[sink]].key == running.tasks[instance].key
                needed |= {instance, *nx.ancestors(streams, instance)}
        assert needed == set(running.tasks)
        assert {task.key: instance for instance, task in running.tasks.items()} == dict(running.index)
        assert len(running.tasks) == len(running.index)


@given(walk=walks(confined=True))
def test_users_are_those_that_need_a_task(walk: Walk) -> None:
    """After every step a running task serves exactly the dataflows that have it in one of their places."""
    for stage in replay(walk):
        users: dict[Instance, set[str]] = {instance: set() for instance in stage.running.tasks}
        for name, dataflow in stage.dataflows.items():
            submitted = stage.running.dataflow(name)
            for task, place in dataflow.places.items():
                assert dataflow.tasks[place].key == stage.running.tasks[submitted.places[task]].key
                users[submitted.places[task]].add(name)
        assert users == {instance: stage.running.serves(instance) for instance in users}
        # Each is noted once, else its removal would leave the task running for nobody.
        assert {instance: len(noted) for instance, noted in users.items()} == {
            instance: len(noted) for instance, noted in stage.running.users.items()
        }
        assert set(stage.dataflows) == set(stage.running.dataflows)


@given(walk=walks(confined=True))
def test_a_change_tells_what_it_does(walk: Walk) -> None:
    """What a change starts, stops, reuses and releases is the difference that applying it makes, in a usable order."""
    for number, (step, stage) in enumerate(zip(walk.steps, replay(walk), strict=True)):
        before, change, after = stage.before, stage.change, stage.running
        assert (number, number + 1) == (change.base, after.version)
        started = [task.instance for task in change.starts]
        stopped = [task.instance for task in change.stops]
        assert sorted(set(after.tasks) - set(before.tasks)) == started == list(change.residue)
        assert sorted(set(before.tasks) - set(after.tasks), reverse=True) == stopped
        assert list(range(before.next_instance, after.next_instance)) == started
        kept = before.tasks.keys() & after.tasks.keys()
        assert {i: before.tasks[i] for i in kept} == {i: after.tasks[i] for i in kept}
        touched = {i for i in kept if before.serves(i) != after.serves(i)}
        assert sorted(touched) == sorted((*change.reuses, *change.releases))
        assert all(edge.parent < task.instance for task in after.tasks.values() for edge in task.inputs)
        if isinstance(step, Submit):
            dataflow = stage.dataflows[step.dataflow]
            assert [after.index[task.key] for task in dataflow.tasks if task.key in before.index] == [*change.reuses]
            assert [after.tasks[i] for i in started] == list(change.starts)
            assert all(task.since == START + number * timedelta(minutes=40) for task in change.starts)
            assert (after.dataflows[step.dataflow], None) == (change.submitted, change.removed)
            assert (change.releases, change.stops) == ((), ())
        else:
            assert (None, before.dataflows[step.dataflow]) == (change.submitted, change.removed)
            assert [before.tasks[i] for i in stopped] == list(change.stops)
            assert sorted(change.releases, reverse=True) == list(change.releases)
            assert (change.reuses, change.starts) == ((), ())


@given(walk=walks(confined=True, most=6), document=documents(confined=True, sources=SHARED))
def test_explain_predicts_merge(walk: Walk, document: Document) -> None:
    """The explanation is what one finds after submitting: reuses and since when, starts, collapses, counts."""
    for stage in replay(walk):
        for written in (document, *walk.documents):
            guest = flow(written, "guest")
            before = stage.running
            change = merge(before, guest, LATER)
            after = applied(before, change)
            places = after.dataflow("guest").places
            here = {place: sorted(t for t in places if places[t] == place) for place in places.values()}
            predicted = Explanation(
                reuses=tuple(
                    Reuse(
                        task=task,
                        since=None
                        if after.tasks[place].type.state is State.NONE
                        else before.tasks[place].since.replace(minute=0, second=0, microsecond=0),
                    )
                    for task, place in sorted(places.items())
                    if place in before.tasks
                ),
                starts=tuple(task for task, place in sorted(places.items()) if place not in before.tasks),
                collapses=tuple(sorted(tuple(group) for group in here.values() if len(group) > 1)),
                distinct=len(here),
                residue=len(after.tasks) - len(before.tasks),
            )
            assert predicted == explain(before, guest, LATER) == explained(before, change)


def test_only_submissions_are_explained() -> None:
    """A removal has no explanation, and the error says what has one."""
    running = applied(RunningGraph(), merge(RunningGraph(), flow("s:source > k:sink"), START))
    with pytest.raises(ValueError, match=r"^the change submits nothing; explain one that merge made$"):
        explained(running, unmerge(running, "flow"))
