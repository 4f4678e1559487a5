"""Laws of what a tenant may learn: its answers depend on what runs over sources that it may read, and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Dataflow, InvalidDocument, Key, Problem, Source, State, canonicalise
from merge import Explanation, Instance, RunningGraph, explain, merge, unmerge
from merge.merger import Reuse
from tests.catalogue import CATALOGUE, SOURCES
from tests.graphs import applied, streams_of
from tests.notation import document as written_in
from tests.notation import flow
from tests.strategies import ANNS, PUBLIC, SHARED, START, Document, Remove, Submit, Walk, documents, ran, replay, walks

LATER = START + timedelta(days=1)


@given(
    public=walks(sources=PUBLIC),
    hidden=st.one_of(
        walks(sources=("diary", "power"), tenants=("ann",), confined=True),
        walks(sources=("power",), tenants=("ann", "bob")),
    ),
    document=documents(sources=PUBLIC, confined=True),
)
def test_dataflows_over_hidden_sources_do_not_show(public: Walk, hidden: Walk, document: Document) -> None:
    """While others submit and remove dataflows over sources that eve may not read, her explanation stays as it was."""
    running = ran(public)
    mine = flow(document, "mine", "eve")
    before = explain(running, mine, LATER)
    for stage in replay(_with_ids(hidden, "hidden"), running):
        assert before == explain(stage.running, mine, LATER)


@given(public=walks(sources=PUBLIC), document=documents(sources=PUBLIC, confined=True))
def test_fresh_tasks_do_not_show(public: Walk, document: Document) -> None:
    """What anybody starts fresh, be it eve's very own document, changes no explanation as it comes and goes."""
    running = ran(public)
    mine = flow(document, "mine", "eve")
    before = explain(running, mine, LATER)
    for copied in (document, *public.documents):
        fresh = {**copied, "tasks": [{**task, "fresh": task["type"] == "source"} for task in copied["tasks"]]}
        running = applied(running, merge(running, flow(fresh, "fresh", "bob"), START))
        assert before == explain(running, mine, LATER)
        running = applied(running, unmerge(running, "fresh"))
        assert before == explain(running, mine, LATER)


@given(
    walk=st.one_of(walks(confined=True), walks(sources=ANNS, tenants=("ann",), confined=True)),
    document=documents(sources=PUBLIC, confined=True),
)
def test_an_explanation_hangs_on_what_its_tenant_may_know(walk: Walk, document: Document) -> None:
    """After every step an explanation tells of shareable tasks over readable sources alone, whatever else runs."""
    for stage in replay(walk):
        for tenant in ("eve", "bob"):
            mine = flow(document, "mine", tenant)
            assert _foreseen(_known(stage.running, tenant), mine) == explain(stage.running, mine, LATER)


@given(walk=walks(), document=documents(sources=SHARED, confined=True))
def test_an_explanation_names_nothing_of_others(walk: Walk, document: Document) -> None:
    """Neither instance numbers, versions nor the ids and tenants of dataflows show, and times are given to the hour."""
    mine = flow(document, "mine", "bob")
    elsewhere = RunningGraph(version=40, next_instance=Instance(5_000))
    for stage, other in zip(replay(walk), replay(_with_ids(walk, "others"), elsewhere), strict=True):
        explanation = explain(stage.running, mine, LATER)
        assert explanation == explain(other.running, mine, LATER)
        assert "others" not in repr(explanation)
        named = {*explanation.starts, *(reuse.task for reuse in explanation.reuses)}
        assert set(mine.places) == named
        assert {task for group in explanation.collapses for task in group} <= named
        hours = [reuse.since for reuse in explanation.reuses if reuse.since is not None]
        assert all((hour.minute, hour.second, hour.microsecond) == (0, 0, 0) for hour in hours)
    assert [field.name for field in fields(Explanation)] == ["reuses", "starts", "collapses", "distinct", "residue"]
    assert [field.name for field in fields(Reuse)] == ["task", "since"]


@given(document=documents(), tenant=st.sampled_from(("ann", "bob", "eve")))
def test_hidden_sources_are_answered_as_if_they_were_not_there(document: Document, tenant: str) -> None:
    """A document over any sources has the same answer as if those that its tenant may not read were not registered."""
    readable = {name: source for name, source in SOURCES.items() if source.visible_to(tenant)}
    assert _answer(document, tenant, readable) == _answer(document, tenant, SOURCES)


@pytest.mark.parametrize("name", ["diary", "power", "moon"])
def test_a_hidden_source_and_none_have_one_answer(name: str) -> None:
    """A source that eve may not read is refused as one that is nowhere: in the same words but for the name."""
    answer = _answer(written_in(f"s:source{{'source': '{name}'}} > k:sink"), "eve", SOURCES)
    assert answer == (
        Problem(
            pointer="/tasks/0/config/source",
            code="unknown-source",
            message=f"unknown source '{name}'",
            remedy="you may use 'traffic', 'weather'",
        ),
    )


def test_hidden_sources_are_not_suggested() -> None:
    """A misspelt name is answered with the name of a source that the tenant may read, or with none."""
    document = written_in("s:source{'source': 'diery'} > k:sink")
    for tenant, remedy in (("ann", "did you mean 'diary'?"), ("bob", "you may use 'power', 'traffic', 'weather'")):
        with pytest.raises(InvalidDocument) as refusal:
            flow(document, tenant=tenant)
        assert [remedy] == [problem.remedy for problem in refusal.value.problems]


def _with_ids(walk: Walk, prefix: str) -> Walk:
    """The walk with other ids for its dataflows."""
    steps: list[Submit | Remove] = [step._replace(dataflow=f"{prefix}-{step.dataflow}") for step in walk.steps]
    return replace(walk, steps=tuple(steps))


def _answer(document: Document, tenant: str, sources: Mapping[str, Source]) -> Dataflow | tuple[Problem, ...]:
    try:
        return canonicalise(json.dumps(document), dataflow="flow", tenant=tenant, catalogue=CATALOGUE, sources=sources)
    except InvalidDocument as refusal:
        return refusal.problems


def _known(running: RunningGraph, tenant: str) -> dict[Key, datetime | None]:
    """What the tenant may know to run, and since when: shared tasks with nothing but readable sources above them."""
    streams = streams_of(running)
    known: dict[Key, datetime | None] = {}
    for instance, task in running.tasks.items():
        above = (running.tasks[one] for one in (instance, *nx.ancestors(streams, instance)))
        names = [one.config["source"] for one in above if one.type.is_source]
        if task.key.scope is None and all(SOURCES[name].visible_to(tenant) for name in names):
            hour = task.since.replace(minute=0, second=0, microsecond=0)
            known[task.key] = None if task.type.state is State.NONE else hour
    return known


def _foreseen(known: Mapping[Key, datetime | None], dataflow: Dataflow) -> Explanation:
    """The explanation where nothing runs but what is known."""
    keys = [task.key for task in dataflow.tasks]
    here: dict[int, list[str]] = {}
    for task, place in dataflow.places.items():
        here.setdefault(place, []).append(task)
    return Explanation(
        reuses=tuple(
            Reuse(task=task, since=known[keys[place]])
            for task, place in dataflow.places.items()
            if keys[place] in known
        ),
        starts=tuple(task for task, place in dataflow.places.items() if keys[place] not in known),
        collapses=tuple(tuple(tasks) for tasks in here.values() if len(tasks) > 1),
        distinct=len(keys),
        residue=sum(key not in known for key in keys),
    )
