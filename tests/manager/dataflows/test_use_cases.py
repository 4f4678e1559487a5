"""Use cases of dataflows: what they refuse, what a tenant may see, and what removals are said to do."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid_client.answers.dataflows import DataflowState, Stop
from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import VisibilityForm
from dags import Config, Namespace, State, TaskType, Visibility
from dags.vocabulary import Basis
from engine.delivery.publisher import LeftOutSoFar
from manager.observations.reports import InstanceMeasured, JobSeen, Measured
from manager.problem import Conflict, InvalidDataflow, InvalidRequest, NotFound, StateNotReady
from manager.use_case import Caller, Paging
from merge import BATCH_SECONDS, Host
from tests.catalogue import CATALOGUE
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager, every, leading, parts, raw
from tests.notation import document

SHORT = "s:source > k:sink"
LONG = "s:source > w:window > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob", "eve"), sources=("weather", "traffic", "power"))


def seen(manager: Manager, job: str = "1", **more: Any) -> None:
    """As if a job's host had said that the newest plan is in effect."""
    plan = manager.changes.jobs.wanted()[job].plan
    assert plan is not None
    status: dict[str, Any] = {"state": "running", "version": plan.version, "in_effect": plan.version, **more}
    manager.seen.jobs[job] = JobSeen(job=job, host=plan.host, seen=datetime.now(UTC), **status)


def test_a_submission_is_answered_with_all_that_it_did(manager: Manager) -> None:
    """The answer has id, state, outputs, and each task as reused, with its hour where it has state, or started."""
    first = manager.service.dataflows.submit(ANN, raw(LONG))
    assert (DataflowState.DEPLOYING, "job 1 has not run version 1 of its plan yet") == (first.state, first.reason)
    assert ["k", "s", "w"] == [task.id for task in first.started]
    assert first.reused == ()
    second = manager.service.dataflows.submit(BOB, raw("s:source > w:window > k:sink w > m:map > l:sink"))
    assert [("k", None), ("s", None), ("w", True)] == [(task.id, task.since and True) for task in second.reused]
    assert ["l", "m"] == [task.id for task in second.started]
    assert {task.instance for task in first.started} == {task.instance for task in second.reused}
    assert [("k", f"braid/1/out/bob/{second.id}/k"), ("l", f"braid/1/out/bob/{second.id}/l")] == [
        (each.sink, each.topic) for each in second.outputs
    ]
    assert ("bob", "flow", 1) == (second.tenant, second.name, second.revision)


def test_how_late_an_output_is_is_shown_by_the_job_that_delivers_it(manager: Manager) -> None:
    """To each dataflow for its own outputs, and not before anything was heard of them."""
    first = manager.submit("ann", "s:source > w:window > k:sink w > m:map > l:sink")
    second = manager.submit("bob", LONG)
    outputs = {first: {"k": {"p50": 0.5, "p99": 2.5}, "l": {}}, second: {"k": {"p50": 9.0}}}
    (jobs, *none) = manager.service.running.jobs(OPERATOR, Paging()).items
    assert [] == none
    seen(manager, jobs.job, measured=(Measured(at=time.monotonic(), outputs=outputs),))
    shown = {
        each.sink: (each.latency_seconds_p50, each.latency_seconds_p99)
        for each in manager.service.dataflows.get(ANN, first).outputs
    }
    assert {"k": (0.5, 2.5), "l": (None, None)} == shown
    (other,) = manager.service.dataflows.get(BOB, second).outputs
    assert (9.0, None) == (other.latency_seconds_p50, other.latency_seconds_p99)


def test_what_an_output_left_out_is_shown_by_the_job_that_delivers_it(manager: Manager) -> None:
    """To its own dataflow only, with the newest of these events."""
    first, second = manager.submit("ann", LONG), manager.submit("bob", LONG)
    (jobs,) = manager.service.running.jobs(OPERATOR, Paging()).items
    events = LeftOutSoFar(count=3, at=0.0, reason="all of its fields are null", event='{"t":null}')
    seen(manager, jobs.job, measured=(Measured(left_out={first: {"k": events}}),))
    (output,) = manager.service.dataflows.get(ANN, first).outputs
    assert output.left_out is not None
    left_out = output.left_out
    assert (3, 0.0, events.reason, events.event) == (
        left_out.count,
        left_out.at.timestamp(),
        left_out.reason,
        left_out.event,
    )
    assert [None] == [each.left_out for each in manager.service.dataflows.get(BOB, second).outputs]


