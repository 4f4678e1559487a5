"""Laws of cuts: what several jobs keep at one is what comes of just the events before it, and can be gone on from.

Random running DAGs lie across several jobs. Events are on their way between them, frames arrive in any order and more
than once, and the markers are put into the raw spools at different moments. An interpreter that knows neither jobs nor
batches works off one raw event after the other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from zlib import crc32

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind
from engine.behaviour import each_event
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Plan, Port, Slot, StateImport, Subscribed
from engine.plan_messages import RefusedPlan
from engine.records.record import Table
from engine.records.state import NUMBERS, Staged
from tests.engine.kernels import enters, events, slot
from tests.engine.records.unpacked import unpacked_value
from tests.laws.several import Town

Event = Mapping[str, Any]
FIELDS = {"n": Kind.INTEGER, "k": Kind.STRING}
CUT = "c"
NEW = "new"


def _tally(_port: str, event: Event, state: Staged) -> Iterable[tuple[str, Event]]:
    """Keeps what depends on no order."""
    count, total = state.get((event["k"],)) or (0, 0)
    state.put((event["k"],), (count + 1, total + event["n"]))
    yield "out", event


def _digest(_port: str, event: Event, state: Staged) -> Iterable[tuple[str, Event]]:
    """Keeps what depends on the order of all it took."""
    state.put((), crc32(repr((state.get(()), event["n"], event["k"])).encode()))
    yield "out", event


def _odd(_port: str, event: Event, _state: Staged) -> Iterable[tuple[str, Event]]:
    if event["n"] % 2:
        yield "out", event


BEHAVIOURS = {
    name: each_event(function, lambda schema: {"out": schema})
    for name, function in {"tally": _tally, "digest": _digest, "odd": _odd}.items()
}


@dataclass(frozen=True, kw_only=True)
class Running:
    """Running DAGs, and in which job each instance runs."""

    sources: tuple[int, ...]
    slots: tuple[Slot, ...]
    jobs: Mapping[int, str]

    @property
    def graph(self) -> "nx.DiGraph[int]":
        graph = Plan.graph(self.slots)
        graph.add_nodes_from(self.sources)
        return graph

    @property
    def dags(self) -> list[frozenset[int]]:
        return sorted((frozenset(each) for each in nx.weakly_connected_components(self.graph)), key=min)

    @property
    def ends(self) -> list[int]:
        """Those that feed nobody; only they are delivered, as markers take numbers of streams that are forwarded."""
        graph = self.graph
        return [each.instance for each in self.slots if not graph.out_degree(each.instance)]

    def among(self, instances: frozenset[int], job: str = "") -> "Running":
        """Only some instances, all in one job if it is named."""
        return Running(
            sources=tuple(each for each in self.sources if each in instances),
            slots=tuple(each for each in self.slots if each.instance in instances),
            jobs={each: job or name for each, name in self.jobs.items() if each in instances},
        )

    def plan(self, job: str) -> Plan:
        """What one job executes."""
        slots = [each for each in self.slots if self.jobs[each.instance] == job]
        entering = {edge.parent for each in slots for edge in each.inputs if self.jobs.get(edge.parent) != job}
        leaving = {
            edge.parent
            for each in self.slots
            for edge in each.inputs
            if self.jobs.get(edge.parent) == job != self.jobs[each.instance]
        }
        return Plan(
            job=job,
            host="h",
            version=1,
            slots=tuple(slots),
            ingress=tuple(_enters(each, raw=each in self.sources) for each in sorted(entering)),
            forwards=tuple(Forward(instance=each) for each in sorted(leaving)),
            deliveries=tuple(
                Delivery(instance=each, tenant="ann", dataflow="d", sink=str(each))
                for each in self.ends
                if self.jobs[each] == job
            ),
        )


def _enters(instance: int, *, raw: bool) -> Ingress:
    if raw:
        return enters(f"raw/{instance}", instance, FIELDS)
    return Ingress(stream=f"bridge/{instance}:out", instance=instance, supply=Bridged())


def drawn(chance: Random) -> Running:
    """Some running DAGs over up to three jobs, which never feed each other in a circle."""
    names = ["a", "b", "c"][: chance.randint(1, 3)]
    sources = tuple(range(1, chance.randint(1, 3) + 1))
    slots: list[Slot] = []
    jobs: dict[int, str] = {}
    alone = dict.fromkeys(sources, True)
    """Whether what an instance gives comes of one source on one way, and so in one order."""
    for instance in range(10, 10 + chance.randint(1, 7)):
        parents = chance.sample(sorted(alone), min(len(alone), chance.choice([1, 1, 1, 2])))
        alone[instance] = len(parents) == 1 and alone[parents[0]]
        kind = chance.choice(["tally", "odd", *(["digest"] * alone[instance])])
        slots.append(slot(instance, kind, *(Edge(parent=each, times=chance.choice([1, 1, 2])) for each in parents)))
        first = max((names.index(jobs[each]) for each in parents if each in jobs), default=0)
        jobs[instance] = chance.choice(names[first:])
    fed = {edge.parent for each in slots for edge in each.inputs}
    return Running(sources=tuple(each for each in sources if each in fed), slots=tuple(slots), jobs=jobs)


class Interpreter:
    """The running DAGs as they are defined."""

    def __init__(self, running: Running) -> None:
        self._slots = running.slots
        self.kept: dict[int, dict[tuple[Any, ...], Any]] = {each.instance: {} for each in running.slots}
        self.gave: dict[int, list[tuple[int, str]]] = {each.instance: [] for each in running.slots}

    def take(self, source: int, event: Event) -> None:
        """Work off one raw event."""
        emitted = {source: [event]}
        # They were drawn in this order: each after those that feed it.
        for each in self._slots:
            emitted[each.instance] = [
                given_
                for edge in each.inputs
                for arriving in emitted.get(edge.parent, [])
                for _ in range(edge.times)
                for given_ in self._run(each, arriving)
            ]
            self.gave[each.instance] += [(given_["n"], given_["k"]) for given_ in emitted[each.instance]]

    def _run(self, each: Slot, event: Event) -> Iterator[Event]:
        kept = self.kept[each.instance]
        if each.type == "tally":
            count, total = kept.get((event["k"],), (0, 0))
            kept[event["k"],] = (count + 1, total + event["n"])
        if each.type == "digest":
            kept[()] = crc32(repr((kept.get(()), event["n"], event["k"])).encode())
        if each.type != "odd" or event["n"] % 2:
            yield event


class Scene:
    """A town in which running DAGs run, and what was published in it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.running = drawn(chance)
        self.town = Town(BEHAVIOURS, chance)
        self.published: dict[int, list[Event]] = {source: [] for source in self.running.sources}
        self.marked: dict[int, int] = {}
        """For each source how many events lie before its marker."""
        for name in sorted(set(self.running.jobs.values())):
            self.town.member(name).log(self.running.plan(name))
        # Each stream has its reader before anything is in it.
        self.town.settle()

    def live(self, steps: int) -> None:
        """Publish something now and then, while whatever can happen happens."""
        for _ in range(steps):
            source = self.chance.choice(self.running.sources)
            if self.chance.random() < 0.4:
                self.publish(source)
            self.town.wander(2)

    def publish(self, source: int) -> None:
        """Publish one to three events of a source."""
        found = [
            {"n": self.chance.randint(0, 9), "k": self.chance.choice("xy")} for _ in range(self.chance.randint(1, 3))
        ]
        self.published[source] += found
        self.town.put(f"raw/{source}", events(found, FIELDS))

    def mark(self, sources: Iterable[int]) -> None:
        """Put the markers into the raw spools, one after the other."""
        waiting = list(sources)
        self.chance.shuffle(waiting)
        for source in waiting:
            self.marked[source] = len(self.published[source])
            self.town.put(f"raw/{source}", marker=CUT)
            self.live(self.chance.randint(0, 4))

    def expected(self, many: Mapping[int, int] | None = None) -> Interpreter:
        """What comes of the first so many events of each source; of all where nothing is said."""
        found = Interpreter(self.running)
        for source, all_of in self.published.items():
            for event in all_of[: None if many is None else many.get(source, 0)]:
                found.take(source, event)
        return found

    def at_cut(self) -> dict[int, dict[tuple[Any, ...], Any]]:
        """What all jobs keep at the cut, by instance."""
        found: dict[int, dict[tuple[Any, ...], Any]] = {}
        for member in self.town.members.values():
            for cut, table in member.kept.items():
                assert CUT == cut.name
                assert found.keys().isdisjoint(cut.instances), "an instance was cut twice"
                found |= {each: read(table, each) for each in cut.instances if each not in self.running.sources}
        return found

    def now(self) -> dict[int, dict[tuple[Any, ...], Any]]:
        """What all jobs keep by now, by instance."""
        return {
            slot_.instance: read(member.state.kept, slot_.instance)
            for member in self.town.members.values()
            for slot_ in member.plan.slots
        }

    def outputs(self) -> dict[int, Sequence[Any]]:
        """What was delivered; where its order is not given, as a multiset."""
        found: dict[int, Sequence[Any]] = {}
        for each in self.running.ends:
            numbered = self.town.outputs.get(each, {})
            assert list(range(len(numbered))) == sorted(numbered), "a number is missing"
            found[each] = [(numbered[number]["n"], numbered[number]["k"]) for number in sorted(numbered)]
        return found

    def hold(self) -> None:
        """See that in the end everything is as if there had been no cut."""
        self.town.settle()
        expected = self.expected()
        assert expected.kept == self.now()
        assert {each: Counter(expected.gave[each]) for each in self.running.ends} == {
            each: Counter(found) for each, found in self.outputs().items()
        }


