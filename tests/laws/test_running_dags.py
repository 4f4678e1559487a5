"""Laws of running DAGs: the counted links between sources agree with the connected components of all that runs."""

from collections.abc import Iterable, Sequence

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from merge import DagId, Instance, Joined, RunningDags, Split
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
def test_what_joined_and_split_is_told_truly(walk: Walk) -> None:
    """A change names exactly the running DAGs that become one or fall apart by it; the others keep their ids."""
    for stage in replay(walk):
        change = stage.change
        assert change.running_dags == stage.running.running_dags
        _hold_told(stage.before.running_dags, change.running_dags, change.joined, change.split)


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
        joined: tuple[Joined, ...] = ()
        split: tuple[Split, ...] = ()
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
            dags, joined = dags.join(parts)
        elif dataflows:
            parts = dataflows.pop(step % len(dataflows))
            needed = {source for others in dataflows for part in others for source in part}
            stopped = frozenset(source for part in parts for source in part if source not in needed)
            instances = {place: instance for place, instance in instances.items() if instance not in stopped}
            dags, split = dags.leave(parts, stopped)
        assert _searched(dataflows) == frozenset(sources_by_dag(dags).values())
        _hold_told(before, dags, joined, split)
    for place, parts in enumerate(dataflows):
        needed = {source for others in dataflows[place + 1 :] for part in others for source in part}
        dags, _ = dags.leave(parts, frozenset(source for part in parts for source in part if source not in needed))
    assert RunningDags(next_dag=dags.next_dag) == dags


def test_a_path_parts_at_the_cut() -> None:
    """When one link of a long path goes, the shorter end gets the new id; a link anew keeps the longer's."""
    sources = [Instance(number) for number in range(1, 81)]
    path, joined = RunningDags().join([(sources[0], sources[1]), *((source,) for source in sources)])
    assert (joined, path.next_dag) == ((), 80)
    for source in sources[1:-1]:
        path, joined = path.join([(source, Instance(source + 1))])
        assert joined == (Joined(DagId(1), DagId(source)),)
    for cut, parted in ((5, sources[:5]), (77, sources[77:])):
        link = [(sources[cut - 1], sources[cut])]
        apart, split = path.leave(link, frozenset())
        assert split == (Split(DagId(1), DagId(80)),)
        assert {1: frozenset(sources) - set(parted), 80: frozenset(parted)} == dict(sources_by_dag(apart))
        whole, joined = apart.join(link)
        assert joined == (Joined(DagId(1), DagId(80)),)
        assert {1: frozenset(sources)} == dict(sources_by_dag(whole))
        assert path.links == whole.links


def test_a_link_lasts_until_the_last_dataflow_with_it_goes() -> None:
    """Two sources that several dataflows tie together stay together while one of these is there."""
    one, other = Instance(1), Instance(2)
    dags, _ = RunningDags().join([(one, other), (one, other), (one,), (other,)])
    once, split = dags.leave([(one, other)], frozenset())
    assert (split, dict(sources_by_dag(once))) == ((), {1: frozenset({one, other})})
    never, split = once.leave([(one, other)], frozenset())
    assert split == (Split(DagId(1), DagId(2)),)
    assert {frozenset({one}), frozenset({other})} == set(sources_by_dag(never).values())


def test_a_star_falls_apart_when_its_centre_stops() -> None:
    """When the source that tied many others together stops, each is a running DAG, but for those tied otherwise."""
    leaves, centre = tuple(Instance(number) for number in range(1, 41)), Instance(41)
    dags, _ = RunningDags().join([(leaf,) for leaf in leaves])
    dags, joined = dags.join([(leaf, centre) for leaf in leaves])
    assert len(joined) == 39
    tied = [leaves[:2], leaves[10:13]]
    dags, joined = dags.join(tied)
    assert (joined, len(sources_by_dag(dags))) == ((), 1)
    before = dags
    splits: list[Split] = []
    for leaf in leaves:
        dags, split = dags.leave([(leaf, centre)], frozenset({centre}) if leaf == leaves[-1] else frozenset())
        splits += split
    alone = [(leaf,) for leaf in leaves if not any(leaf in part for part in tied)]
    assert {frozenset(part) for part in (*tied, *alone)} == set(sources_by_dag(dags).values())
    _hold_told(before, dags, (), splits)


def test_a_whole_part_falls_apart_at_once() -> None:
    """When one dataflow tied many sources together, its removal parts all of them, with a new id for each but one."""
    star = tuple(Instance(number) for number in range(1, 31))
    before, _ = RunningDags().join([star, *((source,) for source in star[3:])])
    dags, split = before.leave([star], frozenset(star[:3]))
    assert frozenset(frozenset({source}) for source in star[3:]) == frozenset(sources_by_dag(dags).values())
    assert len(split) == 26
    _hold_told(before, dags, (), split)


def _searched(dataflows: Iterable[Parts]) -> frozenset[frozenset[Instance]]:
    together: nx.Graph[Instance] = nx.Graph()
    for parts in dataflows:
        for part in parts:
            nx.add_path(together, part)
    return frozenset(map(frozenset, nx.connected_components(together)))


def _hold_told(before: RunningDags, after: RunningDags, joined: Sequence[Joined], split: Sequence[Split]) -> None:
    """Hold what a step tells about running DAGs against their sources before and after it."""
    olds, news = sources_by_dag(before), sources_by_dag(after)
    origins = {new: {old for old in olds if olds[old] & news[new]} for new in news}
    remains = {old: {new for new in news if olds[old] & news[new]} for old in olds}
    # Every name is that of a running DAG at its turn.
    alive = set(olds)
    for kept, absorbed in joined:
        assert {kept, absorbed} <= alive
        assert kept != absorbed
        alive.remove(absorbed)
    for kept, parted in split:
        assert kept in alive
        assert before.next_dag <= parted < after.next_dag
        assert parted not in alive
        alive.add(parted)
    # Told is what happened, and no more than that.
    assert sum(len(old) - 1 for old in origins.values() if old) == len(joined)
    assert sum(len(new) - 1 for new in remains.values() if new) == len(split)
    told: nx.Graph[DagId] = nx.Graph([*joined, *split])
    told.add_nodes_from([*olds, *news])
    for group in nx.connected_components(told):
        assert all(origins[new] <= group for new in news if new in group)
        assert all(remains[old] <= group for old in olds if old in group)
    # Ids are new only where the running DAG is, and one of those that join or part keeps its own.
    assert all(new in alive if origins[new] else before.next_dag <= new < after.next_dag for new in news)
    assert all(old in remains[old] for old in olds if remains[old] and old in alive)