def test_a_dataflows_state_is_what_is_seen_of_its_jobs(manager: Manager) -> None:
    """It is deploying until its plan is in effect, then running; a task that fails makes it degraded, and says why."""
    dataflow = manager.submit("ann", LONG)
    seen(manager)
    assert DataflowState.RUNNING == manager.service.dataflows.get(ANN, dataflow).state
    other = manager.submit("bob", "s:source > w:window > x:map > k:sink")
    assert DataflowState.RUNNING == manager.service.dataflows.get(ANN, dataflow).state
    assert DataflowState.DEPLOYING == manager.service.dataflows.get(BOB, other).state
    seen(manager, failed={2: "cannot divide"})
    shown = manager.service.dataflows.get(ANN, dataflow)
    assert DataflowState.DEGRADED == shown.state
    assert {"w": "cannot divide"} == {task.id: task.failed for task in shown.tasks if task.failed}


def test_a_dataflow_is_shown_with_its_document_and_tasks(manager: Manager) -> None:
    """The document is as it was sent; equivalent tasks have the same instance; a removed one is still shown."""
    text = raw("s:source > a:map > k:sink s > b:map > l:sink")
    dataflow = manager.service.dataflows.submit(ANN, text).id
    shown = manager.service.dataflows.get(ANN, dataflow)
    assert json.loads(text) == shown.document
    places = {task.id: task.instance for task in shown.tasks}
    assert ["a", "b", "k", "l", "s"] == list(places)
    assert places["a"] == places["b"] != places["s"]
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    again = manager.service.dataflows.get(ANN, dataflow)
    assert (DataflowState.REMOVED, shown.document) == (again.state, again.document)


@pytest.mark.parametrize("shown", ["dataflow", "remove", "replace"])
def test_others_dataflows_answer_as_if_there_were_none(manager: Manager, shown: str) -> None:
    """A tenant gets the same answer for another's dataflow as for one that never was, but for the id it gave."""
    dataflow = manager.submit("ann", SHORT)
    asks: dict[str, Callable[[str], object]] = {
        "dataflow": lambda name: manager.service.dataflows.get(BOB, name),
        "remove": lambda name: manager.service.dataflows.remove(BOB, name, Stop.NOW),
        "replace": lambda name: manager.service.dataflows.replace(BOB, name, b"{"),
    }
    answers = []
    for name in (dataflow, "d-000000000000"):
        with pytest.raises(NotFound) as refused:
            asks[shown](name)
        answers.append((refused.value.detail.replace(name, "?"), refused.value.errors))
    assert answers[0] == answers[1]
    assert DataflowState.DEPLOYING == manager.service.dataflows.get(OPERATOR, dataflow).state


def test_a_name_stands_for_an_id(manager: Manager) -> None:
    """A tenant's own, even with slashes, and an operator's with the tenant before it; several namesakes are listed."""
    dataflows = manager.service.dataflows
    mine, hers, slashed = (
        dataflows.submit(who, raw(document(LONG) | {"name": name})).id
        for who, name in ((ANN, "flow"), (BOB, "flow"), (ANN, "a/b: c"))
    )
    assert (mine, hers) == (dataflows.id_of(ANN, "flow"), dataflows.id_of(BOB, "flow"))
    assert (mine, hers) == (dataflows.id_of(OPERATOR, "ann:flow"), dataflows.id_of(OPERATOR, "bob/flow"))
    assert [slashed, slashed] == [dataflows.id_of(ANN, named) for named in ("a/b: c", "a:b: c")]
    assert slashed == dataflows.id_of(OPERATOR, "ann/a/b: c")
    with pytest.raises(InvalidRequest, match=f"'flow': {mine} of ann, {hers} of bob; use an id"):
        dataflows.id_of(OPERATOR, "flow")
    # What names none is answered like any id that is not there, and so is another tenant's.
    for unknown in ("nothing", "bob:flow", hers):
        with pytest.raises(NotFound):
            dataflows.get(ANN, dataflows.id_of(ANN, unknown))
    dataflows.remove(ANN, mine, Stop.NOW)
    assert hers == dataflows.id_of(OPERATOR, "flow")
    assert "flow" == dataflows.id_of(ANN, "flow")


