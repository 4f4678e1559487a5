"""Laws of roots: what is connected stays where its files are, on hosts of which only some share theirs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from merge import (
    Assignment,
    Change,
    Host,
    Instance,
    Jobs,
    NoHost,
    RunningGraph,
    consolidate,
    isolate,
    merge,
    place,
    release,
    unmerge,
)
from merge.errors import RootsApart
from merge.grouping import cost_of, problems_of
from merge.placement.board import PlacementBoard, anew, root_of
from merge.placement.board import streams_into as board_streams_into
from merge.placement.hosts import Stream
from merge.placement.planned import groups_on, problem_of
from merge.placement.strategies import STRATEGIES
from merge.tasks import downwards
from tests import strategies
from tests.graphs import applied
from tests.laws.moves import HOSTS, Terms, at_home, bridges, is_acyclic, parts, terms
from tests.notation import document, flow
from tests.strategies import SHARED, START, Walk, walks

CHANCE = st.randoms(use_true_random=True)


@dataclass(frozen=True, kw_only=True)
class RootedStep:
    """One step of the jobs, on hosts with roots."""

    by: str
    change: Change
    running: RunningGraph
    before: Jobs
    assignment: Assignment
    hosts: tuple[Host, ...]

    @property
    def after(self) -> Jobs:
        """The jobs then."""
        return self.before.apply(self.assignment)

    def roots(self, jobs: Jobs) -> dict[Instance, str]:
        """The root of each task."""
        of = {host.name: host.root for host in self.hosts}
        return {instance: of[jobs.jobs[home.job].host] for instance, home in jobs.homes.items()}


def steps(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> Iterator[RootedStep]:
    """Do a walk as far as there are places, on hosts that come and go, with consolidations and isolations."""
    return (each for each in attempts(walk, terms, hosts) if isinstance(each, RootedStep))


def attempts(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> Iterator[RootedStep | NoHost]:
    """The same, with what was refused."""
    chance = Random(terms.seed)
    running, jobs = RunningGraph(), Jobs()
    for wish in walk.steps:
        change = changed(running, walk, wish)
        if change is None:
            continue
        after = applied(running, change)
        there = tuple(replace(host, away=chance.random() < 0.1) for host in hosts)
        placed = chance.choice(sorted(STRATEGIES)) if change.submitted else "release"
        ways = [placed, *(each for each in ("consolidate", "isolate") if chance.random() < 0.2)]
        for by in ways:
            try:
                found = assigned(by, RootedGround(change, after, jobs, there, terms, chance))
            except NoHost as refused:
                yield refused
                if by == placed:
                    break
                continue
            if found is not None:
                step = RootedStep(by=by, change=change, running=after, before=jobs, assignment=found, hosts=there)
                yield step
                running, jobs = after, step.after


class RootedGround(NamedTuple):
    """What a step is decided by."""

    change: Change
    running: RunningGraph
    jobs: Jobs
    hosts: tuple[Host, ...]
    terms: Terms
    chance: Random


def changed(running: RunningGraph, walk: Walk, wish: strategies.Submit | strategies.Remove) -> Change | None:
    """The change that a step of a walk asks for; None where an earlier one was refused."""
    if isinstance(wish, strategies.Remove):
        return unmerge(running, wish.dataflow) if wish.dataflow in running.dataflows else None
    if wish.dataflow in running.dataflows:
        return None
    return merge(running, flow(walk.documents[wish.document], wish.dataflow, wish.tenant), START)


def assigned(by: str, ground: RootedGround) -> Assignment | None:
    """A placement, a release, a consolidation, or an isolation with tasks that have become dearer."""
    change, running, jobs, hosts, terms, chance = ground
    costs = terms.costs(running)
    if by == "release":
        return release(change.stops, jobs)
    if by == "consolidate":
        return consolidate(running, jobs, hosts, costs)
    if by == "isolate":
        dearer = {task: busy * chance.choice((1.0, 2.0, 4.0)) for task, busy in costs.busy.items()}
        costs = replace(costs, busy=dearer)
        measured = {job.id: costs.batch_of(sum(dearer[each] for each in job.active)) for job in jobs.jobs.values()}
        return isolate(running, jobs, hosts, costs, measured)
    return place(by, residue=change.residue, running=running.tasks, jobs=jobs, hosts=hosts, costs=costs)


@st.composite
def joining_walks(draw: st.DrawFn) -> Walk:
    """A walk over chains below three sources, and dataflows that join what some of these emit, or read on from it."""
    chance = draw(CHANCE)
    documents = [document(joined(chance, number)) for number in range(draw(st.sampled_from(range(2, 13))))]
    steps: list[strategies.Submit | strategies.Remove] = []
    there: list[str] = []
    for number in range(draw(st.sampled_from(range(2, 17)))):
        if there and chance.random() < 0.15:
            steps.append(strategies.Remove(there.pop(chance.randrange(len(there)))))
        else:
            there.append(f"flow {number}")
            steps.append(strategies.Submit(number % len(documents), there[-1], "ann"))
    return Walk(documents=tuple(documents), steps=tuple(steps))


def joined(chance: Random, number: int) -> str:
    """A dataflow that reads some ends of chains, and the chains; the first ones read one each."""
    names = chance.sample(SHARED, 1 if number < 3 else chance.choice((1, 2, 2, 3)))
    streams = ["last > k:sink"]
    for name in names:
        for _ in range(chance.choice((1, 1, 2))):
            above = f"{name}:source{{'source': '{name}'}}"
            for _ in range(chance.choice((0, 1, 2, 2))):
                added = chance.randrange(2)
                task = f"{above.partition(':')[0]}-{added}:map{{'add': {added}}}"
                streams.append(f"{above} > {task}")
                above = task
            streams.append(f"{above} > last:map{{'add': {number}}}")
    return " ".join(dict.fromkeys(streams))


@st.composite
def rooted_hosts(draw: st.DrawFn) -> tuple[Host, ...]:
    """The hosts on random roots; those that offer everything and nothing are on each."""
    chance = draw(CHANCE)
    roots = [chance.choice(("", "x", "y")) for _ in HOSTS]
    named = tuple(replace(host, root=root) for host, root in zip(HOSTS, roots, strict=True))
    full = (Host(name=f"e{root}", cores=1.0, tags=frozenset({"gpu", "fpga"}), root=root) for root in set(roots))
    return tuple(sorted((*named, *full), key=lambda host: host.name))


def sent_to(step: RootedStep, jobs: Jobs) -> Mapping[tuple[Instance, str], set[str]]:
    """The roots of the jobs that each stream is forwarded to, straight from the running graph."""
    of = {host.name: host.root for host in step.hosts}
    found: defaultdict[tuple[Instance, str], set[str]] = defaultdict(set)
    running = {instance: task for instance, task in step.running.tasks.items() if instance in jobs.homes}
    for bridge in bridges(replace(step.running, tasks=running), at_home(jobs)):
        if step.running.tasks[bridge.parent].inputs:
            found[bridge.parent, bridge.port].add(of[jobs.jobs[bridge.to].host])
    return found


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_a_stream_is_sent_to_one_root(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """However dataflows come, go and are moved, all jobs that a stream is forwarded to share one root."""
    for step in steps(walk, terms, hosts):
        assert all(len(roots) == 1 for roots in sent_to(step, step.after).values())


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_no_cycle_leads_over_roots(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """The graph of jobs has no cycles on several roots either."""
    for step in steps(walk, terms, hosts):
        assert is_acyclic(step.running, at_home(step.after))


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_no_task_moves_to_another_root(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """Whatever is decided about tasks that run, they stay on their root."""
    for step in steps(walk, terms, hosts):
        before, after = step.roots(step.before), step.roots(step.after)
        assert {each: root for each, root in before.items() if each in after}.items() <= after.items()


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_a_stream_crosses_roots_only_where_they_are_joined(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """A stream that begins to lead to another root enters tasks that join what runs on several."""
    for step in steps(walk, terms, hosts):
        roots, starts = step.roots(step.after), new_in(step)
        joins = {
            instance: len({roots[each] for each in running_parents(part, step)}) > 1
            for part in parts(tuple(starts), step.running)
            for instance in part
        }
        for instance, task in step.running.tasks.items():
            for edge in task.inputs:
                if roots[Instance(edge.parent)] == roots[instance]:
                    continue
                stream = Instance(edge.parent), edge.parent_port
                crossed = roots[instance] in sent_to(step, step.before).get(stream, set())
                assert instance not in starts or joins[instance] or crossed
                assert edge.parent not in starts


def new_in(step: RootedStep) -> set[Instance]:
    """The tasks that start in a step."""
    return set(step.running.tasks) - set(step.before.homes)


def running_parents(part: frozenset[Instance], step: RootedStep) -> set[Instance]:
    """The tasks that ran before and feed some that start."""
    return {Instance(edge.parent) for each in part for edge in step.running.tasks[each].inputs} - part


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_a_join_goes_where_most_of_its_streams_are(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """A part that joins streams that nobody else is sent goes to the root with most of them that can take it."""
    for step in steps(walk, terms, hosts):
        roots, sent, new = step.roots(step.after), sent_to(step, step.before), new_in(step)
        can = {host.root for host in step.hosts if {"gpu", "fpga"} <= host.tags and not host.away}
        all_parts = parts(tuple(new), step.running)
        for part in all_parts:
            streams = streams_into(part, step)
            others = set[Stream]().union(*(streams_into(each, step) for each in all_parts if each != part))
            if streams and not any(sent.get(each) for each in streams) and streams.isdisjoint(others):
                (own,) = {roots[each] for each in part}
                count = Counter(roots[each] for each, _ in streams)
                assert all(count[own] >= count[root] for root in can)


def streams_into(part: frozenset[Instance], step: RootedStep) -> set[Stream]:
    """The streams that enter a part."""
    edges = (edge for each in part for edge in step.running.tasks[each].inputs if edge.parent not in part)
    return {(Instance(edge.parent), edge.parent_port) for edge in edges}


@given(walk=joining_walks(), terms=terms(), hosts=rooted_hosts())
def test_what_is_refused_for_torn_streams_could_tear_one(walk: Walk, terms: Terms, hosts: tuple[Host, ...]) -> None:
    """A refusal because of what is read elsewhere names tasks, and there is a stream that crosses roots."""
    last: RootedStep | None = None
    for each in attempts(walk, terms, hosts):
        if isinstance(each, RootsApart):
            assert last is not None
            assert each.keys
            assert sent_to(last, last.after)
        elif isinstance(each, RootedStep):
            last = each


@given(walk=st.one_of(joining_walks(), walks(confined=True)), terms=terms(), hosts=rooted_hosts())
def test_a_plan_on_one_of_several_roots_costs_no_more_than_packing(
    walk: Walk, terms: Terms, hosts: tuple[Host, ...]
) -> None:
    """By the costs that it plans with, among the hosts and jobs of that root; what it finds passes all checks."""
    for step in steps(walk, terms, hosts):
        ground = PlacementBoard(step.running.tasks, step.before, step.hosts, terms.costs(step.running))
        started = downwards(step.running.tasks[each] for each in step.change.residue)
        if step.by != "plan" or not started:
            continue
        packed, planned = (STRATEGIES[each](anew(ground), started) for each in ("pack", "plan"))
        feeding = {ground.jobs.homes[each].job for each, _ in board_streams_into(started)}
        roots = {root_of(packed, job) for job in feeding | set(packed.placed.values())}
        if len(roots) == 1 and ground.roots.several and not packed.shards:
            problem = problem_of(ground, started, packed, *roots)
            groups = [groups_on(board, started, problem) for board in (planned, packed)]
            one, other = (cost_of(problem, each).total for each in groups)
            assert one <= other + 1e-9
            if one < other - 1e-9:
                assert () == problems_of(problem, groups[0])


@given(walk=walks(confined=True), terms=terms(), seed=st.integers())
def test_one_root_is_as_good_as_none(walk: Walk, terms: Terms, seed: int) -> None:
    """Where all hosts share one root, everything is decided as where none has a name, also with hosts that are away."""
    chance = Random(seed)
    unnamed = HOSTS
    named = tuple(replace(host, root="x") for host in HOSTS)
    gone = chance.choice(("a", "b", "c", "d"))
    one = [step.assignment for step in steps(walk, terms, tuple(h for h in unnamed if h.name != gone))]
    other = [step.assignment for step in steps(walk, terms, tuple(h for h in named if h.name != gone))]
    assert one == other
