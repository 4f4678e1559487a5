"""What is published so that jobs become what is wanted of them, and in which order."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job.lifecycle import JobState
from engine.plan import Plan
from manager.committed.wanted import WantedJob
from manager.observations.reports import HostSeen
from manager.observations.sight import Sight
from manager.reconciler.job_decisions import _BACK_OFF, _PATIENCE, Clean, Memory, PublishPlan, decide
from tests.manager.reconciler.worlds import NOW, World, plan, taken_up, wanting

CHANCE = st.randoms(use_true_random=True)


def told(world: World, wanted: Mapping[str, WantedJob]) -> list[tuple[str, int | None]]:
    """What is published now: for each job the version of its plan, or None to stop it."""
    return [
        (step.job, step.plan.version if step.plan else None)
        for step in world.decide(wanted).steps
        if isinstance(step, PublishPlan)
    ]


def settled(*plans: Plan) -> World:
    """A world in which these plans run."""
    world = World()
    world.settle(wanting(*plans))
    return world


def test_nothing_is_published_while_nobody_knows_what_runs() -> None:
    """Before all has come that the broker retains, what is missing is not taken for gone."""
    assert () == decide(wanting(plan("1")), Sight(complete=False), Memory(), 0.0).steps


def test_where_nothing_differs_nothing_is_published() -> None:
    """A manager that begins beside jobs that run as they are wanted disturbs none of them."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    world.memory = Memory()
    assert [] == told(world, wanting(plan("1", forwards=[7]), plan("2", reads=[7])))


def test_only_what_differs_is_published() -> None:
    """A manager that begins tells those jobs alone that are not as they are wanted."""
    world = settled(plan("1"), plan("2"), plan("3"))
    world.memory = Memory()
    wanted = wanting(plan("1"), plan("2", 2), plan("4"), stopped=["3"])
    assert [("2", 2), ("3", None), ("4", 1)] == told(world, wanted)


def test_a_job_reads_a_stream_before_its_producer_forwards_it() -> None:
    """The plan with the new forward waits until the reader's host has logged the reader's."""
    world = settled(plan("1"))
    wanted = wanting(plan("1", 2, forwards=[7]), plan("2", reads=[7]))
    decision = world.decide(wanted)
    assert ([PublishPlan(job="2", plan=plan("2", reads=[7]))], {"1": "job 2 is to read 'out' of instance 7 first"}) == (
        list(decision.steps),
        decision.waits,
    )
    world.take("2")
    assert [("1", 2)] == told(world, wanted)


def test_a_forward_that_is_there_already_waits_for_nobody() -> None:
    """A plan that goes on forwarding is published although its reader's next plan is not taken up yet."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2, forwards=[7]), plan("2", 2, reads=[7]))
    assert [("1", 2), ("2", 2)] == told(world, wanted)


def test_a_job_that_stops_has_heard_the_end_of_what_it_reads() -> None:
    """It is stopped once its producer says that the end of the stream was confirmed, and not when it only was sent."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2), stopped=["2"])
    assert [("1", 2)] == told(world, wanted)
    world.take("1")
    world.run("1")
    assert ({"2": "job 1 is to end 'out' of instance 7 first"}, ()) == (
        (decision := world.decide(wanted)).waits,
        decision.steps,
    )
    world.hear("1")
    assert [("2", None)] == told(world, wanted)


def test_a_job_that_goes_on_leaves_a_stream_once_its_producer_runs_without_it() -> None:
    """It keeps the stream's spool for some batches, in which the end comes, so it does not wait for that."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2), plan("2", 2))
    assert [("1", 2)] == told(world, wanted)
    world.take("1")
    assert [] == told(world, wanted)
    world.run("1")
    assert [("2", 2)] == told(world, wanted)


def test_where_producer_and_reader_both_stop_nobody_waits() -> None:
    """A job that stops ends no stream, so there is nothing to hear."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    assert [("1", None), ("2", None)] == told(world, wanting(stopped=["1", "2"]))