def test_names_are_compared_as_they_are(empty_url: str) -> None:
    """On both databases, whatever stands for anything in their patterns."""
    for manager in leading(empty_url, tenants=("ann",), sources=("weather",)):
        dataflows = manager.service.dataflows
        names = ("a%/c", "a_/c", "ab/c", "A_/C", "d-12", "größe'\"\\ 100%")
        ids = [dataflows.submit(ANN, raw(document(SHORT) | {"name": name})).id for name in names]
        for who, prefix in ((ANN, ""), (OPERATOR, ""), (OPERATOR, "ann/")):
            assert ids == [dataflows.id_of(who, prefix + name) for name in names]
        assert ["%", "a%", "_b/c"] == [dataflows.id_of(ANN, named) for named in ("%", "a%", "_b/c")]


def test_a_removed_dataflow_takes_no_more_changes(manager: Manager) -> None:
    """Removing or replacing it again is refused, with the remedy."""
    dataflow = manager.submit("ann", SHORT)
    assert DataflowState.REMOVED == manager.service.dataflows.remove(ANN, dataflow, Stop.NOW).state
    asks: tuple[Callable[[], object], ...] = (
        lambda: manager.service.dataflows.remove(ANN, dataflow, Stop.NOW),
        lambda: manager.service.dataflows.replace(ANN, dataflow, raw(SHORT)),
    )
    for ask in asks:
        with pytest.raises(Conflict, match="was removed; submit it again"):
            ask()


def test_an_operator_says_for_whom_it_submits(manager: Manager) -> None:
    """An operator names a tenant, and the dataflow is that tenant's; a tenant can name itself only."""
    with pytest.raises(InvalidRequest, match="say for which tenant"):
        manager.service.dataflows.submit(OPERATOR, raw(SHORT))
    dataflow = manager.service.dataflows.submit(OPERATOR, raw(SHORT), tenant="ann").id
    assert "ann" == manager.service.dataflows.get(ANN, dataflow).tenant
    manager.service.dataflows.submit(ANN, raw(SHORT), tenant="ann")
    for ask in (manager.service.dataflows.submit, manager.service.dataflows.explain):
        with pytest.raises(NotFound, match="no tenant 'bob'"):
            ask(ANN, raw(SHORT), tenant="bob")
        with pytest.raises(NotFound, match="no tenant 'zoe'"):
            ask(OPERATOR, raw(SHORT), tenant="zoe")


def test_an_explanation_foretells_and_changes_nothing(manager: Manager) -> None:
    """It names what would be reused, started and collapsed, no instance, and the journal and what runs stay."""
    manager.submit("ann", LONG)
    before = manager.service.operations.page(OPERATOR, Paging()).items
    explanation = manager.service.dataflows.explain(
        BOB, raw("s:source > w:window > k:sink w > a:map > l:sink w > b:map > l")
    )
    assert [("k", 0), ("s", 0), ("w", 0)] == [(task.id, task.instance) for task in explanation.reused]
    assert (("a", "b", "l"), (("a", "b"),)) == (explanation.started, explanation.collapsed)
    assert (3, BATCH_SECONDS) == (explanation.saving.tasks, explanation.saving.cores_by_packing)
    assert {Basis.MEASURED: 0, Basis.TYPE: 0, Basis.ASSUMED: 2} == explanation.saving.rests_on
    assert before == manager.service.operations.page(OPERATOR, Paging()).items
    answer = manager.service.dataflows.submit(BOB, raw("s:source > w:window > k:sink w > a:map > l:sink w > b:map > l"))
    assert [task.id for task in answer.reused] == [task.id for task in explanation.reused]
    assert [(task.id, task.since) for task in answer.reused] == [(task.id, task.since) for task in explanation.reused]


def test_a_predicted_saving_is_what_was_measured_of_own_tasks(manager: Manager) -> None:
    """Who only copies what others run gets assumptions, whether or not something was measured."""
    manager.submit("ann", LONG)
    (plan,) = [wanted.plan for wanted in manager.changes.jobs.wanted().values()]
    assert plan is not None
    done = {slot.instance: InstanceMeasured(cpu_ns=round(2e9), taken=400) for slot in plan.slots}
    measured = tuple(
        Measured(at=time.monotonic() + at, instances=instances) for at, instances in ((-1.0, {}), (19.0, done))
    )
    copy = raw("s:source > w:window > k:sink")
    before = manager.service.dataflows.explain(BOB, copy)
    manager.seen.jobs[plan.job] = JobSeen(
        job=plan.job, host="north", state="running", measured=measured, seen=datetime.now(UTC)
    )
    assert before == manager.service.dataflows.explain(BOB, copy)
    assert {Basis.MEASURED: 0, Basis.TYPE: 0, Basis.ASSUMED: 2} == before.saving.rests_on
    explanation = manager.service.dataflows.explain(ANN, copy)
    saving = explanation.saving
    assert (3, BATCH_SECONDS) == (saving.tasks, saving.cores_by_packing)
    assert 0.2 == round(saving.cores_by_sharing or 0.0, 2)
    assert {Basis.MEASURED: 2, Basis.TYPE: 0, Basis.ASSUMED: 0} == explanation.saving.rests_on


