"""Laws of the committer, after every step of what several tenants do in any order."""

import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from braid_client.answers.dataflows import Start, Stop
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from braid_client.answers.sources import VisibilityForm
from braid_client.answers.tenants import Quota
from dags import Key, Visibility
from manager.kernel.transitions import TransitionEvent
from manager.planner import Delivered
from manager.problem import Trouble
from manager.store.database import sqlite_url
from merge import RunningTask
from tests.catalogue import SOURCES
from tests.manager.kernel.pictures import hold, pictured, rows
from tests.manager.managers import HOSTS, OPERATOR, PLENTY, Manager, caller, form, raw, take
from tests.notation import document
from tests.strategies import Document, families

PLAIN = ("map", "count", "echo")
"""Types with one input port and one output port, of which any may stand between any two tasks."""


def reshaped(document: dict[str, Any], draw: Random) -> dict[str, Any]:
    """The document after some insertions, removals and changes of configs; maybe as it was."""
    found = deepcopy(document)
    for _ in range(draw.randint(1, 3)):
        draw.choice([_inserted, _inserted, _removed, _changed])(found, draw)
    return found


def _inserted(document: dict[str, Any], draw: Random) -> None:
    """Insert a task before some or all of those that one stream feeds."""
    if not document["streams"]:
        return
    chosen = draw.choice(document["streams"])
    leaving = [each for each in document["streams"] if _origin(each) == _origin(chosen)]
    taken = draw.sample(leaving, draw.randint(1, len(leaving)))
    name = f"x{draw.randrange(10**6)}"
    kind = draw.choice(PLAIN)
    config = {} if kind == "count" else {"add": draw.randrange(3)}
    document["tasks"].append({"id": name, "type": kind, "config": config})
    document["streams"].append({**_origin(chosen), "to": name})
    for each in taken:
        document["streams"].remove(each)
        document["streams"].append({"from": name, **{key: each[key] for key in ("to", "to_port") if key in each}})


def _removed(document: dict[str, Any], draw: Random) -> None:
    """Take a task out between those that feed it and those that it feeds."""
    streams = document["streams"]
    gone = [
        each["id"]
        for each in document["tasks"]
        if each["type"] in PLAIN and any(stream["from"] == each["id"] for stream in streams)
    ]
    if not gone:
        return
    name = draw.choice(gone)
    entering = [each for each in streams if each["to"] == name]
    leaving = [each for each in streams if each["from"] == name]
    document["tasks"] = [each for each in document["tasks"] if each["id"] != name]
    left = [each for each in streams if each not in entering and each not in leaving]
    for above in entering:
        for below in leaving:
            joined = {**_origin(above), **{key: below[key] for key in ("to", "to_port") if key in below}}
            if joined not in left:
                left.append(joined)
    document["streams"] = left


def _changed(document: dict[str, Any], draw: Random) -> None:
    """Change a config."""
    if maps := [each for each in document["tasks"] if each["type"] == "map"]:
        draw.choice(maps)["config"] = {"add": draw.randrange(3)}


def _origin(stream: dict[str, Any]) -> dict[str, Any]:
    return {key: stream[key] for key in ("from", "from_port") if key in stream}


STRATEGY = pytest.mark.parametrize("strategy", ["pack", "graft", "launch"])
TENANTS = ("ann", "bob", "eve")
NAMES = ("weather", "traffic", "power")
_ANY = st.integers(0, 2**32)


