"""Reconfigurations as they are committed: what changes in place, what is copied, and how jobs switch."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.reconfigurations import ReconfigurationForm, ReconfigurationScope, ReconfigurationState
from braid_client.answers.sources import SourceForm
from bridge.traces import span
from dags.vocabulary import Scheduler
from engine.plan import SlotState, StateChange
from manager.kernel import committer as committers
from manager.kernel.transitions import Phase, TransitionEvent
from manager.problem import Conflict, Forbidden, InvalidDataflow, StateNotReady
from manager.reconfigurations.request import AskedReconfiguration, ReconfigurationRequest
from manager.reconfigurations.snapshot import changed_lately
from merge import Instance
from tests.bridge.otlp import tracing
from tests.catalogue import UNIQUE_TYPES
from tests.manager.kernel.pictures import hold, pictured, rows
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, leading, take

CHAIN = "s:source > a:map{'add': 1} > b:count > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"))


@pytest.fixture
def spread(sqlite: str) -> Iterator[Manager]:
    """Jobs in a row: each dataflow's residue has one of its own."""
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"), strategy="launch")


def patch(**tasks: dict[str, object]) -> ReconfigurationForm:
    return ReconfigurationForm(tasks={task: {"config": config} for task, config in tasks.items()})


def places(manager: Manager, dataflow: str) -> dict[str, int]:
    detail = manager.service.dataflows.get(ANN, dataflow)
    return {task.id: task.instance for task in detail.tasks}


def test_a_task_of_one_dataflow_changes_in_place(manager: Manager) -> None:
    """It and all below keep their instances; the job's next plan has the new config."""
    flow = manager.submit("ann", CHAIN)
    before = places(manager, flow)
    answer = manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}))
    assert ReconfigurationState.SWITCHING == answer.state
    assert before == places(manager, flow)
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert '{"add":5}' == next(slot.config for slot in plan.slots if slot.instance == before["a"])
    hold(manager)


def test_a_shared_task_is_copied(manager: Manager) -> None:
    """The dataflow gets copies of the task and all below it; the other keeps its own, with its plan's slots."""
    mine, other = manager.submit("ann", CHAIN), manager.submit("bob", CHAIN)
    before = places(manager, mine)
    answer = manager.service.reconfigurations.begin(ANN, mine, patch(a={"add": 5}))
    after = places(manager, mine)
    assert before["s"] == after["s"]
    assert all(before[task] != after[task] for task in "abk")
    detail = manager.service.dataflows.get(BOB, other)
    assert before == {task.id: task.instance for task in detail.tasks}
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert {after["a"]: before["a"], after["b"]: before["b"], after["k"]: before["k"]} == {
        change.instance: change.source for change in plan.changes
    }
    assert {SlotState.ACTIVE} == {slot.state for slot in plan.slots}
    assert answer.scope is not None
    assert {(False, True)} == {(task.in_place, task.shared) for task in answer.scope.tasks}
    hold(manager)


def test_what_is_below_a_copy_is_copied_too(manager: Manager) -> None:
    """Even if nobody else uses it; the answer says what others use."""
    mine = manager.submit("ann", CHAIN)
    manager.submit("bob", "s:source > a:map{'add': 1} > k:sink")
    answer = manager.service.reconfigurations.preview(ANN, mine, patch(a={"add": 5}))
    assert answer.scope is not None
    assert {"a": True, "b": False, "k": False} == {task.task: task.shared for task in answer.scope.tasks}
    assert {False} == {task.in_place for task in answer.scope.tasks}


def test_what_is_the_same_is_refused(manager: Manager) -> None:
    """A reconfiguration that changes nothing, or more than tasks, is refused and changes nothing."""
    flow = manager.submit("ann", CHAIN)
    with pytest.raises(Conflict, match="nothing would change"):
        manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 1}))
    with pytest.raises(InvalidDataflow):
        manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": "x"}))
    hold(manager)