def test_what_needs_a_host_that_is_not_there_is_refused_by_task(manager: Manager) -> None:
    """Once for each task of the document that no host can run, before anything has changed; an explanation too."""
    manager.hosts = (Host(name="plain", cores=8.0), Host(name="fpga", cores=8.0, tags=frozenset({"fpga"})))
    text = "s:source > a:map > k:sink s > g:gpu > k s > h:gpu{'needs': 'more'} > k s > f:fpga > k"
    dataflow = manager.submit("ann", SHORT)
    before = manager.service.operations.page(OPERATOR, Paging()).items
    for ask in (
        lambda: manager.service.dataflows.submit(ANN, raw(text)),
        lambda: manager.service.dataflows.explain(ANN, raw(text)),
        lambda: manager.service.dataflows.replace(ANN, dataflow, raw(text)),
    ):
        with pytest.raises(InvalidDataflow, match="needs a host that offers 'gpu', and no host does") as refused:
            ask()
        tasks = json.loads(raw(text))["tasks"]
        assert ["g", "h"] == [tasks[int(each.pointer.split("/")[2])]["id"] for each in refused.value.errors]
        assert {"no-host"} == {each.code for each in refused.value.errors}
    assert before == manager.service.operations.page(OPERATOR, Paging()).items
    manager.hosts = (*manager.hosts, Host(name="gpu", cores=8.0, tags=frozenset({"gpu"})))
    manager.service.dataflows.replace(ANN, dataflow, raw(text))
    assert (
        {"plain", "fpga", "gpu"}
        >= {each.host for each in manager.service.running.jobs(OPERATOR, Paging()).items}
        >= {"gpu"}
    )


def test_what_reads_streams_that_cannot_come_to_one_host_is_refused_by_task(sqlite: str) -> None:
    """The task that reads them is named, before anything has changed; what feeds it anew is taken."""
    x, y = Host(name="x", cores=8.0, root="x"), Host(name="y", cores=1.0, root="y")
    manager = Manager(sqlite, strategy="launch", hosts=(x, replace(y, away=True))).lead()
    manager.admit("ann", "bob")
    manager.register("weather", "traffic", "power")
    ours, theirs = "w:source > a:map > k:sink a > d:scale > l:sink", "t:source{'source': 'traffic'} > b:map > m:sink"
    theirs += " b > c:scale > n:sink"
    manager.submit("ann", ours)
    manager.hosts = (replace(x, away=True), y)
    manager.submit("ann", theirs)
    manager.hosts = (x, y)
    manager.submit("ann", f"{ours} {theirs} a > j:window > o:sink c > j t > j")
    manager.submit("ann", f"{ours} {theirs} b > j:window > o:sink d > j w > j")
    last = f"{ours} {theirs} a > j:window{{'size': 7}} > o:sink b > j"
    for ask in (manager.service.dataflows.submit, manager.service.dataflows.explain):
        with pytest.raises(InvalidDataflow, match="hosts that share no files") as refused:
            ask(ANN, raw(last))
        (problem,) = refused.value.errors
        tasks = json.loads(raw(last))["tasks"]
        assert ("roots-apart", "j") == (problem.code, tasks[int(problem.pointer.split("/")[2])]["id"])
    manager.submit("ann", last.replace("b:map", "b!:map"))
    assert {"x", "y"} == {each.host for each in manager.service.running.jobs(OPERATOR, Paging()).items}