def read(table: Table, instance: int) -> dict[tuple[Any, ...], Any]:
    """What an instance keeps, without the numbers of its ports."""
    found = {}
    for group, items in table.get(instance, {}).items():
        for key, value in items.items():
            if group != NUMBERS and value is not None:
                content = unpacked_value(value)
                found[tuple(unpacked_value(key))] = tuple(content) if isinstance(content, list) else content
    return found


def moved(scene: Scene) -> frozenset[int]:
    """Some of the running DAGs, and at least one."""
    dags = scene.running.dags
    return frozenset[int]().union(*scene.chance.sample(dags, scene.chance.randint(1, len(dags))))


def let_go(scene: Scene, leaving: frozenset[int]) -> list[str]:
    """Have the jobs let running DAGs go at the cut; which jobs they are."""
    staying = scene.running.among(frozenset(scene.running.graph) - leaving)
    concerned = sorted({job for each, job in scene.running.jobs.items() if each in leaving})
    for name in concerned:
        scene.town.member(name).log(replace(staying.plan(name), at_cut=CUT))
        scene.live(scene.chance.randint(0, 2))
    return concerned


def wished(scene: Scene, leaving: frozenset[int]) -> list[int]:
    """In which sources the cut is wished: in those of who leaves at least, perhaps in all."""
    sources = scene.running.sources
    return [each for each in sources if each in leaving] if scene.chance.random() < 0.5 else list(sources)


