"""Laws of merge, unmerge, explain and running DAGs, and of what a tenant may learn, on random walks."""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from datetime import datetime, timedelta
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Dataflow, InvalidDocument, Key, Problem, Source, State
from dags.canonical import canonicalise
from merge import DagId, Explanation, Instance, RunningDags, RunningGraph, explain, explained, merge, unmerge
from merge.merger import Reuse
from tests.catalogue import CATALOGUE, SOURCES
from tests.graphs import applied, streams_of
from tests.laws.moves import components, expected, picture, sources_by_dag
from tests.notation import document as written_in
from tests.notation import flow
from tests.strategies import (
    ANNS,
    PUBLIC,
    SHARED,
    START,
    Document,
    Remove,
    Stream,
    Submit,
    Vertex,
    Walk,
    documents,
    ran,
    replay,
    walks,
    written,
)

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
        for text in (document, *walk.documents):
            guest = flow(text, "guest")
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


Parts = tuple[tuple[Instance, ...], ...]


@st.composite
def entangled(draw: st.DrawFn) -> Walk:
    """A walk of dataflows that hardly do more than tie sources together, so that joins and splits abound."""
    chance = draw(st.randoms(use_true_random=True))
    made: list[Document] = []
    for _ in range(7):
        grown = [Vertex("source", {"source": name}) for name in chance.sample(ANNS, chance.choice((1, 1, 1, 2, 2, 3)))]
        ends = (chance.randrange(2) for _ in grown)
        together = [0] * len(grown) if chance.random() < 0.7 else list(ends)
        sinks = [
            Vertex("sink", {}, tuple(Stream(place, "out", "in") for place, end in enumerate(together) if end == sink))
            for sink in sorted(set(together))
        ]
        made.append(written([*grown, *sinks], chance))
    steps: list[Submit | Remove] = []
    submitted: list[str] = []
    for number in range(draw(st.sampled_from(range(21)))):
        if chance.random() < len(submitted) / 9:
            steps.append(Remove(submitted.pop(chance.randrange(len(submitted)))))
        else:
            submitted.append(f"f{number}")
            steps.append(Submit(chance.randrange(7), f"f{number}", "ann"))
    return Walk(documents=tuple(made), steps=tuple(steps))


@given(walk=st.one_of(entangled(), walks(confined=True)))
def test_running_dags_are_the_connected_components(walk: Walk) -> None:
    """After every step the running DAGs are disjoint and the weakly connected components of the running graph."""
    for stage in replay(walk):
        running = stage.running
        found: dict[DagId, set[Instance]] = {}
        for instance in running.tasks:
            found.setdefault(running.dag_of(instance), set()).add(instance)
        assert components(running) == frozenset(map(frozenset, found.values()))
        assert set(running.running_dags.of_source) == {i for i, task in running.tasks.items() if not task.inputs}
        for name in stage.dataflows:
            instances = running.dataflow(name).instances
            assert {running.dag_of(instance) for instance in instances} == running.dags_of(name)


@given(walk=st.one_of(entangled(), walks(confined=True)))
def test_running_dags_keep_their_ids(walk: Walk) -> None:
    """Where some become one or fall apart, one id of them stays; all others stay as they are."""
    for stage in replay(walk):
        assert stage.change.running_dags == stage.running.running_dags
        _hold_ids(stage.before.running_dags, stage.running.running_dags)


@given(
    steps=st.lists(st.one_of(st.integers(0, 30), st.tuples(st.permutations(range(9)), st.integers(1, 9))), max_size=25)
)
def test_counted_links_agree_with_a_search(steps: list[int | tuple[list[int], int]]) -> None:
    """However parts come and go, sources have the same label exactly where a search over all parts connects them."""
    dags = RunningDags()
    dataflows: list[Parts] = []
    # Like merging does it: a source that is needed again after a pause is a new instance.
    instances: dict[int, Instance] = {}
    started = 0
    for step in steps:
        before = dags
        if isinstance(step, tuple):
            order, size = step
            for place in sorted(order[:size]):
                if place not in instances:
                    started += 1
                    instances[place] = Instance(started)
            cut = order[0] % size
            parts = tuple(
                tuple(sorted(instances[place] for place in part)) for part in (order[:cut], order[cut:size]) if part
            )
            dataflows.append(parts)
            dags = dags.join(parts)
        elif dataflows:
            parts = dataflows.pop(step % len(dataflows))
            needed = {source for others in dataflows for part in others for source in part}
            stopped = frozenset(source for part in parts for source in part if source not in needed)
            instances = {place: instance for place, instance in instances.items() if instance not in stopped}
            dags = dags.leave(parts, stopped)
        assert _searched(dataflows) == frozenset(sources_by_dag(dags).values())
        _hold_ids(before, dags)
    for place, parts in enumerate(dataflows):
        needed = {source for others in dataflows[place + 1 :] for part in others for source in part}
        dags = dags.leave(parts, frozenset(source for part in parts for source in part if source not in needed))
    assert RunningDags(next_dag=dags.next_dag) == dags