def test_what_needs_more_streams_than_its_host_can_receive_is_refused(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says how many are missing, nothing has changed, and what needs no more is taken."""
    monkeypatch.setattr("merge.step.MOST_STREAMS", 3)
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann", "bob")
    manager.register("weather", "traffic", "power")
    manager.submit("ann", "s:source > a:map > k:sink")
    manager.submit("bob", "s:source > a:map > b:scale > k:sink")
    before = manager.service.operations.page(OPERATOR, Paging()).items
    wide = "s:source > a:map > b:scale > c:window > k:sink a > d:window > l:sink s > e:scale > m:sink"
    for ask in (manager.service.dataflows.submit, manager.service.dataflows.explain):
        with pytest.raises(InvalidDataflow, match=r"3 more streams .* room for 2") as refused:
            ask(ANN, raw(wide))
        assert [("/tasks", "too-many-streams")] == [(each.pointer, each.code) for each in refused.value.errors]
    assert before == manager.service.operations.page(OPERATOR, Paging()).items
    manager.submit("ann", "s:source > a:map > b:scale > l:sink")


def test_where_no_host_is_there_yet_asking_again_helps(manager: Manager) -> None:
    """That is said of a submission, and an explanation tells what would open a job."""
    manager.hosts = ()
    with pytest.raises(StateNotReady, match="ask again once one is there"):
        manager.service.dataflows.submit(ANN, raw(SHORT))
    assert 0.0 == manager.service.dataflows.explain(ANN, raw(SHORT)).saving.cores_by_packing


def test_a_source_that_a_tenant_may_not_read_is_none_to_it(manager: Manager) -> None:
    """Naming another's private source is refused in the words for one that does not exist."""
    answers = []
    manager.register("diary")
    for name in ("ann:diary", "ann:dairy"):
        text = json.dumps(json.loads(raw(SHORT))).replace("ann:weather", name).encode()
        with pytest.raises(InvalidDataflow) as refused:
            manager.service.dataflows.submit(EVE, text)
        (problem,) = refused.value.errors
        answers.append((problem.pointer, problem.code, problem.message.replace(name, "?"), problem.remedy))
    assert answers[0][:3] == answers[1][:3]
    assert "diary" not in answers[0][3]
    assert "diary" not in answers[1][3]


def test_an_owner_may_leave_itself_out_of_a_sources_name(manager: Manager) -> None:
    """The owner's short name, its full name, and the name that others use are one source, and share what runs."""
    text = raw(SHORT)
    short = text.replace(b"ann:weather", b"weather")
    first = manager.service.dataflows.submit(ANN, short)
    assert len(first.started) == 2
    assert manager.service.dataflows.submit(ANN, text).started == ()
    assert manager.service.dataflows.submit(BOB, text).started == ()
    with pytest.raises(InvalidDataflow, match="unknown source 'weather'"):
        manager.service.dataflows.submit(BOB, short)


def test_lists_have_each_once_whatever_the_parts(manager: Manager) -> None:
    """A list read in parts of any size is the whole, in the order of submission; another's are not in it."""
    mine = [manager.submit("ann", f"s:source > a:map{{'add': {number}}} > k:sink") for number in range(7)]
    others = [manager.submit("bob", SHORT) for _ in range(2)]
    for limit in (1, 2, 3, 7, 100):
        assert mine == [each.id for each in every(lambda p: manager.service.dataflows.page(ANN, p), limit)]
        assert mine + others == [
            each.id for each in every(lambda p: manager.service.dataflows.page(OPERATOR, p), limit)
        ]
    assert [] == every(lambda p: manager.service.dataflows.page(EVE, p), 2)


def test_lists_hold_while_things_change(manager: Manager) -> None:
    """While others come and go between two parts, each that stays is listed once, and each that came is in the end."""
    stay = [manager.submit("ann", SHORT) for _ in range(4)]
    go = [manager.submit("ann", SHORT) for _ in range(2)]
    found: list[str] = []
    came = ""
    for part in parts(lambda p: manager.service.dataflows.page(ANN, p), 2):
        found += [each.id for each in part]
        if len(found) == 2:
            manager.service.dataflows.remove(ANN, found[0], Stop.NOW)
            manager.service.dataflows.remove(ANN, go[0], Stop.NOW)
            manager.service.dataflows.replace(ANN, stay[2], raw(LONG))
            came = manager.submit("ann", SHORT)
    assert [*stay, go[1], came] == found


def test_lists_are_filtered(manager: Manager) -> None:
    """Filters by tenant, state, name and source hold together and over parts; removed ones only where asked for."""
    one = manager.submit("ann", LONG)
    two = manager.submit("ann", "s:source{'source': 'traffic'} > k:sink")
    gone = manager.submit("ann", SHORT)
    three = manager.submit("bob", {**json.loads(raw(SHORT)), "name": "third"})
    manager.service.dataflows.remove(ANN, gone, Stop.NOW)
    listed = manager.service.dataflows.page

    def ids(limit: int = 1, who: Any = OPERATOR, **filters: Any) -> list[str]:
        return [each.id for each in every(lambda p: listed(who, p, **filters), limit)]

    assert [one, two] == ids(tenant="ann") == ids(who=ANN) == ids(who=ANN, tenant="ann")
    assert [] == ids(who=ANN, tenant="bob")
    assert [gone] == ids(state=DataflowState.REMOVED)
    assert [three] == ids(name="third")
    assert [] == ids(name="third", tenant="ann")
    assert [one, three] == ids(source="ann:weather")
    assert [one] == ids(who=ANN, source="weather") == ids(who=ANN, source="ann:weather")
    seen(manager)
    assert [one, two, three] == ids(state=DataflowState.RUNNING, limit=2)
    assert [] == ids(state=DataflowState.DEPLOYING)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 19, "", "\u0661"])
