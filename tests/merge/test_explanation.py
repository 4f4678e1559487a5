"""Explain by example: what a tenant learns before it submits."""

from datetime import UTC, datetime, timedelta

import pytest

from merge import Explanation, RunningGraph, explain, explained, merge, unmerge
from merge.merger import Reuse
from tests.merge.floor import NOW
from tests.notation import flow

HOUR = datetime(2024, 3, 1, 7, tzinfo=UTC)
BASE = "s:source > a:map > b:window > k:sink"


def ran(text: str = BASE, dataflow: str = "x", tenant: str = "bob") -> RunningGraph:
    running = RunningGraph()
    running.advance(merge(running, flow(text, dataflow, tenant), NOW + timedelta(seconds=17, microseconds=5)))
    return running


def test_where_nothing_runs() -> None:
    """Everything would start, the document's tasks sorted by id."""
    expected = Explanation(reuses=(), starts=("a", "b", "k", "s"), collapses=(), distinct=4, residue=4)
    assert expected == explain(RunningGraph(), flow(BASE), NOW)


def test_reuse_of_running_tasks() -> None:
    """A reused task with state says the hour since when it runs, one without says nothing."""
    expected = Explanation(
        reuses=(Reuse(task="a", since=None), Reuse(task="b", since=HOUR), Reuse(task="s", since=None)),
        starts=("c", "l"),
        collapses=(),
        distinct=5,
        residue=2,
    )
    later = NOW + timedelta(days=1)
    assert expected == explain(ran(), flow("s:source > a:map > b:window > c:echo > l:sink"), later)


@pytest.mark.parametrize("kind", ["window", "count"])
def test_state_of_either_kind_has_a_history(kind: str) -> None:
    """Whether state is kept per stream or per key, its beginning is named."""
    text = f"s:source > b:{kind} > k:sink"
    assert Reuse(task="b", since=HOUR) in explain(ran(text), flow(text), NOW).reuses


def test_collapses() -> None:
    """Equivalent tasks of the document are grouped, whether they are reused or start, and count once."""
    text = "s:source > a:map > k:sink s > b:map > l:sink s > c:echo > m:sink s > d:echo > n:sink s > e:count > o:sink"
    expected = Explanation(
        reuses=(Reuse(task="a", since=None), Reuse(task="b", since=None), Reuse(task="s", since=None)),
        starts=("c", "d", "e", "k", "l", "m", "n", "o"),
        collapses=(("a", "b"), ("c", "d"), ("k", "l"), ("m", "n")),
        distinct=7,
        residue=5,
    )
    assert expected == explain(ran(), flow(text), NOW)


def test_fresh_tasks_start() -> None:
    """A fresh task and all that follows it would start although the like of them runs."""
    found = explain(ran(), flow("s:source > a!:map > b:window > k:sink"), NOW)
    assert ((Reuse(task="s", since=None),), ("a", "b", "k")) == (found.reuses, found.starts)


def test_explain_is_the_explanation_of_the_merge() -> None:
    """Explaining a dataflow explains the change that merging it makes, and submits nothing."""
    running, dataflow = ran(), flow(BASE, "y")
    assert explained(running, merge(running, dataflow, NOW)) == explain(running, dataflow, NOW)
    assert ["x"] == list(running.dataflows)


def test_removal_is_not_explained() -> None:
    """Only a submission's change has an explanation."""
    running = ran()
    with pytest.raises(ValueError, match=r"^the change submits nothing; explain one that merge made$"):
        explained(running, unmerge(running, "x"))
