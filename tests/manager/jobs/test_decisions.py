"""Decisions on jobs: which plans are published, and in which order."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JobState
from engine.plan import Plan
from manager.jobs.decisions import _BACK_OFF, _PATIENCE, Clean, Memory, PublishPlan, decide
from manager.kernel.wanted import WantedJob
from manager.observations.reports import HostSeen
from manager.observations.sight import Sight
from tests.manager.jobs.worlds import NOW, World, plan, taken_up, wanting

CHANCE = st.randoms(use_true_random=True)


def published(world: World, wanted: Mapping[str, WantedJob]) -> list[tuple[str, int | None]]:
    """Return the plans that are published now: for each job the version, or None to stop it."""
    return [
        (step.job, step.plan.version if step.plan else None)
        for step in world.decide(wanted).steps
        if isinstance(step, PublishPlan)
    ]


def settled(*plans: Plan) -> World:
    """Return a world in which these plans run."""
    world = World()
    world.settle(wanting(*plans))
    return world


def test_nothing_is_published_before_the_sight_is_complete() -> None:
    """Before all retained messages have arrived, a missing job is not taken to be gone."""
    assert () == decide(wanting(plan("1")), Sight(complete=False), Memory(), 0.0).steps


def test_nothing_is_published_if_all_jobs_are_as_wanted() -> None:
    """A new manager does not disturb the running jobs."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    world.memory = Memory()
    assert [] == published(world, wanting(plan("1", forwards=[7]), plan("2", reads=[7])))


def test_only_jobs_that_differ_get_plans() -> None:
    """A new manager publishes plans only for jobs that are not as wanted."""
    world = settled(plan("1"), plan("2"), plan("3"))
    world.memory = Memory()
    wanted = wanting(plan("1"), plan("2", 2), plan("4"), stopped=["3"])
    assert [("2", 2), ("3", None), ("4", 1)] == published(world, wanted)


def test_a_job_reads_a_stream_before_its_producer_forwards_it() -> None:
    """The plan with the new forward waits until the reader's host has logged the reader's plan."""
    world = settled(plan("1"))
    wanted = wanting(plan("1", 2, forwards=[7]), plan("2", reads=[7]))
    decision = world.decide(wanted)
    assert ([PublishPlan(job="2", plan=plan("2", reads=[7]))], {"1": "job 2 is to read 'out' of instance 7 first"}) == (
        list(decision.steps),
        decision.waits,
    )
    world.take("2")
    assert [("1", 2)] == published(world, wanted)


def test_an_existing_forward_does_not_wait() -> None:
    """A plan that keeps forwarding is published even if the reader's next plan is not taken up yet."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2, forwards=[7]), plan("2", 2, reads=[7]))
    assert [("1", 2), ("2", 2)] == published(world, wanted)


def test_a_job_stops_after_it_has_confirmed_the_end_of_its_streams() -> None:
    """It is not enough that the producer has sent the end."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2), stopped=["2"])
    assert [("1", 2)] == published(world, wanted)
    world.take("1")
    world.run("1")
    assert ({"2": "job 1 is to end 'out' of instance 7 first"}, ()) == (
        (decision := world.decide(wanted)).waits,
        decision.steps,
    )
    world.hear("1")
    assert [("2", None)] == published(world, wanted)


def test_a_running_job_leaves_a_stream_once_its_producer_has() -> None:
    """It keeps the spool for some batches, in which the end arrives, so it does not wait for that."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2), plan("2", 2))
    assert [("1", 2)] == published(world, wanted)
    world.take("1")
    assert [] == published(world, wanted)
    world.run("1")
    assert [("2", 2)] == published(world, wanted)


def test_neither_waits_if_producer_and_reader_stop() -> None:
    """A producer that stops ends no stream, so there is no end to wait for."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    assert [("1", None), ("2", None)] == published(world, wanting(stopped=["1", "2"]))