def test_a_cursor_that_is_none_is_refused(manager: Manager, cursor: str) -> None:
    """A cursor that no part ended with is refused with the remedy, whosever dataflows are asked for."""
    for tenant in (None, "bob"):
        with pytest.raises(InvalidRequest, match="use `next` of the part before"):
            manager.service.dataflows.page(ANN, Paging(after=cursor), tenant=tenant)


def test_who_committed_answers_although_it_leads_no_more(manager: Manager) -> None:
    """A submission that was committed is answered even if the lead is lost right after; a look is not."""
    manager.committer.on_change(manager.committer.step_down)
    answer = manager.service.dataflows.submit(ANN, raw(SHORT))
    assert (DataflowState.DEPLOYING, 2) == (answer.state, len(answer.started))
    for ask in (
        lambda: manager.service.dataflows.get(ANN, answer.id),
        lambda: manager.service.dataflows.page(ANN, Paging()),
        lambda: manager.service.sources.page(ANN, Paging()),
        lambda: manager.service.dataflows.explain(ANN, raw(SHORT)),
    ):
        with pytest.raises(StateNotReady):
            ask()


def test_a_dataflow_that_drains_runs_until_what_was_sent_is_worked_off(manager: Manager) -> None:
    """It is shown as draining, keeps its plan and cannot be replaced; then it is removed. Once is enough to ask."""
    dataflow = manager.submit("ann", SHORT)
    wanted = manager.changes.jobs.wanted()
    for _ in range(2):
        assert DataflowState.DRAINING is manager.service.dataflows.remove(ANN, dataflow, Stop.DRAIN).state
    assert wanted == manager.changes.jobs.wanted()
    with pytest.raises(Conflict, match="drains, and is removed after that"):
        manager.service.dataflows.replace(ANN, dataflow, raw(SHORT))
    manager.changes.drains.drained(dataflow)
    assert DataflowState.REMOVED is manager.service.dataflows.get(ANN, dataflow).state
    assert () == manager.changes.drains.under_way()
    manager.changes.drains.drained(dataflow)


def test_who_leads_next_knows_what_drains(manager: Manager) -> None:
    """With the raw streams of its running DAG, others' among them, and with its own tasks that have something to do."""
    dataflow = manager.submit("ann", SHORT)
    manager.submit("ann", "s:source > a:map > k:sink w:source{'source': 'traffic'} > a")
    manager.service.dataflows.remove(ANN, dataflow, Stop.DRAIN)
    (known,) = manager.changes.drains.under_way()
    tasks = {task.id: task.instance for task in manager.service.dataflows.get(ANN, dataflow).tasks}
    assert (dataflow, 2, frozenset({tasks["k"]})) == (known.dataflow, len(known.streams), known.instances)
    another = Manager(manager.url, "another").lead()
    assert (known,) == another.changes.drains.under_way()
    another.close()


def test_a_dataflow_drains_at_a_cut_in_all_that_hangs_together_with_it(manager: Manager) -> None:
    """A job reads a stream once for all who read it, so a fresh twin's streams have to come there too."""
    dataflow = manager.submit("ann", SHORT)
    manager.submit("ann", "s!:source > a!:map > k!:sink w!:source{'source': 'traffic'} > a")
    manager.service.dataflows.remove(ANN, dataflow, Stop.DRAIN)
    (known,) = manager.changes.drains.under_way()
    assert 2 == len(known.streams)


def test_a_dataflow_that_drains_can_be_removed_at_once(manager: Manager) -> None:
    """A tenant that does not want to wait any more need not."""
    dataflow = manager.submit("ann", SHORT)
    manager.service.dataflows.remove(ANN, dataflow, Stop.DRAIN)
    assert DataflowState.REMOVED is manager.service.dataflows.remove(ANN, dataflow, Stop.NOW).state
    assert () == manager.changes.drains.under_way()