class Tenants(RuleBasedStateMachine):
    """Tenants that submit, replace, remove, and let each other read; the database is loaded anew now and then."""

    template: Path
    strategy: str
    names = count()

    def __init__(self) -> None:
        super().__init__()
        type(self).names = count()
        self.folder = Path(tempfile.mkdtemp(prefix="braid-laws-"))
        shutil.copy(self.template, self.folder / "braid.db")
        self.manager = Manager(sqlite_url(self.folder / "braid.db"), strategy=self.strategy).lead()
        self.manager.admit(*TENANTS)
        self.manager.register(*NAMES)
        self.alive: dict[str, str] = {}
        self.keyed: dict[tuple[str, str], str] = {}
        self.family: tuple[Document, ...] = ()
        self.seen_instances: set[int] = set()
        self.seen_jobs: set[str] = set()

    def teardown(self) -> None:
        self.manager.close()
        shutil.rmtree(self.folder)

    @initialize(family=families(confined=True, sources=NAMES, least=2, most=6))
    def begin(self, family: tuple[Document, ...]) -> None:
        self.family = family

    def tried(self, step: Callable[[], Any]) -> Any:
        """Do a step; where it is refused, nothing may have changed."""
        before, stored = pictured(self.manager), rows(self.manager.store)
        try:
            return step()
        except Trouble:
            assert (before, stored) == (pictured(self.manager), rows(self.manager.store))
            return None

    def note_started(self, instances: set[int]) -> None:
        """Hold that what starts has ids that nothing had before."""
        assert not instances & self.seen_instances
        self.seen_instances |= instances

    def some(self, seed: int) -> str:
        return Random(seed).choice(list(self.alive))

    @rule(
        seed=_ANY,
        tenant=st.sampled_from(TENANTS),
        keyed=st.booleans(),
        start=st.sampled_from([Start.LATEST, Start.LATEST, Start.EARLIEST]),
    )
    def submit(self, seed: int, tenant: str, keyed: bool, start: Start) -> None:  # noqa: FBT001 - drawn
        text = raw(Random(seed).choice(self.family))
        key = f"key {seed}" if keyed else None
        service, before = self.manager.service, rows(self.manager.store)
        answer = self.tried(lambda: service.dataflows.submit(caller(tenant), text, idempotency_key=key, start=start))
        if answer is None:
            return
        if key is not None and (tenant, key) in self.keyed:
            # The first answer again, even if its dataflow has been replaced or removed since.
            assert self.keyed[tenant, key] == answer.id
            assert before == rows(self.manager.store)
            return
        assert start is Start.LATEST or not answer.reused
        self.alive[answer.id] = tenant
        self.note_started({task.instance for task in answer.started})
        if key is not None:
            self.keyed[tenant, key] = answer.id
            before = rows(self.manager.store)
            assert answer == service.dataflows.submit(caller(tenant), text, idempotency_key=key, start=start)
            assert before == rows(self.manager.store)

    @precondition(lambda self: self.alive)
    @rule(seed=_ANY)
    def remove(self, seed: int) -> None:
        dataflow = self.some(seed)
        self.manager.service.dataflows.remove(caller(self.alive.pop(dataflow)), dataflow, Stop.NOW)

    @precondition(lambda self: self.alive)
    @rule(seed=_ANY, document=_ANY)
    def replace(self, seed: int, document: int) -> None:
        dataflow = self.some(seed)
        tenant = self.alive[dataflow]
        text = raw(Random(document).choice(self.family))
        with self.manager.committer.looking() as state:
            name = next(each for each in state.running.dataflows if each.partition("~")[0] == dataflow)
            produced = state.running.produced(name)
            tasks = state.running.tasks
            before = {_common(tasks[each]): each for each in state.running.dataflow(name).instances}
            running = set(state.running.tasks)
            epochs = {sink: state.epochs.get(Delivered(name, sink), 1) for sink in produced}
        answer = self.tried(lambda: self.manager.service.dataflows.replace(caller(tenant), dataflow, text))
        if answer is None:
            return
        started = {task.instance for task in answer.started}
        self.note_started(started)
        with self.manager.committer.looking() as state:
            name = f"{dataflow}~{answer.revision}"
            for instance in state.running.dataflow(name).instances:
                # Whatever both documents have in common keeps its instance.
                assert before.get(_common(state.running.tasks[instance]), instance) == instance
                assert (instance in started) == (instance not in running)
            for sink, instance in state.running.produced(name).items():
                epoch = state.epochs.get(Delivered(name, sink), 1)
                if sink in produced:
                    assert epoch == epochs[sink] + (produced[sink] != instance)

    @precondition(lambda self: self.alive)
    @rule(seed=_ANY, interrupted=st.booleans())
    def reconfigure(self, seed: int, interrupted: bool) -> None:  # noqa: FBT001 - drawn
        """Others go on as they are; what it began is there at its end, or all is as before."""
        dataflow, random = self.some(seed), Random(seed)
        who, service = caller(self.alive[dataflow]), self.manager.service.reconfigurations
        found = self.manager.service.dataflows.get(who, dataflow)
        maps = [task.id for task in found.tasks if task.type == "map"]
        if random.random() < 0.5:
            wanted = ReconfigurationForm(document=reshaped(found.document, random))
        elif maps:
            changed = random.sample(maps, random.randint(1, len(maps)))
            wanted = ReconfigurationForm(tasks={task: {"config": {"add": random.randrange(3)}} for task in changed})
        else:
            return
        others, own, read = self._others(dataflow), self._own(dataflow), self._bridged()
        answer = self.tried(lambda: service.begin(who, dataflow, wanted))
        if answer is None:
            return
        self._to_the_end(answer, interrupted, read)
        if self.manager.service.reconfigurations.get(who, dataflow, answer.id).state is ReconfigurationState.DONE:
            # Whatever is above and below, a task that nobody else uses stays itself.
            now = self._own(dataflow)
            assert own.items() <= (own | now).items()
        assert others == self._others(dataflow)
        if random.random() < 0.5 and not interrupted:
            read = self._bridged()
            undone = self.tried(lambda: service.undo(who, dataflow, answer.id))
            if undone is not None:
                self._to_the_end(undone, interrupted, read)
        assert others == self._others(dataflow)
        with self.manager.committer.looking() as state:
            self.seen_instances |= set(state.running.tasks)

    def _own(self, dataflow: str) -> dict[str, int]:
        """The instances of a dataflow's tasks, if nobody else uses any but sources."""
        with self.manager.committer.looking() as state:
            each = next(each for name, each in state.running.dataflows.items() if name.partition("~")[0] == dataflow)
            used = {instance for instance in each.instances if state.running.tasks[instance].inputs}
            alone = all(len(state.running.users[instance]) == 1 for instance in used)
            single = len(set(each.instances)) == len(each.instances)
            return dict(each.places) if alone and single else {}

    def _others(self, dataflow: str) -> dict[str, Any]:
        """All dataflows but one, with the tasks that run for them."""
        with self.manager.committer.looking() as state:
            return {
                name: (each, [state.running.tasks[instance] for instance in each.instances])
                for name, each in state.running.dataflows.items()
                if name.partition("~")[0] != dataflow
            }

    def _bridged(self) -> dict[int, frozenset[str]]:
        """The streams that each job reads from others."""
        with self.manager.committer.looking() as state:
            return {job: plan.bridged for job, plan in state.plans.items()}

    def _to_the_end(
        self,
        answer: ReconfigurationAnswer,
        interrupted: bool,  # noqa: FBT001 - drawn
        read: dict[int, frozenset[str]],
    ) -> None:
        changes, number = self.manager.changes.reconfigurations, int(answer.id)
        if answer.state is ReconfigurationState.PREPARING:
            hold(self.manager)
            if interrupted:
                changes.give_up(number, why="drawn")
                return
            take(changes, number, TransitionEvent.READY)
        hold(self.manager)
        with self.manager.committer.looking() as state:
            begins = {job for job, plan in state.plans.items() if plan.bridged - read[job]}
            # It knows its plan before a stream begins, so it misses nothing of it.
            assert all(plan.switch and plan.switch.awaits for job, plan in state.plans.items() if job in begins)
        take(changes, number, TransitionEvent.BEGUN)
        take(changes, number, TransitionEvent.PROVEN)

    @rule(source=st.sampled_from(NAMES), visibility=st.sampled_from(Visibility), who=st.sampled_from(TENANTS))
    def open_to(self, source: str, visibility: Visibility, who: str) -> None:
        owner = SOURCES[source].owner
        shown = VisibilityForm(visibility=visibility, readers=frozenset({who}))
        done = self.tried(lambda: self.manager.service.sources.set_visibility(caller(owner), source, shown))
        self.leave(done)

    @rule(source=st.sampled_from(NAMES))
    def revoke_or_register(self, source: str) -> None:
        owner = SOURCES[source].owner
        with self.manager.committer.looking() as state:
            registered = f"{owner}:{source}" in state.sources
        if registered:
            self.leave(self.tried(lambda: self.manager.service.sources.revoke(caller(owner), source)))
        else:
            self.tried(lambda: self.manager.service.sources.register(OPERATOR, form(source)))

    def leave(self, done: Any) -> None:
        """Those that may not read any more are gone; all others stay."""
        with self.manager.committer.looking() as state:
            left = {each.partition("~")[0] for each in state.running.dataflows}
        assert left <= self.alive.keys()
        assert len(self.alive) - len(left) == (done.dataflows if done else 0)
        self.alive = {each: tenant for each, tenant in self.alive.items() if each in left}

    @rule(tenant=st.sampled_from(TENANTS), seed=_ANY)
    def ask_for_too_much(self, tenant: str, seed: int) -> None:
        """What a quota does not allow is refused."""
        self.manager.service.administration.set_quota(OPERATOR, tenant, Quota(dataflows=0))
        before, stored = pictured(self.manager), rows(self.manager.store)
        with pytest.raises(Trouble):
            self.manager.submit(tenant, Random(seed).choice(self.family))
        assert (before, stored) == (pictured(self.manager), rows(self.manager.store))
        self.manager.service.administration.set_quota(OPERATOR, tenant, PLENTY)

    @rule()
    def find_no_host(self) -> None:
        """Where nobody can run what starts, nothing changes, and the memory is not loaded anew."""
        self.manager.hosts = ()
        try:
            for text in map(raw, self.family):
                self.tried(lambda text=text: self.refused_or_reused(text))  # type: ignore[misc]
        finally:
            self.manager.hosts = HOSTS

    def refused_or_reused(self, text: bytes) -> None:
        with self.manager.committer.looking() as state:
            memory = id(state)
        try:
            answer = self.manager.service.dataflows.submit(caller("bob"), text)
        except Trouble:
            with self.manager.committer.looking() as state:
                assert memory == id(state)
            raise
        self.alive[answer.id] = "bob"
        assert answer.started == ()

    @rule()
    def begin_anew(self) -> None:
        """Another manager takes over."""
        url = self.manager.url
        self.manager.close()
        self.manager = Manager(url, "one", strategy=self.strategy).lead()

    @rule()
    def hear_that_jobs_stopped(self) -> None:
        """Jobs that were to stop have stopped."""
        for job, each in self.manager.changes.jobs.wanted().items():
            if each.plan is None:
                self.manager.changes.jobs.ended(job)
        assert all(each.plan is not None for each in self.manager.changes.jobs.wanted().values())

    @invariant()
    def everything_holds(self) -> None:
        """The laws hold, and jobs have ids of their own."""
        hold(self.manager)
        with self.manager.committer.looking() as state:
            running = {str(job) for job in state.plans.keys() | state.stopped.keys()}
            assert all(int(job) < state.jobs.next_job for job in running)
            jobs = {str(job) for job in state.plans}
            assert {each.partition("~")[0] for each in state.running.dataflows} == self.alive.keys()
        # One that is gone does not come back.
        assert not jobs & (self.seen_jobs - getattr(self, "running_jobs", set()))
        self.running_jobs = jobs
        self.seen_jobs |= jobs