def test_jobs_in_a_row_switch_one_after_the_other(spread: Manager) -> None:
    """The job below waits for the marker of the bridge; the head switches once that is known."""
    manager = spread
    manager.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = manager.submit("ann", CHAIN)
    answer = manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}))
    assert ReconfigurationState.PREPARING == answer.state
    hold(manager)
    take(manager.changes.reconfigurations, int(answer.id), TransitionEvent.READY)
    hold(manager)
    with manager.committer.looking() as state:
        switches = {job: plan.switch for job, plan in state.plans.items() if plan.switch}
    assert 2 == len(switches)
    take(manager.changes.reconfigurations, int(answer.id), TransitionEvent.BEGUN)
    take(manager.changes.reconfigurations, int(answer.id), TransitionEvent.PROVEN)
    hold(manager)
    undo = manager.service.reconfigurations.undo(ANN, flow, answer.id)
    assert answer.id == undo.undoes
    hold(manager)


def test_a_reconfiguration_belongs_to_the_trace_of_who_has_asked(spread: Manager) -> None:
    """In all of its phases; each plan to the trace of what it was made for, whatever it is called."""
    manager = spread
    with tracing() as sent_spans:
        with span("submission"):
            manager.submit("ann", "s:source > a:map{'add': 1} > k:sink")
            flow = manager.submit("ann", CHAIN)
        with span("request"):
            answer = manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}))
        with span("later"):
            take(manager.changes.reconfigurations, int(answer.id), TransitionEvent.READY)
        with manager.committer.looking() as state:
            (known,) = state.reconfigurations.values()
            plans = {plan.trace.split("-")[1]: plan.switch for plan in state.plans.values() if plan.switch}
        made = sent_spans()
    assert made["request"].trace == known.trace.split("-")[1]
    assert {made["request"].trace, made["later"].trace} == plans.keys()
    hold(manager)


def test_a_preview_changes_nothing(manager: Manager) -> None:
    """It says what a reconfiguration would do, and that is what it does."""
    flow = manager.submit("ann", CHAIN)
    manager.submit("bob", CHAIN)
    before = pictured(manager), rows(manager.store)
    preview = manager.service.reconfigurations.preview(ANN, flow, patch(a={"add": 5}))
    assert before == (pictured(manager), rows(manager.store))
    assert (ReconfigurationState.PREVIEW, "") == (preview.state, preview.id)
    assert preview.scope == manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).scope


def test_what_all_users_agree_on_changes_in_place(manager: Manager) -> None:
    """An operator changes several dataflows at once: the tasks that they share keep their instances."""
    flows = [manager.submit(tenant, CHAIN) for tenant in ("ann", "bob")]
    before = places(manager, flows[0])
    form = patch(a={"add": 5}).model_copy(update={"dataflows": [flows[1]]})
    with pytest.raises(Forbidden):
        manager.service.reconfigurations.begin(ANN, flows[0], form)
    answer = manager.service.reconfigurations.begin(OPERATOR, flows[0], form)
    assert tuple(sorted(flows)) == answer.dataflows
    assert before == places(manager, flows[0])
    assert answer.scope is not None
    assert {True} == {task.in_place for task in answer.scope.tasks}
    hold(manager)


def test_a_state_of_which_nobody_knows_what_becomes_is_refused(manager: Manager) -> None:
    """The remedy is to begin without state; the plan then drops it."""
    flow = manager.submit("ann", CHAIN)
    before = pictured(manager), rows(manager.store)
    with pytest.raises(InvalidDataflow, match=r'begin without state: send \{"fresh": \["b"\]\} along'):
        manager.service.reconfigurations.begin(ANN, flow, patch(b={"by": "value"}))
    assert before == (pictured(manager), rows(manager.store))
    form = patch(b={"by": "value"}).model_copy(update={"fresh": ["b"]})
    manager.service.reconfigurations.begin(ANN, flow, form)
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert (StateChange(instance=places(manager, flow)["b"], fresh=True),) == plan.changes
    hold(manager)