def test_who_may_not_read_a_source_any_more_has_its_dataflows_removed(manager: Manager) -> None:
    """Only those that read it and may not any more; the owner's and others' stay, and the journal says who did it."""
    mine, theirs = manager.submit("ann", SHORT), manager.submit("bob", SHORT)
    other = manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    stopped = manager.service.sources.set_visibility(ANN, "weather", VisibilityForm(visibility=Visibility.PRIVATE))
    assert 1 == stopped.dataflows
    listed = manager.service.dataflows.page(OPERATOR, Paging()).items
    assert [mine, other] == [each.id for each in listed]
    assert DataflowState.REMOVED == manager.service.dataflows.get(BOB, theirs).state
    newest = manager.service.operations.page(OPERATOR, Paging(limit=1)).items[0]
    assert (OperationKind.CHANGE_SOURCE, "ann", "ann:weather") == (newest.kind, newest.who, newest.subject)


def test_part_of_a_name_or_an_id_finds_a_dataflow(manager: Manager) -> None:
    """In any case; no character of what is searched has a meaning, and nobody finds what is not its own."""
    names = ("Street 100%", "street_100", "bridge")
    ids = {name: manager.submit("ann", document(SHORT, name)) for name in names}

    def found(who: Caller, search: str) -> list[str]:
        return [
            each.name for each in every(lambda paging: manager.service.dataflows.page(who, paging, search=search), 1)
        ]

    assert ["Street 100%", "street_100"] == found(ANN, "STREET")
    assert ["Street 100%"] == found(ANN, "100%")
    assert ["street_100"] == found(OPERATOR, "t_1")
    assert ["bridge"] == found(ANN, ids["bridge"])
    assert [] == found(BOB, "street") + found(BOB, ids["bridge"]) + found(ANN, ids["bridge"][:-1])


LONGER = "s:source > w:window > x:map > k:sink w > l:sink"
FLOWS = (
    LONG,
    LONGER,
    "s:source > m:map > k:sink",
    "s:source > w:window > x:map > z:window > k:sink",
    "s:source > w:window > y:map{'add': 7} > k:sink",
    "s:source > k:sink",
)


@pytest.fixture
def apart(sqlite: str) -> Iterator[Manager]:
    # A job for each dataflow, so that what they share crosses jobs.
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic", "power"), strategy="launch")


def test_what_nobody_else_needs_stops(apart: Manager) -> None:
    """Of a dataflow that runs by itself everything; of one that shares only the rest, and the streams to that end."""
    first = apart.submit("ann", LONG)
    alone = apart.service.dataflows.preview_removal(ANN, first)
    assert ({"k", "s", "w"}, 0, ()) == ({task.id for task in alone.stops}, alone.goes_on, alone.streams)
    second = apart.submit("bob", "s:source > w:window > x:map > l:sink")
    shared = apart.service.dataflows.preview_removal(BOB, second)
    assert ({"x", "l"}, 2) == ({task.id for task in shared.stops}, shared.goes_on)
    assert [("w", "out")] == [(stream.task, stream.port) for stream in shared.streams]
    assert shared == apart.service.dataflows.preview_removal(OPERATOR, second)
    apart.submit("ann", "s:source > w:window > y:map{'add': 7} > k:sink")
    assert () == apart.service.dataflows.preview_removal(BOB, second).streams