@given(st.randoms(use_true_random=True))
def test_a_cut_is_what_comes_of_exactly_the_events_before_it(chance: Random) -> None:
    """Of every running DAG all instances are cut once, in whichever jobs they are; and afterwards all goes on."""
    scene = Scene(chance)
    scene.live(chance.randint(0, 12))
    scene.mark(scene.running.sources)
    scene.live(chance.randint(0, 12))
    scene.town.settle()
    assert scene.expected(scene.marked).kept == scene.at_cut()
    scene.hold()


@given(st.randoms(use_true_random=True))
def test_a_new_job_goes_on_where_the_old_ones_were_cut(chance: Random) -> None:
    """Running DAGs that leave several jobs at a cut lose nothing, double nothing, and are the same to their tenants."""
    scene = Scene(chance)
    new = scene.town.member(NEW)
    new.log(Plan(job=NEW, host="h", version=1))
    scene.live(chance.randint(0, 8))
    leaving = moved(scene)
    let_go(scene, leaving)
    scene.mark(wished(scene, leaving))
    scene.town.settle()
    kept = {
        each: (name, cut.positions)
        for name, member in scene.town.members.items()
        for cut in member.kept
        for each in cut.instances
    }
    expected = scene.expected(scene.marked).kept
    cut = {each: found for each, found in scene.at_cut().items() if each in leaving}
    assert {each: found for each, found in expected.items() if each in leaving} == cut
    scene.live(chance.randint(0, 8))
    taken = scene.running.among(leaving, NEW)
    plan = taken.plan(NEW)
    starts = {stream: at for _, positions in kept.values() for stream, at in positions.items()}
    new.log(
        replace(
            plan,
            ingress=tuple(replace(each, start=starts[each.stream]) for each in plan.ingress),
            imports=tuple(
                StateImport(instance=each.instance, job=kept[each.instance][0], cut=CUT) for each in taken.slots
            ),
        )
    )
    scene.live(chance.randint(0, 8))
    scene.hold()


