"""Reconfigurations that insert tasks or take them out, and dataflows that part and come together again."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from braid_client.answers.dataflows import Stop
from braid_client.answers.reconfigurations import ReconfigurationForm, ReconfigurationState, TaskPresence
from engine.plan import SlotState, StateChange
from manager.kernel.transitions import TransitionEvent
from manager.problem import InvalidDataflow
from manager.store.database import sqlite_url
from merge import Instance
from tests.interpreter import Event, Machine, Raw, as_merged
from tests.manager.kernel.pictures import hold, pictured, rows
from tests.manager.managers import ANN, OPERATOR, Manager, caller, leading, take
from tests.notation import document

SHORT = "s:source > b:count > k:sink"
LONG = "s:source > a:map{'add': 1} > b:count > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"))


@pytest.fixture
def spread(sqlite: str) -> Iterator[Manager]:
    """Jobs in a row: each dataflow's residue has one of its own."""
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"), strategy="launch")


def edited(text: str, *fresh: str) -> ReconfigurationForm:
    """The wish to run another document, with the same sources."""
    sent: dict[str, Any] = document(text)
    for task in sent["tasks"]:
        if task["type"] == "source":
            task["config"] = {"source": "ann:weather"}
    return ReconfigurationForm(document=sent, fresh=list(fresh))


def submit(manager: Manager, text: str, tenant: str = "ann") -> str:
    found = edited(text).document
    assert found is not None
    return manager.submit(tenant, found)


def places(manager: Manager, dataflow: str) -> dict[str, int]:
    with manager.committer.looking() as state:
        name = next(each for each in state.running.dataflows if each.partition("~")[0] == dataflow)
        return dict(state.running.dataflow(name).places)


def finished(manager: Manager, number: str) -> None:
    """Have a reconfiguration go through all of its phases."""
    changes = manager.changes.reconfigurations
    hold(manager)
    if any(each.reconfiguration.prepared for each in changes.under_way()):
        take(changes, int(number), TransitionEvent.READY)
        hold(manager)
    take(changes, int(number), TransitionEvent.BEGUN)
    hold(manager)
    take(changes, int(number), TransitionEvent.PROVEN)
    hold(manager)


def row_of_jobs(manager: Manager) -> str:
    """A dataflow over three jobs in a row, with a task in each, beside the source and the sink."""
    texts = [
        "s:source > a:map{'add': 1} > k:sink",
        "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink",
        "s:source > a:map{'add': 1} > b:map{'add': 2} > c:count > k:sink",
    ]
    *others, flow = [submit(manager, text) for text in texts]
    for each in others:
        manager.service.dataflows.remove(ANN, each, Stop.NOW)
    return flow


def test_a_task_is_inserted_and_all_others_stay(manager: Manager) -> None:
    """It is a new instance in the job of the one that it feeds, which keeps its instance and its state."""
    flow = submit(manager, SHORT)
    before = places(manager, flow)
    answer = manager.service.reconfigurations.begin(ANN, flow, edited(LONG))
    after = places(manager, flow)
    assert before == {task: instance for task, instance in after.items() if task != "a"}
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert () == plan.changes
    fed = {slot.instance: [edge.parent for edge in slot.inputs] for slot in plan.slots}
    assert {after["a"]: [after["s"]], after["b"]: [after["a"]], after["k"]: [after["b"]]} == fed
    assert answer.scope is not None
    tasks = {each.task: each for each in answer.scope.tasks}
    assert (TaskPresence.INSERTED, "fresh") == (tasks["a"].presence, tasks["a"].state)
    assert (True, False, "kept") == (tasks["b"].in_place, tasks["b"].changed, tasks["b"].state)
    finished(manager, answer.id)


def test_a_task_is_taken_out_and_all_others_stay(manager: Manager) -> None:
    """Its instance is paused, as any that nobody needs; the one below reads what it read."""
    flow = submit(manager, LONG)
    before = places(manager, flow)
    answer = manager.service.reconfigurations.begin(ANN, flow, edited(SHORT))
    after = places(manager, flow)
    assert {task: instance for task, instance in before.items() if task != "a"} == after
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    slots = {slot.instance: slot for slot in plan.slots}
    assert SlotState.PAUSED is slots[before["a"]].state
    assert [after["s"]] == [edge.parent for edge in slots[after["b"]].inputs]
    assert answer.scope is not None
    (gone,) = (each for each in answer.scope.tasks if each.presence is TaskPresence.REMOVED)
    assert ("a", "dropped", False) == (gone.task, gone.state, gone.shared)
    finished(manager, answer.id)