def test_only_its_owner_and_operators_see_it(apart: Manager) -> None:
    """To others it is not there, and one that was removed has nothing to stop."""
    first = apart.submit("ann", LONG)
    with pytest.raises(NotFound):
        apart.service.dataflows.preview_removal(BOB, first)
    apart.service.dataflows.remove(ANN, first, Stop.NOW)
    with pytest.raises(Conflict, match="was removed"):
        apart.service.dataflows.preview_removal(ANN, first)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(FLOWS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_it_comes_as_it_was_previewed(apart: Manager, flows: list[str], random: Random) -> None:
    """Whatever runs: the tasks that stop and the streams that end are those that were named, and no others."""
    submitted = [apart.submit("ann" if number % 2 else "bob", flow) for number, flow in enumerate(flows)]
    random.shuffle(submitted)
    for dataflow in submitted:
        preview = apart.service.dataflows.preview_removal(OPERATOR, dataflow)
        tasks, streams = _tasks(apart), _streams(apart)
        assert preview == apart.service.dataflows.preview_removal(OPERATOR, dataflow)
        apart.service.dataflows.remove(OPERATOR, dataflow, Stop.NOW)
        assert tasks - _tasks(apart) == {task.instance for task in preview.stops}
        assert streams - _streams(apart) == {(stream.instance, stream.port) for stream in preview.streams}


def _tasks(manager: Manager) -> set[int]:
    tasks = every(lambda paging: manager.service.running.tasks(OPERATOR, paging), 100)
    return {task.instance for task in tasks}


def _streams(manager: Manager) -> set[tuple[int, str]]:
    return {
        (stream.instance, stream.port) for stream in manager.service.running.streams(OPERATOR, Paging(limit=500)).items
    }


class Smoothing(Config):
    """The smoothing of a number."""

    noise: float = 0.5
    """The variance of the sensor."""


def _made(name: str) -> TaskType[Smoothing] | None:
    return None if name == "made:not" else TaskType(name=name, version=3, config=Smoothing, state=State.KEY)


def test_all_types_are_listed_page_by_page(manager: Manager) -> None:
    """Each once, by name, whatever the size of a page."""
    names, after = list[str](), None
    while True:
        page = manager.service.task_types.page(Paging(after=after, limit=3))
        names += [each.name for each in page.items]
        if (after := page.next) is None:
            break
    assert sorted(CATALOGUE.types) == names


def test_a_type_has_the_schema_of_its_configs(manager: Manager) -> None:
    """With the descriptions of fields in the code; a type of a namespace is found by its name, though not listed."""
    manager.equip(catalogue=CATALOGUE.of([Namespace("made:", _made)]))
    (found,) = manager.service.task_types.page(Paging(), name="made:up").items
    assert ("made:up", 3, State.KEY) == (found.name, found.version, found.state)
    assert (("in",), ("out",)) == (found.inputs, found.outputs)
    noise = {"default": 0.5, "description": "The variance of the sensor.", "title": "Noise", "type": "number"}
    assert {"noise": noise} == found.config["properties"]
    for nothing in (None, "made:not", "unknown"):
        assert () == manager.service.task_types.page(Paging(), name=nothing).items


def test_a_draft_says_of_each_task_what_is_known(manager: Manager) -> None:
    """Whether it runs, or would start and for how much, and the fields at its ports; problems do not hide that."""
    manager.service.dataflows.submit(ANN, raw(LONG))
    drawn = raw("s:source > w:window > m:map{'add': 5} s > n:map{'add': 'x'}")
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.dataflows.explain(BOB, drawn)
    answer = manager.service.dataflows.explain(BOB, drawn, draft=True)
    assert [each.code for each in refused.value.errors] == [each.code for each in answer.problems]
    assert ((), ()) == (answer.reused, answer.started)
    tasks = {each.id: each for each in answer.tasks}
    assert {"s": True, "w": True, "m": False, "n": None} == {id_: each.runs for id_, each in tasks.items()}
    assert (None, True) == (tasks["s"].since, tasks["w"].since is not None)
    assert [None, None, True] == [tasks[id_].cores and True for id_ in ("s", "w", "m")]
    for fields in (tasks["s"].outputs["out"], tasks["n"].inputs["in"].fields):
        assert {"place": "string", "value": "integer"} == fields
    assert [("value", ("float", "integer"))] == [(each.field, each.kinds) for each in tasks["m"].inputs["in"].reads]
    whole = manager.service.dataflows.explain(BOB, raw(LONG), draft=True)
    assert ((), 3, {True}) == (whole.problems, len(whole.reused), {each.runs for each in whole.tasks})


def test_a_draft_shows_nothing_of_sources_that_its_tenant_may_not_read(manager: Manager) -> None:
    """Neither their fields nor whether they run; and one that cannot be read at all has problems alone."""
    manager.service.sources.set_visibility(ANN, "ann:weather", VisibilityForm(visibility=Visibility.PRIVATE))
    manager.service.dataflows.submit(ANN, raw(LONG))
    answer = manager.service.dataflows.explain(BOB, raw(LONG), draft=True)
    assert {None} == {each.runs for each in answer.tasks}
    assert {None} == {fields for each in answer.tasks for fields in each.outputs.values()}
    broken = manager.service.dataflows.explain(BOB, b'{"version": 1', draft=True)
    assert ((), 1) == (broken.tasks, len(broken.problems))