def test_two_jobs_that_exchange_streams_do_not_deadlock() -> None:
    """The reader of both streams comes first, and the producer follows."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2, forwards=[8]), plan("2", 2, reads=[8]))
    assert [("2", 2)] == published(world, wanted)
    world.take("2")
    assert [("1", 2)] == published(world, wanted)


@pytest.mark.parametrize("why", ["away", "died", "refused"])
def test_no_job_waits_for_one_that_cannot_take_up_its_plan(why: str) -> None:
    """A reader whose host is away, that died, or whose plan was refused, delays no producer."""
    world = settled(plan("1"), plan("2", host="i"))
    reading = plan("2", 2, host="i", reads=[7])
    wanted = wanting(plan("1", 2, forwards=[7]), reading)
    assert [("2", 2)] == published(world, wanted)
    sight = world.sight()
    seen = sight.jobs["2"].seen
    assert seen is not None
    match why:
        case "away":
            sight = replace(sight, hosts={**sight.hosts, "i": HostSeen(host="i", alive=False, seen=NOW)})
        case "died":
            stopped = replace(sight.jobs["2"], seen=replace(seen, state=JobState.DIED))
            sight = replace(sight, jobs={**sight.jobs, "2": stopped})
        case "refused":
            refused = replace(sight.jobs["2"], seen=replace(seen, refused="no such type"))
            sight = replace(sight, jobs={**sight.jobs, "2": refused})
    assert (PublishPlan(job="1", plan=plan("1", 2, forwards=[7])),) == decide(wanted, sight, world.memory, 0.0).steps


def test_no_job_waits_longer_than_its_patience() -> None:
    """The time counts from when it first waited for a reader that does not answer."""
    world = settled(plan("1"))
    begun = world.now
    first, second = (wanting(plan("1", version, forwards=[7]), plan("2", version, reads=[7])) for version in (2, 3))
    assert ("1", 2) not in published(world, first)
    world.now = begun + _PATIENCE / 2
    assert ("1", 3) not in published(world, second)
    world.now = begun + _PATIENCE
    assert ("1", 3) in published(world, second)


def test_a_plan_that_is_not_taken_up_is_published_again_after_a_while() -> None:
    """A live host gets it again, after longer each time."""
    world = settled(plan("1"))
    wanted = wanting(plan("1", 2))
    times = list[int]()
    begun = world.now
    for second in range(1_000):
        world.now = begun + second
        times += [second for _ in published(world, wanted)]
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert (0, [*_BACK_OFF.waits, _BACK_OFF.longest, _BACK_OFF.longest]) == (times[0], steps)


def test_a_plan_for_a_host_that_is_away_is_published_once() -> None:
    """The retained plan waits for the host."""
    world = settled(plan("1"))
    world.away.add("h")
    wanted = wanting(plan("1", 2))
    begun = world.now
    plans = list[tuple[str, int | None]]()
    for second in range(1_000):
        world.now = begun + second
        plans += published(world, wanted)
    assert [("1", 2)] == plans


def test_a_retained_plan_is_not_published_again_at_once() -> None:
    """A new manager gives the host time to take up the plan of the manager before it."""
    world = World(retained={"1": plan("1")})
    wanted = wanting(plan("1"))
    assert [] == published(world, wanted)
    world.now += _BACK_OFF.after(1)
    assert [("1", 1)] == published(world, wanted)


def test_an_unwanted_job_of_this_service_is_stopped() -> None:
    """Jobs of another root are left alone."""
    world = settled(plan("1"), plan("2"))
    decision = decide({}, world.sight(), Memory(), 0.0, belongs=lambda job: job == "2")
    assert (PublishPlan(job="2", plan=None),) == decision.steps


def test_nothing_is_retained_of_a_job_that_is_gone() -> None:
    """Its status is cleared once it is stopped, and it is reported as gone."""
    world = settled(plan("1"))
    wanted = wanting(stopped=["1"])
    assert [("1", None)] == published(world, wanted)
    world.take("1")
    decision = world.decide(wanted)
    assert [Clean(job="1"), "1"] == [*decision.steps, *decision.gone]
    decision = world.decide(wanted)
    assert ["1"] == [*decision.steps, *decision.gone]


def test_a_job_with_a_plan_but_no_status_is_stopped() -> None:
    """It may be about to start."""
    world = World()
    world.decide(wanting(plan("1")))
    world.take("1")
    assert [("1", None)] == published(world, wanting(stopped=["1"]))


def test_one_plan_moves_a_job_between_hosts() -> None:
    """The plan names the new host, and the old host stops the job because of it."""
    world = settled(plan("1"))
    assert [("1", 2)] == published(world, wanting(plan("1", 2, host="i")))


def test_a_job_that_stopped_by_itself_gets_its_plan_again() -> None:
    """It is not enough that its host has logged the plan."""
    world = settled(plan("1"))
    world.jobs["1"].state = JobState.STOPPED
    world.now += _BACK_OFF.after(1)
    assert [("1", 1)] == published(world, wanting(plan("1")))


class Course:
    """What is wanted at a time: some of five jobs in a row, with streams from earlier to later ones.

    A job that was stopped never comes again; another one takes its place.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.versions = count(1)
        self.names = list(range(1, 6))
        self.plans: dict[int, Plan] = {}
        """By place."""
        self.stopped: set[str] = set()

    def turn(self) -> Mapping[str, WantedJob]:
        """Change the wanted plans."""
        places = [place for place in range(5) if self.chance.random() < 0.7]
        for place in self.plans.keys() - set(places):
            self.stopped.add(self.plans.pop(place).job)
            self.names[place] += 10
        streams = {
            (producer, reader)
            for producer in places
            for reader in places
            if producer < reader and self.chance.random() < 0.4
        }
        for place in places:
            reads = [self.names[producer] for producer, reader in sorted(streams) if reader == place]
            forwards = [self.names[place]] if any(producer == place for producer, _ in streams) else []
            before = self.plans.get(place)
            made = plan(str(self.names[place]), next(self.versions), reads=reads, forwards=forwards)
            if before is None or replace(made, version=before.version) != before:
                self.plans[place] = made
        return wanting(*self.plans.values(), stopped=self.stopped)