def test_a_chain_gets_longer_and_shorter(manager: Manager) -> None:
    """Tasks next to each other come and go at once, and others change with them."""
    flow = submit(manager, "s:source > a:map{'add': 1} > b:count > k:sink a > l:sink")
    before = places(manager, flow)
    longer = "s:source > a:map{'add': 5} > x:map{'add': 2} > y:count > b:count > k:sink x > l:sink"
    finished(manager, manager.service.reconfigurations.begin(ANN, flow, edited(longer)).id)
    middle = places(manager, flow)
    assert before.items() <= middle.items()
    other = "s:source > z:map > y:count > b:count > k:sink z > l:sink"
    finished(manager, manager.service.reconfigurations.begin(ANN, flow, edited(other)).id)
    after = places(manager, flow)
    assert {**before, "y": middle["y"], "z": after["z"]} == {**after, "a": before["a"]}


def test_what_others_use_is_copied_below(manager: Manager) -> None:
    """The dataflow gets copies with their states behind the new task; the others' tasks and outputs stay."""
    mine, other = submit(manager, SHORT), submit(manager, SHORT, "bob")
    before = places(manager, mine)
    answer = manager.service.reconfigurations.begin(ANN, mine, edited(LONG))
    after = places(manager, mine)
    assert before == places(manager, other)
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert {after["b"]: before["b"], after["k"]: before["k"]} == {each.instance: each.source for each in plan.changes}
    finished(manager, answer.id)


def test_what_others_use_is_taken_out_for_one(manager: Manager) -> None:
    """They keep it."""
    mine, other = submit(manager, LONG), submit(manager, LONG, "bob")
    before = places(manager, mine)
    answer = manager.service.reconfigurations.begin(ANN, mine, edited(SHORT))
    assert before == places(manager, other)
    assert answer.scope is not None
    assert {"a": True} == {
        each.task: each.shared for each in answer.scope.tasks if each.presence is TaskPresence.REMOVED
    }
    finished(manager, answer.id)


def test_nobody_shares_what_was_inserted(manager: Manager) -> None:
    """It has a history of its own, as all below it."""
    flow = submit(manager, SHORT)
    finished(manager, manager.service.reconfigurations.begin(ANN, flow, edited(LONG)).id)
    mine, other = places(manager, flow), places(manager, submit(manager, LONG, "bob"))
    assert {"s"} == {task for task in mine if mine[task] == other[task]}


def test_an_undo_takes_out_what_was_inserted(manager: Manager) -> None:
    """The others are the same instances all the while."""
    flow = submit(manager, SHORT)
    before = places(manager, flow)
    number = manager.service.reconfigurations.begin(ANN, flow, edited(LONG)).id
    finished(manager, number)
    finished(manager, manager.service.reconfigurations.undo(ANN, flow, number).id)
    assert before == places(manager, flow)


def test_a_failing_task_that_was_inserted_goes_again(manager: Manager) -> None:
    """The reconfiguration is undone by itself."""
    flow = submit(manager, SHORT)
    before = places(manager, flow)
    number = manager.service.reconfigurations.begin(ANN, flow, edited(LONG)).id
    changes = manager.changes.reconfigurations
    take(changes, int(number), TransitionEvent.BEGUN)
    (going,) = changes.under_way()
    assert places(manager, flow)["a"] in going.reconfiguration.watched
    take(changes, int(number), TransitionEvent.FAILED, why="a task fails since")
    assert before == places(manager, flow)
    assert ReconfigurationState.REVERTED is manager.service.reconfigurations.get(ANN, flow, number).state
    hold(manager)


def test_streams_between_jobs_stay_as_they_are(spread: Manager) -> None:
    """Behind a bridge a task is inserted where the bridge leads, and taken out again."""
    flow = row_of_jobs(spread)
    before = places(spread, flow)
    longer = "s:source > a:map{'add': 1} > x:map > b:map{'add': 2} > y:echo > c:count > k:sink"
    with spread.committer.looking() as state:
        homes = {task: state.jobs.homes[Instance(instance)].job for task, instance in before.items()}
        bridges = dict(state.jobs.bridges)
    answer = spread.service.reconfigurations.begin(ANN, flow, edited(longer))
    assert answer.scope is not None
    assert (str(homes["c"]),) == answer.scope.waiting
    finished(spread, answer.id)
    now = places(spread, flow)
    with spread.committer.looking() as state:
        assert bridges == dict(state.jobs.bridges)
        assert homes["b"] == state.jobs.homes[Instance(now["x"])].job
        assert homes["c"] == state.jobs.homes[Instance(now["y"])].job
    shorter = "s:source > a:map{'add': 1} > b:map{'add': 2} > c:count > k:sink"
    finished(spread, spread.service.reconfigurations.begin(ANN, flow, edited(shorter)).id)
    assert before == places(spread, flow)
    with spread.committer.looking() as state:
        assert bridges == dict(state.jobs.bridges)