def to_float(task: str, *fresh: str) -> ReconfigurationForm:
    """The change of a `map` to `scale`, which makes other events."""
    patched: dict[str, object] = {"type": "scale", "config": {"add": None, "factor": 2.0}}
    return ReconfigurationForm(tasks={task: patched}, fresh=list(fresh))


def test_a_state_made_from_other_events_is_refused(manager: Manager) -> None:
    """A task whose input gets another schema keeps its state only if that goes with it; or it begins without."""
    flow = manager.submit("ann", CHAIN)
    before = pictured(manager), rows(manager.store)
    with pytest.raises(InvalidDataflow, match=r"the state of 'b' was made from events with other fields"):
        manager.service.reconfigurations.begin(ANN, flow, to_float("a"))
    assert before == (pictured(manager), rows(manager.store))
    manager.service.reconfigurations.begin(ANN, flow, to_float("a", "b"))
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
    assert (StateChange(instance=places(manager, flow)["b"], fresh=True),) == plan.changes
    hold(manager)


def test_a_state_is_dropped_where_the_events_change(spread: Manager) -> None:
    """A task in a job below that loses its state waits for the marker, though its config stays as it is."""
    other = spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", CHAIN)
    spread.service.dataflows.remove(ANN, other, Stop.NOW)
    answer = spread.service.reconfigurations.preview(ANN, flow, to_float("a", "b"))
    assert answer.scope is not None
    found = {each.task: each for each in answer.scope.tasks}
    assert (True, False, "fresh") == (found["b"].in_place, found["b"].changed, found["b"].state)
    assert (found["b"].job,) == answer.scope.waiting


@pytest.mark.parametrize(
    ("becomes", "types", "why"),
    [
        ("gpu", None, "needs a host that offers 'gpu'; this one runs on 'local', which does not"),
        ("echo", {"source", "map", "count", "sink", "lab:*"}, "host 'local', which has no implementation"),
    ],
)
def test_a_type_that_the_host_cannot_run_is_refused(
    manager: Manager, becomes: str, types: set[str] | None, why: str
) -> None:
    """The job would never take up its plan, so nothing is begun; another of the host's types is fine."""
    flow = manager.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    with manager.committer.looking() as state:
        (job,) = state.jobs.jobs.values()
    manager.hosts = tuple(
        replace(host, tags=frozenset(), types=None if types is None else frozenset(types))
        if host.name == job.host
        else host
        for host in manager.hosts
    )
    before = pictured(manager), rows(manager.store)
    with pytest.raises(InvalidDataflow, match=why.replace("local", job.host)):
        manager.service.reconfigurations.begin(ANN, flow, to_type(becomes))
    assert before == (pictured(manager), rows(manager.store))
    manager.service.reconfigurations.begin(ANN, flow, to_type("lab:fast"))
    hold(manager)


def to_type(name: str) -> ReconfigurationForm:
    return ReconfigurationForm(tasks={"a": {"type": name, "config": {"add": None}}})


def test_only_changed_tasks_begin_without_state(manager: Manager) -> None:
    """Another one is refused, rather than silently kept as it is."""
    flow = manager.submit("ann", CHAIN)
    form = patch(a={"add": 5}).model_copy(update={"fresh": ["b"]})
    with pytest.raises(InvalidDataflow, match="the task 'b' does not change"):
        manager.service.reconfigurations.begin(ANN, flow, form)


def test_a_changed_source_keeps_the_states_below_it(manager: Manager) -> None:
    """The tasks are copied with their states, and read the other source behind a marker at the end of the first."""
    flow = manager.submit("ann", CHAIN)
    before = places(manager, flow)
    with manager.committer.looking() as state:
        ((read,),) = (plan.streams for plan in state.plans.values())
    answer = manager.service.reconfigurations.begin(ANN, flow, patch(s={"source": "bob:traffic"}))
    take(manager.changes.reconfigurations, int(answer.id), TransitionEvent.READY)
    (going,) = manager.changes.reconfigurations.under_way()
    assert {read} == going.streams
    after = places(manager, flow)
    with manager.committer.looking() as state:
        (plan,) = state.plans.values()
        assert plan.switch is not None
        assert (read,) == plan.switch.awaits
        assert [answer.begun.timestamp()] == [ingress.since for ingress in plan.ingress]
        assert "bob:traffic" == state.running.tasks[Instance(after["s"])].config["source"]
    assert {after[task]: before[task] for task in "abk"} == {each.instance: each.source for each in plan.changes}
    hold(manager)