def _common(task: RunningTask) -> Key:
    """By what a task of one revision is found in the next: what is younger counts as what it is beside."""
    scope = task.key.scope
    return task.key if scope and scope.dataflow else Key(task.key.signature, None)


@STRATEGY
def test_a_submission_repeated_later_is_answered_as_at_first(migrated: Path, strategy: str) -> None:
    """Other steps between them change nothing of it: a replacement, a removal, a manager that begins anew."""
    machine = type("Machine", (Tenants,), {"template": migrated, "strategy": strategy})()
    try:
        machine.begin(family=(document("s:source > a:map{'add': 1} > k:sink"),))
        for step in (lambda: None, lambda: machine.replace(0, 0), lambda: machine.remove(0), machine.begin_anew):
            step()
            machine.submit(0, "ann", keyed=True, start=Start.LATEST)
            machine.everything_holds()
    finally:
        machine.teardown()


@pytest.mark.hypothesis
@STRATEGY
def test_whatever_tenants_do_the_laws_hold(migrated: Path, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both constraints, plans, places, users and what a new manager would load hold after every step."""
    machine: type[Tenants] = type("Machine", (Tenants,), {"template": migrated, "strategy": strategy})
    # Chance is hypothesis's alone, or it could not shrink what it finds.
    monkeypatch.setattr("secrets.token_hex", lambda _: f"{next(machine.names):012x}")
    run_state_machine_as_test(machine, settings=settings(max_examples=8, stateful_step_count=15))


FAMILY = (
    "s:source > a:map{'add': 1} > b:count > k:sink",
    "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink",
    "s:source > a:map{'add': 1} > b:count > k:sink s > c:map{'add': 1} > b a > d:map{'add': 2} > l:sink",
    "s:source > a:map{'add': 1} > b:map{'add': 1} > c:count > k:sink a > d:map > e:map{'add': 1} > l:sink",
)


@STRATEGY
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_reconfigured_the_laws_hold(migrated: Path, strategy: str, seed: int) -> None:
    """The same, with mostly reconfigurations of dataflows that share tasks, and a repetition by the seed."""
    random = Random(seed)
    machine = type("Machine", (Tenants,), {"template": migrated, "strategy": strategy})()
    try:
        machine.begin(family=tuple(map(document, FAMILY)))
        for _ in range(20):
            drawn = random.randrange(2**32)
            match random.choice(["submit", "submit", "reconfigure", "reconfigure", "replace", "remove", "begin anew"]):
                case "reconfigure" if machine.alive:
                    machine.reconfigure(drawn, interrupted=random.random() < 0.3)
                case "replace" if machine.alive:
                    machine.replace(drawn, random.randrange(2**32))
                case "remove" if machine.alive:
                    machine.remove(drawn)
                case "begin anew":
                    machine.begin_anew()
                case _:
                    machine.submit(drawn, random.choice(TENANTS), keyed=False, start=Start.LATEST)
            machine.everything_holds()
    finally:
        machine.teardown()


ROW = ("s:source > a:map{'add': 1}", " > b:count", " > c:map{'add': 2}", " > d:echo", " > e:map")
ENDS = (" > k:sink", " > k:sink a > f:count > l:sink", " > k:sink c > f:map > l:sink")


@pytest.mark.parametrize("seed", range(8))
def test_whatever_comes_and_goes_in_rows_of_jobs_the_laws_hold(migrated: Path, seed: int) -> None:
    """The same for a dataflow whose tasks are spread over several jobs, some of which others need and some nobody."""
    random = Random(seed)
    machine = type("Machine", (Tenants,), {"template": migrated, "strategy": "launch"})()
    try:
        machine.begin(family=())
        whole = "".join(ROW[: random.randint(3, 5)]) + random.choice(ENDS)
        # Each starts what the one before it has not.
        flows = [machine.manager.submit("ann", "".join(ROW[:at]) + " > k:sink") for at in (1, 2, 3)]
        machine.alive = dict.fromkeys([*flows, machine.manager.submit("ann", whole)], "ann")
        for each in flows:
            if random.random() < 0.7:
                machine.manager.service.dataflows.remove(caller(machine.alive.pop(each)), each, Stop.NOW)
        for _ in range(4):
            machine.reconfigure(random.randrange(2**32), interrupted=random.random() < 0.2)
            machine.everything_holds()
    finally:
        machine.teardown()
