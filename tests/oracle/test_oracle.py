"""Signatures, merge and unmerge against a second implementation from the definitions."""

import pytest
from hypothesis import given

from dags import Dataflow
from merge import Instance, RunningGraph, merge
from tests.graphs import applied, streams_of
from tests.notation import document, flow
from tests.oracle.definitions import (
    Class,
    Named,
    Plain,
    equivalent,
    literally_equivalent,
    plain,
    residue,
    running_dags,
    running_streams,
    running_tasks,
    stopped,
)
from tests.strategies import START, Document, Submit, Walk, families, replay, walks


@given(family=families(least=2, most=2))
def test_equal_signatures_are_isomorphic_ancestor_graphs(family: tuple[Document, ...]) -> None:
    """Two tasks of one or two dataflows have equal signatures exactly if they are equivalent by definition."""
    flows = [(flow(written), plain(written, "ann")) for written in family]
    for signed, defined in flows:
        for other_signed, other_defined in flows:
            for task in signed.places:
                for other in other_signed.places:
                    assert equivalent(defined, task, other_defined, other) == (
                        _signature(signed, task) == _signature(other_signed, other)
                    )


@given(walk=walks(most=6))
def test_walks_agree_with_the_definitions(walk: Walk) -> None:
    """Each step starts and stops the right tasks; tasks, streams and DAGs then agree with the definitions."""
    before: dict[str, Plain] = {}
    for step, stage in zip(walk.steps, replay(walk), strict=True):
        if isinstance(step, Submit):
            arriving = plain(walk.documents[step.document], step.tenant)
            assert stage.change.submitted is not None
            started = set(stage.change.residue)
            places = stage.change.submitted.places
            assert residue(before, arriving) == {task for task, place in places.items() if place in started}
            assert set(places.values()) - started == set(stage.change.reuses)
            after = {**before, step.dataflow: arriving}
        else:
            classes = _classes(stage.before)
            assert stopped(before, step.dataflow) == {classes[task.instance] for task in stage.change.stops}
            after = {name: dataflow for name, dataflow in before.items() if name != step.dataflow}
        running, classes = stage.running, _classes(stage.running)
        assert running_tasks(after) == set(classes.values())
        assert len(running.tasks) == len(set(classes.values()))
        graph = streams_of(running)
        streams = {
            (classes[above], ports[0], classes[below], ports[1]): graph.edges[above, below, ports]["times"]
            for above, below, ports in graph.edges(keys=True)
        }
        assert running_streams(after) == streams
        dags: dict[int, set[Named]] = {}
        for instance, members in classes.items():
            dags.setdefault(running.dag_of(instance), set()).update(members)
        assert running_dags(after) == set(map(frozenset, dags.values()))
        before = after


@pytest.mark.parametrize(
    ("one", "other", "literally"),
    [
        pytest.param(
            "s:source > a:map{'add': 1} > b:scale{'factor': 2} > k:sink",
            "s:source > b:scale{'factor': 2} > a:map{'add': 1} > k:sink",
            True,
            id="the same ancestors in another order",
        ),
        pytest.param(
            "s:source > a:map > b:echo > k:sink",
            "s:source > a:map > b:echo > k:sink s > b",
            True,
            id="the same ancestors with a stream more",
        ),
        pytest.param(
            "s:source > p:split p.even > k:sink",
            "s:source > p:split p.odd > k:sink",
            True,
            id="only the port that a stream leaves by differs",
        ),
        pytest.param(
            "s:source > a:map > j:join.left > k:sink s > j.right",
            "s:source > a:map > j:join.right > k:sink s > j.left",
            True,
            id="only the ports that streams enter by differ",
        ),
        pytest.param(
            "s:source > a:map > k:sink s > b:map > k",
            "s:source > a:map > k:sink",
            True,
            id="twins that became one and feed twice",
        ),
        pytest.param(
            "s:source > a:map{'add': 1} > k:sink",
            "s:source > a:map{'add': 2} > k:sink",
            False,
            id="a config that differs is kept apart by both",
        ),
    ],
)
def test_ancestors_alone_do_not_make_tasks_equivalent(
    one: str,
    other: str,
    literally: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """The paper's bijection of ancestors equates these sinks, but their streams differ."""
    first, second = plain(document(one), "ann"), plain(document(other), "ann")
    assert literally_equivalent(first, "k", second, "k") is literally
    assert not equivalent(first, "k", second, "k")
    assert _signature(flow(one), "k") != _signature(flow(other), "k")
    running = applied(RunningGraph(), merge(RunningGraph(), flow(one, "first"), START))
    both = applied(running, merge(running, flow(other, "second"), START))
    assert both.produced("first") != both.produced("second")
    assert residue({"first": first}, second) == {
        task for task, place in both.dataflow("second").places.items() if place not in running.tasks
    }


def _signature(dataflow: Dataflow, task: str) -> bytes:
    return dataflow.tasks[dataflow.places[task]].key.signature


def _classes(running: RunningGraph) -> dict[Instance, Class]:
    """For each running task the tasks of submitted dataflows that it runs for."""
    members: dict[Instance, set[Named]] = {instance: set() for instance in running.tasks}
    for name, submitted in running.dataflows.items():
        for task, instance in submitted.places.items():
            members[instance].add(Named(name, task))
    return {instance: frozenset(found) for instance, found in members.items()}