def test_two_that_begin_and_end_streams_between_them_do_not_wait_for_each_other() -> None:
    """The reader of both comes first, the producer follows."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    wanted = wanting(plan("1", 2, forwards=[8]), plan("2", 2, reads=[8]))
    assert [("2", 2)] == told(world, wanted)
    world.take("2")
    assert [("1", 2)] == told(world, wanted)


@pytest.mark.parametrize("why", ["away", "died", "refused"])
def test_nobody_waits_for_a_job_that_cannot_come(why: str) -> None:
    """A reader whose host is away, that died, or whose plan was refused holds up no producer."""
    world = settled(plan("1"), plan("2", host="i"))
    reading = plan("2", 2, host="i", reads=[7])
    wanted = wanting(plan("1", 2, forwards=[7]), reading)
    assert [("2", 2)] == told(world, wanted)
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


def test_nobody_waits_longer_than_its_patience() -> None:
    """A reader that neither comes nor says why is waited for a while only, and that from the first time."""
    world = settled(plan("1"))
    begun = world.now
    first, second = (wanting(plan("1", version, forwards=[7]), plan("2", version, reads=[7])) for version in (2, 3))
    assert ("1", 2) not in told(world, first)
    world.now = begun + _PATIENCE / 2
    assert ("1", 3) not in told(world, second)
    world.now = begun + _PATIENCE
    assert ("1", 3) in told(world, second)


def test_a_plan_that_is_not_taken_up_is_published_again_after_a_while() -> None:
    """A host that is there is told again, each time after longer; nobody is told in a hot loop."""
    world = settled(plan("1"))
    wanted = wanting(plan("1", 2))
    published = []
    begun = world.now
    for second in range(1_000):
        world.now = begun + second
        published += [second for _ in told(world, wanted)]
    steps = [later - earlier for earlier, later in pairwise(published)]
    assert (0, [*_BACK_OFF, _BACK_OFF[-1], _BACK_OFF[-1]]) == (published[0], steps)


def test_a_host_that_is_away_is_told_once() -> None:
    """What is retained waits for it."""
    world = settled(plan("1"))
    world.away.add("h")
    wanted = wanting(plan("1", 2))
    begun = world.now
    published = []
    for second in range(1_000):
        world.now = begun + second
        published += told(world, wanted)
    assert [("1", 2)] == published


def test_a_plan_that_the_broker_keeps_is_not_published_again_at_once() -> None:
    """A manager that begins takes what the one before it told, and its host is about to take up, for told."""
    world = World(retained={"1": plan("1")})
    wanted = wanting(plan("1"))
    assert [] == told(world, wanted)
    world.now += _BACK_OFF[0]
    assert [("1", 1)] == told(world, wanted)


def test_a_job_that_nobody_wants_is_stopped_where_it_belongs_to_this_service() -> None:
    """What runs under another root is left alone."""
    world = settled(plan("1"), plan("2"))
    decision = decide({}, world.sight(), Memory(), 0.0, belongs=lambda job: job == "2")
    assert (PublishPlan(job="2", plan=None),) == decision.steps


def test_of_a_job_that_is_gone_nothing_stays_at_the_broker() -> None:
    """Its status is cleaned once it is stopped, and it is said to be gone."""
    world = settled(plan("1"))
    wanted = wanting(stopped=["1"])
    assert [("1", None)] == told(world, wanted)
    world.take("1")
    decision = world.decide(wanted)
    assert [Clean(job="1"), "1"] == [*decision.steps, *decision.gone]
    decision = world.decide(wanted)
    assert ["1"] == [*decision.steps, *decision.gone]


def test_a_job_that_was_told_to_run_and_said_nothing_is_stopped_all_the_same() -> None:
    """It may be about to start."""
    world = World()
    world.decide(wanting(plan("1")))
    world.take("1")
    assert [("1", None)] == told(world, wanting(stopped=["1"]))


def test_a_job_that_moves_is_told_once_for_both_hosts() -> None:
    """The plan names another host; the one before stops it by that same plan."""
    world = settled(plan("1"))
    assert [("1", 2)] == told(world, wanting(plan("1", 2, host="i")))


def test_a_job_that_stopped_by_itself_is_told_again() -> None:
    """That its host has logged the plan is not enough."""
    world = settled(plan("1"))
    world.jobs["1"].state = JobState.STOPPED
    world.now += _BACK_OFF[0]
    assert [("1", 1)] == told(world, wanting(plan("1")))


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
        """Something else is wanted."""
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
    """Change what is wanted now and then, while hosts take, run and hear in any order, none of them for ever last."""
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
def test_what_is_wanted_is_reached_in_the_right_order(chance: Random, turns: int) -> None:
    """From any mix of wanted and seen, in finitely many steps, and no stream begins before its reader reads it."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=turns, restarts=False)
    assert world.settle(wanted) < _PATIENCE
    assert world.reached(wanted)
    assert [] == world.broken


@given(CHANCE, st.integers(0, 6))
def test_a_manager_that_begins_anew_reaches_what_is_wanted(chance: Random, turns: int) -> None:
    """It remembers nothing of what was told, and still no stream begins before its reader reads it."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=turns, restarts=True)
    world.settle(wanted)
    assert world.reached(wanted)
    assert [] == [each for each in world.broken if "before" in each and "forwards" in each]


@given(CHANCE, st.integers(0, 6))
def test_a_host_that_is_away_holds_up_no_other(chance: Random, turns: int) -> None:
    """Whatever else is wanted is reached meanwhile, and all of it once the host is back."""
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
    """Neither by the manager that settled it, nor by the next one."""
    world, course = World(), Course(chance)
    wanted = wander(world, course, chance, turns=3, restarts=False)
    world.settle(wanted)
    for _ in range(3):
        world.now += 1_000.0
        assert () == world.decide(wanted).steps
    world.memory = Memory()
    assert () == world.decide(wanted).steps


def test_who_knows_nothing_of_the_plan_before_waits_for_nobody_to_end_a_stream() -> None:
    """What a job reads now may be unknown, where the broker lost it; it is stopped then."""
    world = settled(plan("1", forwards=[7]), plan("2", reads=[7]))
    sight = world.sight()
    lost = {name: replace(each, wirings=(), planned=None) for name, each in sight.jobs.items()}
    decision = decide(wanting(plan("1", 2), stopped=["2"]), replace(sight, jobs=lost), Memory(), 0.0)
    assert ["1", "2"] == [step.job for step in decision.steps]