def test_a_path_parts_at_the_cut() -> None:
    """When one link of a long path goes, the shorter end gets the new id; a link anew keeps the longer's."""
    sources = [Instance(number) for number in range(1, 81)]
    path = RunningDags().join([(sources[0], sources[1]), *((source,) for source in sources)])
    assert path.next_dag == 80
    for source in sources[1:-1]:
        path = path.join([(source, Instance(source + 1))])
        assert {path.of_source[sources[0]], path.of_source[Instance(source + 1)]} == {1}
    for cut, parted in ((5, sources[:5]), (77, sources[77:])):
        link = [(sources[cut - 1], sources[cut])]
        apart = path.leave(link, frozenset())
        assert {1: frozenset(sources) - set(parted), 80: frozenset(parted)} == dict(sources_by_dag(apart))
        whole = apart.join(link)
        assert {1: frozenset(sources)} == dict(sources_by_dag(whole))
        assert path.links == whole.links


def test_a_link_lasts_until_the_last_dataflow_with_it_goes() -> None:
    """Two sources that several dataflows tie together stay together while one of these is there."""
    one, other = Instance(1), Instance(2)
    dags = RunningDags().join([(one, other), (one, other), (one,), (other,)])
    once = dags.leave([(one, other)], frozenset())
    assert dict(sources_by_dag(once)) == {1: frozenset({one, other})}
    never = once.leave([(one, other)], frozenset())
    assert {1, 2} == sources_by_dag(never).keys()
    assert {frozenset({one}), frozenset({other})} == set(sources_by_dag(never).values())


def test_a_star_falls_apart_when_its_centre_stops() -> None:
    """When the source that tied many others together stops, each is a running DAG, but for those tied otherwise."""
    leaves, centre = tuple(Instance(number) for number in range(1, 41)), Instance(41)
    dags = RunningDags().join([(leaf,) for leaf in leaves])
    dags = dags.join([(leaf, centre) for leaf in leaves])
    tied = [leaves[:2], leaves[10:13]]
    dags = dags.join(tied)
    assert len(sources_by_dag(dags)) == 1
    before = dags
    for leaf in leaves:
        dags = dags.leave([(leaf, centre)], frozenset({centre}) if leaf == leaves[-1] else frozenset())
    alone = [(leaf,) for leaf in leaves if not any(leaf in part for part in tied)]
    assert {frozenset(part) for part in (*tied, *alone)} == set(sources_by_dag(dags).values())
    _hold_ids(before, dags)


def test_a_whole_part_falls_apart_at_once() -> None:
    """When one dataflow tied many sources together, its removal parts all of them, with a new id for each but one."""
    star = tuple(Instance(number) for number in range(1, 31))
    before = RunningDags().join([star, *((source,) for source in star[3:])])
    dags = before.leave([star], frozenset(star[:3]))
    assert frozenset(frozenset({source}) for source in star[3:]) == frozenset(sources_by_dag(dags).values())
    assert len(sources_by_dag(dags)) == 27
    _hold_ids(before, dags)


def _searched(dataflows: Iterable[Parts]) -> frozenset[frozenset[Instance]]:
    together: nx.Graph[Instance] = nx.Graph()
    for parts in dataflows:
        for part in parts:
            nx.add_path(together, part)
    return frozenset(map(frozenset, nx.connected_components(together)))


def _hold_ids(before: RunningDags, after: RunningDags) -> None:
    """Hold the ids of running DAGs against their sources before and after a step."""
    olds, news = sources_by_dag(before), sources_by_dag(after)
    shared: nx.Graph[tuple[str, DagId]] = nx.Graph()
    shared.add_nodes_from(("new", dag) for dag in news)
    shared.add_edges_from((("old", old), ("new", new)) for old in olds for new in news if olds[old] & news[new])
    for group in nx.connected_components(shared):
        were, are = ({dag for side, dag in group if side == name} for name in ("old", "new"))
        if len(were) == len(are) == 1:
            assert were == are
        elif were:
            assert were & are
        assert all(before.next_dag <= dag < after.next_dag for dag in are - were)


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