def test_a_source_with_other_fields_drops_no_state_unasked(manager: Manager) -> None:
    """The task whose state does not go with them is named, and begins without it if its tenant says so."""
    number, text = ({"n": "integer", "value": kind} for kind in ("float", "string"))
    for name, schema in (("numbers", number), ("texts", text)):
        form = {"name": name, "connection": {"kind": "topic", "topic": f"ann/{name}"}, "schema": schema}
        manager.service.sources.register(ANN, SourceForm.model_validate(form))
    flow = manager.submit("ann", "s:source{'source': 'numbers'} > b:count{'by': 'value'} > k:sink")
    swap = patch(s={"source": "texts"})
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.reconfigurations.begin(ANN, flow, swap)
    assert [("/tasks/b", "undeclared-state")] == [(each.pointer, each.code) for each in refused.value.errors]
    assert "the state of 'b' was made from events with other fields" in str(refused.value)
    manager.service.reconfigurations.begin(ANN, flow, swap.model_copy(update={"fresh": ["b"]}))
    hold(manager)


def test_nobody_changes_to_a_source_that_it_may_not_read(manager: Manager) -> None:
    """It is as unknown as one that is not there."""
    form = {"name": "diary", "connection": {"kind": "topic", "topic": "bob/diary"}, "schema": {}}
    manager.service.sources.register(BOB, SourceForm.model_validate(form))
    flow = manager.submit("ann", CHAIN)
    before = pictured(manager), rows(manager.store)
    codes = []
    for name in ("bob:diary", "bob:nothing"):
        with pytest.raises(InvalidDataflow) as refused:
            manager.service.reconfigurations.begin(ANN, flow, patch(s={"source": name}))
        codes += [(each.pointer, each.code) for each in refused.value.errors]
    assert [("/tasks/0/config/source", "unknown-source")] * 2 == codes
    assert before == (pictured(manager), rows(manager.store))


def test_another_change_cancels_what_is_only_prepared(spread: Manager) -> None:
    """The dataflow is as it was, and the plans that waited for a marker are withdrawn."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", CHAIN)
    before = places(spread, flow)
    number = spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id
    spread.service.dataflows.remove(BOB, spread.submit("bob", CHAIN), Stop.NOW)
    assert ReconfigurationState.ABANDONED is spread.service.reconfigurations.get(ANN, flow, number).state
    assert before == places(spread, flow)
    with spread.committer.looking() as state:
        assert {None} == {plan.switch for plan in state.plans.values()}
    hold(spread)


def test_nothing_else_changes_while_jobs_switch(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a task may have switched, changes of the same jobs wait until it is over."""
    monkeypatch.setattr(committers, "MOST_WAITED", 0.05)
    flow = manager.submit("ann", CHAIN)
    number = int(manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id)
    with pytest.raises(StateNotReady, match="tasks are being reconfigured"):
        manager.submit("bob", CHAIN)
    take(manager.changes.reconfigurations, number, TransitionEvent.BEGUN)
    manager.submit("bob", CHAIN)
    hold(manager)