def test_what_changes_above_an_inserted_task_in_another_job_switches_with_it(spread: Manager) -> None:
    """The tasks that it feeds wait for the marker, and it begins with them."""
    flow = row_of_jobs(spread)
    longer = "s:source > a:map{'add': 5} > x:map > b:map{'add': 2} > c:count > k:sink"
    answer = spread.service.reconfigurations.begin(ANN, flow, edited(longer))
    assert answer.scope is not None
    tasks = {each.task: each for each in answer.scope.tasks}
    assert tasks["a"].job != tasks["x"].job == tasks["b"].job
    assert (tasks["x"].job,) == answer.scope.waiting
    finished(spread, answer.id)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        # The job of b would begin to read the source, and that of c the job of a.
        ("s", "s:source > b:map{'add': 2} > c:count > k:sink"),
        ("a", "s:source > a:map{'add': 1} > c:count > k:sink"),
    ],
)
def test_a_job_does_not_begin_to_read_a_stream_in_the_middle(spread: Manager, task: str, text: str) -> None:
    """Nobody knows where it would have to begin, so this is refused, and changes nothing."""
    flow = row_of_jobs(spread)
    before = pictured(spread), rows(spread.store)
    with pytest.raises(
        InvalidDataflow, match=f"another job would begin or cease to read what '{task}' emits"
    ) as refused:
        spread.service.reconfigurations.begin(ANN, flow, edited(text))
    assert ["other-jobs"] == [each.code for each in refused.value.errors]
    assert before == (pictured(spread), rows(spread.store))


def test_nothing_is_inserted_that_feeds_two_jobs(spread: Manager) -> None:
    """Taken out again, it would leave one of them without its stream."""
    submit(spread, "s:source > a:map{'add': 1} > c:count > k:sink")
    flow = submit(spread, "s:source > a:map{'add': 1} > c:count > k:sink a > d:window > l:sink")
    before = pictured(spread), rows(spread.store)
    wide = "s:source > a:map{'add': 1} > x:map > c:count > k:sink x > d:window > l:sink"
    with pytest.raises(InvalidDataflow, match="another job would begin or cease to read what 'a' emits"):
        spread.service.reconfigurations.begin(ANN, flow, edited(wide))
    assert before == (pictured(spread), rows(spread.store))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s:source > b:count > k:sink b > l:sink", "the task 'l' is new or gone, and not between tasks that stay"),
        ("s:source > a:map > k:sink s > b:count > k", "the edited document has other streams"),
        ("s:source > k:sink s > b:count > k", "the edited document has other streams"),
        ("s:source > b:count > k:sink t:source > x:map > k", "the task 't' is new or gone"),
        ("s:source > b:count > m:sink", "the task 'm' is new or gone"),
    ],
)
def test_other_shapes_are_refused(manager: Manager, text: str, why: str) -> None:
    """A task that stays is fed by the same others, apart from what is between; the remedy is a replacement."""
    flow = submit(manager, SHORT)
    before = pictured(manager), rows(manager.store)
    with pytest.raises(InvalidDataflow, match=why):
        manager.service.reconfigurations.begin(ANN, flow, edited(text))
    assert before == (pictured(manager), rows(manager.store))


def test_a_state_made_from_other_events_is_refused_below_what_is_inserted(manager: Manager) -> None:
    """As if a task above had changed; it may begin without state."""
    flow = submit(manager, SHORT)
    scaled = "s:source > a:scale > b:count > k:sink"
    with pytest.raises(InvalidDataflow, match=r"the state of 'b' was made from events with other fields"):
        manager.service.reconfigurations.begin(ANN, flow, edited(scaled))
    manager.service.reconfigurations.begin(ANN, flow, edited(scaled, "b"))
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert (StateChange(instance=places(manager, flow)["b"], fresh=True),) == plan.changes
    hold(manager)


def test_an_inserted_task_needs_a_host_that_can_run_it(manager: Manager) -> None:
    """It runs with those that it feeds, whose host may lack what it needs."""
    flow = submit(manager, SHORT)
    manager.hosts = tuple(replace(host, tags=frozenset()) for host in manager.hosts)
    with pytest.raises(InvalidDataflow, match="needs a host that offers 'gpu'"):
        manager.service.reconfigurations.begin(ANN, flow, edited("s:source > a:gpu > b:count > k:sink"))
    hold(manager)