@given(st.randoms(use_true_random=True))
def test_who_left_at_a_cut_comes_back_however_far_each_job_has_come(chance: Random) -> None:
    """The same plans bring everything back: where the cut was never wished, on its way, or everybody had left."""
    scene = Scene(chance)
    scene.live(chance.randint(0, 8))
    leaving = moved(scene)
    concerned = let_go(scene, leaving)
    sources = wished(scene, leaving)
    scene.mark(sources[: chance.randint(0, len(sources))])
    if chance.random() < 0.3:
        scene.town.settle()
    chance.shuffle(concerned)
    for name in concerned:
        own = scene.running.among(leaving).plan(name)
        brought = tuple(StateImport(instance=each.instance, job=name, cut=CUT) for each in own.slots)
        plan = scene.running.plan(name)
        raised = tuple(replace(each, epoch=2) for each in plan.forwards)
        scene.town.member(name).log(replace(plan, imports=brought, forwards=raised))
        scene.live(chance.randint(0, 3))
    for name in concerned:
        # They are in effect before the cut is released.
        scene.town.member(name).step()
    scene.town.release(CUT)
    scene.live(chance.randint(0, 8))
    scene.hold()


def test_who_comes_back_cannot_share_a_stream_that_was_read_on() -> None:
    """What others of the job have read since is not read twice; the plan is refused and says what to do."""
    town = Town(BEHAVIOURS, Random(1))
    stays, leaves = slot(10, "tally", 1), slot(11, "tally", 2)
    shared = Subscribed(topic="t", fields=FIELDS)
    ingress = [Ingress(stream="raw/t", instance=each, supply=shared) for each in (1, 2)]
    both = Plan(job="a", host="h", version=1, slots=(stays, leaves), ingress=tuple(ingress))
    member = town.member("a")
    member.log(both)
    member.log(replace(both, slots=(stays,), ingress=(ingress[0],), at_cut=CUT))
    town.put("raw/t", marker=CUT)
    town.settle()
    town.put("raw/t", events([{"n": 1, "k": "x"}], FIELDS))
    town.settle()
    back = replace(both, imports=(StateImport(instance=11, job="a", cut=CUT),))
    with pytest.raises(RefusedPlan, match="instance 11 left job 'a' at the cut 'c', with 'raw/t' at 1"):
        member.log(back)
    assert Port(10, "out") not in town.crossings