def test_a_dataflow_may_go_while_its_reconfiguration_proves_itself(spread: Manager) -> None:
    """The others' transitions go on; there is nothing to take back from it if it fails, and no event to wait for."""
    other = spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", "s:source > a:map{'add': 1} > k:sink s > b:map{'add': 2} > l:sink")
    spread.service.dataflows.remove(ANN, other, Stop.NOW)
    answer = spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}, b={"add": 6}))
    take(spread.changes.reconfigurations, int(answer.id), TransitionEvent.READY)
    (going,) = spread.changes.reconfigurations.under_way()
    assert going.streams
    take(spread.changes.reconfigurations, int(answer.id), TransitionEvent.BEGUN)
    spread.service.dataflows.remove(ANN, flow, Stop.NOW)
    hold(spread)
    take(spread.changes.reconfigurations, int(answer.id), TransitionEvent.FAILED, why="a task fails")
    (kept,) = spread.changes.reconfigurations.under_way()
    assert (Phase.PROVING, ()) == (kept.reconfiguration.phase, kept.reached)
    assert kept.reconfiguration.outcome.startswith("kept, although a task fails: ")
    take(spread.changes.reconfigurations, int(answer.id), TransitionEvent.PROVEN)
    assert () == spread.changes.reconfigurations.under_way()
    hold(spread)


def test_only_the_last_reconfiguration_can_be_undone(manager: Manager) -> None:
    """What came after it would be lost."""
    flow = manager.submit("ann", CHAIN)
    first = manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id
    take(manager.changes.reconfigurations, int(first), TransitionEvent.BEGUN)
    second = manager.service.reconfigurations.begin(ANN, flow, patch(a={"add": 6})).id
    take(manager.changes.reconfigurations, int(second), TransitionEvent.BEGUN)
    with pytest.raises(Conflict, match="undo the last one"):
        manager.service.reconfigurations.undo(ANN, flow, first)
    manager.service.reconfigurations.undo(ANN, flow, second)
    with manager.committer.looking() as state:
        assert {"add": 5} == state.running.tasks[Instance(places(manager, flow)["a"])].config
    hold(manager)


def test_events_under_way_keep_two_reconfigurations_together(spread: Manager) -> None:
    """A task changed just after one in a job above waits for a marker from there: older events may be between."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink")
    number = int(spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id)
    take(spread.changes.reconfigurations, number, TransitionEvent.READY)
    take(spread.changes.reconfigurations, number, TransitionEvent.BEGUN)
    later = patch(d={"add": 3})
    together = spread.service.reconfigurations.preview(ANN, flow, later).scope
    take(spread.changes.reconfigurations, number, TransitionEvent.PROVEN)
    alone = spread.service.reconfigurations.preview(ANN, flow, later).scope
    assert together is not None
    assert alone is not None
    assert (("a", "d"), ("d",)) == (together.components[0].tasks, alone.components[0].tasks)
    assert (1, 0) == (len(together.waiting), len(alone.waiting))


def test_what_is_undone_is_covered_until_its_older_events_are_gone(spread: Manager) -> None:
    """An event may have met its tasks before it, even if the one that was to undo it is given up."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink")
    changes = spread.changes.reconfigurations
    number = int(spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id)
    take(changes, number, TransitionEvent.READY)
    take(changes, number, TransitionEvent.BEGUN)
    take(changes, number, TransitionEvent.FAILED, why="a task fails")
    reverted, undoing = changes.under_way()
    assert (Phase.REVERTED, True) == (reverted.reconfiguration.phase, reverted.is_held)
    assert reverted.reached
    if undoing.reconfiguration.phase is Phase.PREPARING:
        changes.give_up(undoing.reconfiguration.id, why="another manager leads")
    else:
        take(changes, undoing.reconfiguration.id, TransitionEvent.BEGUN)
        take(changes, undoing.reconfiguration.id, TransitionEvent.PROVEN)
    with spread.committer.looking() as state:
        assert reverted.reconfiguration.changed == changed_lately(state)
    (left,) = changes.under_way()
    assert not left.is_held
    take(changes, number, TransitionEvent.PROVEN)
    found = spread.service.reconfigurations.get(ANN, flow, str(number))
    assert (ReconfigurationState.REVERTED, "undone, because a task fails") == (found.state, found.outcome)
    assert () == changes.under_way()
    hold(spread)


