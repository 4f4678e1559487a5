"""Laws of running DAGs: the counted links between sources agree with the connected components of all that runs."""

from collections.abc import Iterable

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from merge import DagId, Instance, RunningDags
from tests.laws.pictures import components, sources_by_dag
from tests.strategies import ANNS, Document, Remove, Stream, Submit, Vertex, Walk, replay, walks, written

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