def test_what_comes_later_counts_an_inserted_task_as_changed(spread: Manager) -> None:
    """Events from before its insertion may be under way, so a task below waits for a marker from there."""
    other = submit(spread, "s:source > a:map{'add': 1} > k:sink")
    flow = submit(spread, "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink")
    spread.service.dataflows.remove(ANN, other, Stop.NOW)
    longer = "s:source > x:map > a:map{'add': 1} > d:map{'add': 2} > k:sink"
    answer = spread.service.reconfigurations.begin(ANN, flow, edited(longer))
    take(spread.changes.reconfigurations, int(answer.id), TransitionEvent.BEGUN)
    later = ReconfigurationForm(tasks={"d": {"config": {"add": 3}}})
    together = spread.service.reconfigurations.preview(ANN, flow, later).scope
    assert together is not None
    assert 1 == len(together.waiting)
    assert ("a", "d", "x") == together.components[0].tasks


def test_a_task_that_goes_may_run_as_one_with_another(spread: Manager) -> None:
    """What stays of the two keeps its job, and the one below does not begin to read what is above."""
    submit(spread, "s:source > a:map > b:count > k:sink")
    flow = submit(spread, "s:source > a:map > b:count > c:window > k:sink a > f:count > l:sink")
    gone = "s:source > a:map > c:window > k:sink a > f:count > l:sink"
    with pytest.raises(InvalidDataflow, match="another job would begin or cease to read what 'a' emits"):
        spread.service.reconfigurations.begin(ANN, flow, edited(gone))
    hold(spread)


TENANTS = ("ann", "bob")
CHAIN = "s:source > a:map{'add': 1} > b:map{'add': 10} > c:count{'by': 'value'} > k:sink b > l:sink"
Switch: TypeAlias = tuple[tuple[str, ...], str, int]
"""Whose map gets which number to add."""
Outputs: TypeAlias = dict[str, list[tuple[int, Event]]]


class Sharing:
    """Dataflows of these tenants in one running graph, fed with an event after each step."""

    def __init__(self, template: Path, folder: Path, tenants: Sequence[str]) -> None:
        database = shutil.copy(template, folder / f"{'-'.join(tenants)}.db")
        self.manager = Manager(sqlite_url(Path(database))).lead()
        self.manager.admit(*TENANTS)
        self.manager.register("weather")
        self.flows = {tenant: self.manager.submit(tenant, CHAIN) for tenant in tenants}
        self.outputs: dict[str, Outputs] = {tenant: {"k": [], "l": []} for tenant in tenants}
        self.machine: Machine[int] = Machine({})
        self.position = count()
        self.feed({})

    def places(self, tenant: str) -> Mapping[str, int]:
        detail = self.manager.service.dataflows.get(OPERATOR, self.flows[tenant])
        return {task.id: task.instance for task in detail.tasks}

    def feed(self, copies: Mapping[int, int]) -> None:
        """Run what is committed, and work off some events."""
        with self.manager.committer.looking() as state:
            self.machine.become(as_merged(state.running.tasks.items()), copies)
        for value in (1, 2, 1):
            position = next(self.position)
            taken = self.machine.take(position, Raw("weather", Event("north", value)))
            for tenant, outputs in self.outputs.items():
                places = self.places(tenant)
                for sink, found in outputs.items():
                    found += [(position, event) for event in taken[places[sink]]]

    def switch(self, tenants: Sequence[str], task: str, add: int) -> None:
        """Reconfigure a task of some dataflows together, unless it is so already in all of them."""
        flows = [self.flows[tenant] for tenant in tenants if tenant in self.flows]
        now = {self._adds(tenant, task) for tenant in tenants if tenant in self.flows}
        if not flows or now == {add}:
            self.feed({})
            return
        form = ReconfigurationForm(tasks={task: {"config": {"add": add}}}, dataflows=flows[1:])
        number = int(self.manager.service.reconfigurations.begin(OPERATOR, flows[0], form).id)
        with self.manager.committer.looking() as state:
            changes = [change for plan in state.plans.values() for change in plan.changes]
        self.feed({each.instance: each.source for each in changes if each.source is not None})
        take(self.manager.changes.reconfigurations, number, TransitionEvent.BEGUN)
        take(self.manager.changes.reconfigurations, number, TransitionEvent.PROVEN)
        hold(self.manager)

    def _adds(self, tenant: str, task: str) -> int:
        with self.manager.committer.looking() as state:
            added: int = state.running.tasks[Instance(self.places(tenant)[task])].config["add"]
            return added