@pytest.mark.parametrize(("apart", "waiting"), [("", 1), ("a", 0), ("d", 0), ("ad", 0)])
def test_tasks_that_may_switch_apart_wait_for_no_other_job(spread: Manager, apart: str, waiting: int) -> None:
    """Of two changed tasks in two jobs the second one waits for a marker, unless either may switch apart."""
    gone = spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink")
    spread.service.dataflows.remove(ANN, gone, Stop.NOW)
    wanted = ReconfigurationRequest(
        dataflows=(flow,),
        patches={"a": {"config": {"add": 5}}, "d": {"config": {"add": 6}}},
        apart={flow: frozenset(apart)},
    )
    assert (2, waiting) == _jobs(spread, wanted)
    spread.changes.reconfigurations.begin(AskedReconfiguration(request=wanted, who="ann"))
    hold(spread)


def test_a_copy_switches_at_the_cut(spread: Manager) -> None:
    """Its stream begins at a marker, so a task that others use waits even if it may switch apart."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", CHAIN)
    wanted = ReconfigurationRequest(
        dataflows=(flow,), patches={"a": {"config": {"add": 5}}}, apart={flow: frozenset("abk")}
    )
    assert (2, 1) == _jobs(spread, wanted)


def test_copies_that_need_more_streams_than_their_host_can_receive_are_refused(
    spread: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared task between two jobs is copied with its stream; what was refused has changed nothing."""
    spread.submit("bob", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", "s:source > a:map{'add': 1} > d:count > k:sink")
    spread.submit("bob", "s:source > a:map{'add': 1} > d:count > e:map{'add': 9} > k:sink")
    before = places(spread, flow)
    monkeypatch.setattr("merge.step.MOST_STREAMS", 2)
    with pytest.raises(InvalidDataflow, match=r"1 more streams .* room for 0") as refused:
        spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}))
    assert [("/tasks", "too-many-streams")] == [(problem.pointer, problem.code) for problem in refused.value.errors]
    assert before == places(spread, flow)
    monkeypatch.setattr("merge.step.MOST_STREAMS", 3)
    spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5}))
    hold(spread)


def test_a_shared_task_switches_apart_only_if_all_of_its_dataflows_allow_it(spread: Manager) -> None:
    """Nobody's consistency depends on what another tenant has chosen."""
    first, second = (
        spread.submit(tenant, "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink") for tenant in ("ann", "bob")
    )
    gone = spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    patches = {"a": {"config": {"add": 5}}, "d": {"config": {"add": 6}}}
    both = frozenset("ad")
    one = ReconfigurationRequest(dataflows=(first, second), patches=patches, apart={first: both})
    all_of_them = replace(one, apart={first: both, second: both})
    spread.service.dataflows.remove(ANN, gone, Stop.NOW)
    decided = [
        spread.changes.reconfigurations.preview(each, lambda _state, decided: decided) for each in (one, all_of_them)
    ]
    assert [True, False] == [bool(each.switches.components) for each in decided]


def _jobs(manager: Manager, wanted: ReconfigurationRequest) -> tuple[int, int]:
    """The numbers of jobs that would switch, and of those among them that would wait for a marker."""
    jobs = manager.changes.reconfigurations.preview(wanted, lambda _state, decided: decided.switches.jobs.values())
    return len(jobs), sum(not each.is_head for each in jobs)