def wander(world: World, course: Course, chance: Random, *, turns: int, restarts: bool) -> Mapping[str, WantedJob]:
    """Change the wanted plans at random while hosts act in any order, each of them infinitely often."""
    wanted = course.turn()
    for _ in range(turns):
        for _ in range(chance.randrange(4)):
            decision = world.decide(wanted)
            course.stopped -= decision.gone
            acts = [
                (act, job)
                for act in (world.take, world.run, world.hear)
                for job in sorted(world.jobs.keys() | world.untaken.keys())
            ]
            for act, job in chance.sample(acts, chance.randrange(len(acts) + 1)):
                act(job)
            # No time passes but at the end, so that nobody's patience ends.
        if restarts and chance.random() < 0.3:
            world.memory = Memory()
        wanted = course.turn()
    return wanted


@given(CHANCE, st.integers(0, 6))
def test_wanted_plans_are_reached_in_the_right_order(chance: Random, turns: int) -> None:
    """From any state it takes finitely many steps, and no stream begins before its reader reads it."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=turns, restarts=False)
    assert world.settle(wanted) < _PATIENCE
    assert world.reached(wanted)
    assert [] == world.broken


@given(CHANCE, st.integers(0, 6))
def test_a_new_manager_reaches_the_wanted_plans(chance: Random, turns: int) -> None:
    """It does not remember which plans were published, and still no stream begins before its reader reads it."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=turns, restarts=True)
    world.settle(wanted)
    assert world.reached(wanted)
    assert [] == [each for each in world.broken if "before" in each and "forwards" in each]


@given(CHANCE, st.integers(0, 6))
def test_a_host_that_is_away_delays_no_other(chance: Random, turns: int) -> None:
    """Everything else is reached meanwhile, and the rest once the host is back."""
    world, course = World(), Course(chance)
    wanted = dict(wander(world, course, chance, turns=turns, restarts=False))
    world.settle(wanted)
    for name in chance.sample(sorted(wanted), len(wanted) // 2):
        if (there := wanted[name].plan) is not None:
            moved = replace(there, host="i", version=next(course.versions))
            wanted[name] = WantedJob(job=name, host="i", plan=moved)
    world.away.add("i")
    world.settle(wanted)
    assert taken_up(world, wanted)
    world.away.clear()
    world.settle(wanted)
    assert world.reached(wanted)


@given(CHANCE)
def test_once_settled_nothing_more_is_published(chance: Random) -> None:
    """Neither this manager nor the next one publishes anything."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=3, restarts=False)
    world.settle(wanted)
    for _ in range(3):
        world.now += 1_000.0
        assert () == world.decide(wanted).steps
    world.memory = Memory()
    assert () == world.decide(wanted).steps


def test_a_job_with_an_unknown_plan_waits_for_no_end() -> None:
    """If the broker lost its plan, the streams that it reads are unknown, and it is stopped at once."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    sight = world.sight()
    lost = {name: replace(each, wirings=(), planned=None) for name, each in sight.jobs.items()}
    decision = decide(wanting(plan("1", 2), stopped=["2"]), replace(sight, jobs=lost), Memory(), 0.0)
    assert ["1", "2"] == [step.job for step in decision.steps]