@contextmanager
def sharing(template: Path, folder: Path, *tenants: str) -> Iterator[Sharing]:
    made = Sharing(template, folder, tenants)
    try:
        yield made
    finally:
        made.manager.close()


def test_what_was_forked_is_one_again(migrated: Path, tmp_path: Path) -> None:
    """Once both want the same, the tasks without state run once; the count goes on apart, with what it counted."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        before = both.places("ann")
        both.switch(["ann"], "a", 5)
        assert before["a"] != both.places("ann")["a"]
        assert before == both.places("bob")
        both.switch(["ann"], "a", 1)
        after = both.places("ann")
        assert {task: before[task] for task in "sab"} == {task: after[task] for task in "sab"}
        assert all(before[task] != after[task] for task in "ckl")
        assert before == both.places("bob")


def test_two_that_moved_on_apart_meet_elsewhere(migrated: Path, tmp_path: Path) -> None:
    """Ann and then bob switch to the same: he joins what runs for her since, and nothing of the first is left."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        both.switch(["ann"], "a", 5)
        both.switch(["bob"], "a", 5)
        ann, bob = both.places("ann"), both.places("bob")
        assert [ann[task] for task in "sab"] == [bob[task] for task in "sab"]


def test_a_newcomer_joins_what_was_reconfigured(migrated: Path, tmp_path: Path) -> None:
    """What has no state is shared with who submits the same later."""
    with sharing(migrated, tmp_path, "ann") as one:
        one.switch(["ann"], "a", 5)
        flow = one.manager.submit("bob", CHAIN.replace("{'add': 1}", "{'add': 5}"))
        detail = one.manager.service.dataflows.get(caller("bob"), flow)
        bob = {task.id: task.instance for task in detail.tasks}
        assert [one.places("ann")[task] for task in "sab"] == [bob[task] for task in "sab"]
        assert one.places("ann")["c"] != bob["c"]


def test_a_preview_says_what_would_be_joined(migrated: Path, tmp_path: Path) -> None:
    """The task is listed as one that others use, and not in place."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        both.switch(["ann"], "a", 5)
        form = ReconfigurationForm(tasks={"a": {"config": {"add": 1}}})
        scope = both.manager.service.reconfigurations.preview(caller("ann"), both.flows["ann"], form).scope
        assert scope is not None
        (found,) = (each for each in scope.tasks if each.task == "a")
        assert (False, True, True, "kept") == (found.in_place, found.shared, found.changed, found.state)


def test_across_jobs_nothing_is_joined(sqlite: str) -> None:
    """A job cannot begin to read another's stream at a place that nobody knows beforehand, so each keeps its own."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit(*TENANTS)
    manager.register("weather")
    flows = [manager.submit("ann", CHAIN), manager.submit("bob", CHAIN.replace("{'add': 1}", "{'add': 5}"))]
    form = ReconfigurationForm(tasks={"a": {"config": {"add": 5}}})
    manager.service.reconfigurations.begin(OPERATOR, flows[0], form)
    hold(manager)
    one, other = (manager.service.dataflows.get(OPERATOR, flow) for flow in flows)
    assert not {each.instance for each in one.tasks if each.id == "a"} & {each.instance for each in other.tasks}
    manager.close()


switches = st.tuples(
    st.sampled_from([("ann",), ("bob",), ("ann", "bob")]), st.sampled_from("ab"), st.sampled_from([1, 5, 10])
)


@example(steps=[(("ann",), "a", 5), (("bob",), "a", 10), (("ann", "bob"), "a", 1), (("ann",), "b", 1)])
@example(
    steps=[(("ann",), "a", 5), (("ann",), "b", 5), (("bob",), "b", 5), (("bob",), "a", 5), (("ann", "bob"), "a", 10)]
)
@settings(max_examples=8)
@given(steps=st.lists(switches, min_size=1, max_size=5))
def test_outputs_are_those_of_each_alone(migrated: Path, steps: list[Switch]) -> None:
    """However two switch apart and together, each gets what it would get if it were alone and did the same."""
    with TemporaryDirectory() as at, ExitStack() as stack:
        graphs = (TENANTS, ("ann",), ("bob",))
        both, ann, bob = (stack.enter_context(sharing(migrated, Path(at), *tenants)) for tenants in graphs)
        for tenants, task, add in steps:
            for each in (both, ann, bob):
                each.switch(tenants, task, add)
        assert both.outputs == {**ann.outputs, **bob.outputs}