def test_a_failing_version_that_cannot_go_back_now_is_tried_again(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another transition is in the way nothing waits and nothing is marked; after that it goes back."""
    monkeypatch.setattr(committers, "MOST_WAITED", 1_000.0)
    flow, other = manager.submit("ann", CHAIN), manager.submit("bob", "s:source > x:map{'add': 8} > k:sink")
    service, changes = manager.service.reconfigurations, manager.changes.reconfigurations
    number = service.begin(ANN, flow, patch(a={"add": 5})).id
    take(changes, int(number), TransitionEvent.BEGUN)
    between = service.begin(BOB, other, patch(x={"add": 9})).id
    with pytest.raises(StateNotReady):
        take(changes, int(number), TransitionEvent.FAILED, why="it fails")
    assert ReconfigurationState.SWITCHED is service.get(ANN, flow, number).state
    take(changes, int(between), TransitionEvent.BEGUN)
    take(changes, int(number), TransitionEvent.FAILED, why="it fails")
    found = service.get(ANN, flow, number)
    assert (ReconfigurationState.REVERTED, "undone, because it fails") == (found.state, found.outcome)
    with manager.committer.looking() as state:
        assert {"add": 1} == state.running.tasks[Instance(places(manager, flow)["a"])].config
    hold(manager)


def test_what_has_not_switched_cannot_be_undone(spread: Manager) -> None:
    """Its documents were never those of the dataflow."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", CHAIN)
    number = spread.service.reconfigurations.begin(ANN, flow, patch(a={"add": 5})).id
    with pytest.raises(Conflict, match="is preparing and has changed nothing yet; cancel it instead"):
        spread.service.reconfigurations.undo(ANN, flow, number)
    spread.service.reconfigurations.cancel(ANN, flow, number)
    with pytest.raises(Conflict, match="is abandoned; only one that has switched can be undone"):
        spread.service.reconfigurations.undo(ANN, flow, number)
    hold(spread)


FORK = "s:source > re:pass{'generation': 1}"
WAY = "fd3:pass{'generation': 2} > s1:pass{'generation': 3} > f3:pass{'generation': 4}"
OTHER_WAY = "f4:pass{'generation': 5} > fd4:pass{'generation': 6}"
MET = f"{FORK} > {WAY} > sj:once re > {OTHER_WAY} > sj"


@pytest.fixture
def with_unique_types(sqlite: str) -> Iterator[Manager]:
    """Each dataflow's residue has a job of its own."""
    yield from leading(sqlite, tenants=("ann",), sources=("weather",), strategy="launch", catalogue=UNIQUE_TYPES)


def spread_out(manager: Manager, join: str = "once") -> str:
    """The workflow W5 of the paper on Fries, whose fork, ways, join and task below have a job each."""
    met = MET.replace("once", join)
    for above in (FORK, f"{FORK} > {WAY}", f"{FORK} > {OTHER_WAY}"):
        manager.submit("ann", f"{above} > k:sink")
    manager.submit("ann", f"{met} sj > k:sink")
    return manager.submit("ann", f"{met} sj > e1:pass{{'generation': 7}} > k:sink")


def previewed(manager: Manager, flow: str, *tasks: str, scheduler: Scheduler = Scheduler.FRIES) -> ReconfigurationScope:
    changes: dict[str, dict[str, object]] = {task: {"config": {"generation": 9}} for task in tasks}
    form = ReconfigurationForm.model_validate({"tasks": changes, "scheduler": scheduler})
    scope = manager.service.reconfigurations.preview(OPERATOR, flow, form).scope
    assert scope is not None
    return scope


def test_a_task_below_a_unique_one_waits_for_no_other(with_unique_types: Manager) -> None:
    """A change below the join of W5 is one task in one job; by the other schedulers it is all eight, in five jobs."""
    flow = spread_out(with_unique_types)
    alone = previewed(with_unique_types, flow, "e1")
    assert ((("e1",),), 1, ()) == (tuple(part.tasks for part in alone.components), len(alone.jobs), alone.waiting)
    whole = previewed(with_unique_types, flow, "e1", scheduler=Scheduler.UNPRUNED)
    assert (("e1", "f3", "f4", "fd3", "fd4", "re", "s1", "sj"),) == tuple(part.tasks for part in whole.components)
    assert (5, 4) == (len(whole.jobs), len(whole.waiting))
    form = ReconfigurationForm.model_validate({"tasks": {"e1": {"config": {"generation": 9}}}})
    assert ReconfigurationState.SWITCHING == with_unique_types.service.reconfigurations.begin(ANN, flow, form).state


def test_a_task_below_one_that_emits_again_waits_for_all(with_unique_types: Manager) -> None:
    """By its config the same type is not unique, and pieces of one event may be on both ways."""
    flow = spread_out(with_unique_types, "once{'again': True}")
    assert 8 == len(previewed(with_unique_types, flow, "e1").components[0].tasks)
