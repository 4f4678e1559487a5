"""Dry replays and plans of replays: what is measured when, counts like a service's, and the commands."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import merge
from braid_client.answers.dataflows import Stop
from braid_client.answers.savings import CpuAnswer, EstimateAnswer, SavedAnswer, SavingsAnswer, ShareAnswer, WholeAnswer
from dags import Kind, Schema
from engine.plan import SlotState
from manager.command import app
from manager.costs.choice import Chooser
from manager.kernel.state import CommittedState
from manager.kernel.transitions import TransitionEvent
from manager.problem import Conflict
from manager.settings import Placement
from manager.store.database import Store, sqlite_url
from merge import JobId, Weighed, each_step, works
from merge.consolidation.defragmentation import forwarded
from tests.catalogue import CATALOGUE
from tests.manager.managers import Manager, caller, take
from tests.strategies import Document, families
from tests.workloads.rows import step_row, window_row
from workloads.replay import dry_replay as replaying
from workloads.replay.dry_replay import Cost, NotReplayed, dry_rows
from workloads.replay.plan import (
    Pacing,
    awaited_steps,
    document_in,
    full_name,
    measured_steps,
    seconds_of,
    source_form,
    submitted,
    tenants_of,
)
from workloads.replay.player import with_savings
from workloads.results import (
    STEP_LINES,
    ReplayManifest,
    ResultsFolder,
    StepResult,
    StepRow,
    TenantCoresRow,
    UsersRow,
    WrongResults,
    manifest_of,
    read_results,
)
from workloads.traces import Action, Defragment, Mode, Trace, TracePhase, TraceStep, Way, sequential
from workloads.workload import Workload, WorkloadSource, load_workload

FILTERS = {"a": (1,), "b": (1, 2), "c": (1, 3, 4)}


def document(filters: tuple[int, ...]) -> dict[str, Any]:
    ids = ["in", *(f"f{number}" for number in range(len(filters))), "out"]
    return {
        "version": 1,
        "name": "whatever",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "street"}},
            *(
                {"id": f"f{number}", "type": "range_filter", "config": {"field": "t", "min": -1e6 - each, "max": 1e6}}
                for number, each in enumerate(filters)
            ),
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": one, "to": other} for one, other in pairwise(ids)],
    }


def make(folder: Path) -> Path:
    """Write it; says where it is."""
    (folder / "dataflows").mkdir(parents=True)
    source = {"name": "street", "schema": {"n": "integer", "t": "float"}, "per_second": 20}
    (folder / "workload.json").write_text(json.dumps({"version": 1, "about": {"made": "by hand"}, "sources": [source]}))
    for name, filters in FILTERS.items():
        (folder / "dataflows" / f"{name}.json").write_text(json.dumps(document(filters)))
    return folder


SCHEMA = Schema.of(place=Kind.STRING, value=Kind.INTEGER)
RATES = {"weather": 1.0, "traffic": 0.1, "power": 7.0}
NAMES = tuple(RATES)
Counts = tuple[int, int, int, int, int]
"""Dataflows, running and paused tasks, jobs, bridges."""


def workload(documents: dict[str, Document], *sources: str) -> Workload:
    made = tuple(WorkloadSource(name=name, schema=SCHEMA, events=None, per_second=RATES[name]) for name in sources)
    return Workload(name="drawn", about={}, sources=made, dataflows=documents)


def walk(names: list[str], seed: int, steps: int) -> Trace:
    """Any dataflow comes or goes at each step."""
    chance, runs, made = Random(seed), set[str](), list[TraceStep]()
    for _ in range(steps):
        name = chance.choice(names)
        action = Action.REMOVE if name in runs else Action.SUBMIT
        runs ^= {name}
        made.append(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK))
    return Trace(name="any", workload="drawn", seed=seed, steps=tuple(made))


def counts(row: StepRow) -> Counts:
    return row.dataflows, row.running_tasks, row.paused_tasks, row.jobs, row.bridges


def counted(state: CommittedState) -> Counts:
    paused = sum(slot.state is SlotState.PAUSED for plan in state.plans.values() for slot in plan.slots)
    running, jobs = state.running, state.jobs
    return len(running.dataflows), len(running.tasks), paused, len(jobs.jobs), len(forwarded(running, jobs))


def consolidated(manager: Manager) -> None:
    """Ask for a defragmentation, and carry it out as hosts would."""
    try:
        move = manager.changes.moves.begin(Chooser(manager.seen).on_request, who="operator")
    except Conflict:
        return
    passed: dict[JobId, dict[str, int]] = {job: {} for job in move.left}
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed=passed)
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "braid.db"
    Store(sqlite_url(path)).close()
    return path


@settings(max_examples=12)
@given(
    family=families(confined=True, sources=NAMES, least=3, most=6),
    seed=st.integers(0, 2**32),
    mode=st.sampled_from(["default", "reuse"]),
    placement=st.sampled_from(["launch", "graft", "pack"]),
    defragment=st.sampled_from(["off", "step"]),
)
def test_counts_are_those_of_a_service(  # noqa: PLR0913, PLR0917 - what a replay depends on
    template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    family: tuple[Document, ...],
    seed: int,
    mode: Mode,
    placement: Placement,
    defragment: Defragment,
) -> None:
    """After each step of any trace, in each mode and placement, consolidated or not."""
    documents = {f"flow-{number}": each for number, each in enumerate(family)}
    trace = walk(list(documents), seed, 14)
    folder = tmp_path_factory.mktemp("service")
    shutil.copy(template, folder / "braid.db")
    manager = Manager(sqlite_url(folder / "braid.db"), strategy=placement).lead()
    manager.admit("ann", "bob", "eve")
    manager.register(*NAMES)
    ids: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replaying, "installed_catalogue", lambda: CATALOGUE)
        replayed = dry_rows(workload(documents, *NAMES), trace, Way(mode, placement, defragment))
        for step, (row, users) in zip(trace.steps, replayed, strict=True):
            if step.action is Action.SUBMIT:
                ids[step.dataflow] = manager.submit("ann", document_in(mode, documents[step.dataflow]))
            else:
                manager.service.dataflows.remove(caller("ann"), ids.pop(step.dataflow), Stop.NOW)
            if defragment == "step":
                consolidated(manager)
            with manager.committer.looking() as state:
                assert counted(state) == counts(row)
                served = Counter(len(each) for each in state.running.users.values())
                work = works(state.running.tasks, _arriving, cost=each_step)
                kinds = merge.counted(task.type for task in state.running.tasks.values())
            assert (kinds.sources, kinds.steps, kinds.outputs) == (
                row.running_sources,
                row.running_steps,
                row.running_outputs,
            )
            assert float(sum(work.values())) == row.work_running
            assert served == {each.users: each.tasks for each in users}
    manager.close()
    shutil.rmtree(folder)


def chain(number: int, shared: int, source: str = "weather") -> Document:
    """A dataflow of five tasks, of which the first two are those of any other with the same shared number."""
    tasks = [
        {"id": "s", "type": "source", "config": {"source": source}},
        {"id": "a", "type": "range_filter", "config": {"field": "value", "min": shared, "max": 10_000}},
        {"id": "b", "type": "range_filter", "config": {"field": "value", "min": 10_000 + number, "max": 90_000}},
        {"id": "b2", "type": "range_filter", "config": {"field": "value", "min": 10_000 + number, "max": 90_000}},
        {"id": "k", "type": "output"},
    ]
    pairs = (("s", "a"), ("a", "b"), ("a", "b2"), ("b", "k"), ("b2", "k"))
    streams = [{"from": one, "to": other} for one, other in pairs]
    return {"version": 1, "name": f"chain {number}", "tasks": tasks, "streams": streams}


def test_what_runs_where_nothing_is_shared_is_counted_beside() -> None:
    """Each dataflow by itself without its duplicates, in both modes; default runs the duplicates too."""
    documents = {name: chain(number, 1) for number, name in enumerate("ab")}
    steps = [(Action.SUBMIT, "a"), (Action.SUBMIT, "b"), (Action.REMOVE, "a"), (Action.REMOVE, "b")]
    trace = Trace(
        name="by hand",
        workload="drawn",
        seed=1,
        steps=tuple(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK) for action, name in steps),
    )

    def numbers(mode: Mode) -> list[tuple[int, int, int, int]]:
        rows = dry_rows(workload(documents, "weather"), trace, Way(mode))
        return [(row.submitted_tasks, row.running_tasks, row.paused_tasks, row.jobs) for row, _ in rows]

    assert [(4, 4, 0, 1), (8, 6, 0, 2), (4, 4, 2, 2), (0, 0, 0, 0)] == numbers("reuse")
    assert [(4, 5, 0, 1), (8, 10, 0, 2), (4, 5, 0, 1), (0, 0, 0, 0)] == numbers("default")


def test_work_saved_is_counted_beside() -> None:
    """Rates times the steps that run, and times those of each dataflow by itself, whose twins are one."""
    documents = {name: chain(number, 1) for number, name in enumerate("ab")}
    steps = tuple(TraceStep(action=Action.SUBMIT, dataflow=name, phase=TracePhase.FILL) for name in "ab")
    trace = Trace(name="SEQ", workload="drawn", seed=1, steps=steps)

    def work(mode: Mode, cost: Cost) -> list[tuple[float, float]]:
        replayed = dry_rows(
            workload(documents, "weather"),
            trace,
            Way(mode),
            rate=0.5,
            cost=cost,
        )
        return [(row.work_alone, row.work_running) for row, _ in replayed]

    # The output takes the events of both twins, so that it costs twice as much as the others.
    assert [(1.0, 1.0), (2.0, 1.5)] == work("reuse", each_step)
    assert [(1.0, 1.5), (2.0, 3.0)] == work("default", each_step)
    assert [(2.5, 2.5), (5.0, 4.0)] == work("reuse", lambda _task: 1)


def test_of_paused_tasks_only_those_are_counted_that_a_plan_keeps() -> None:
    """Where a dataflow leaves a packed job its tasks are paused there, but for its source, which has no slot."""
    documents = {"a": chain(1, 1), "b": chain(2, 2, "traffic")}
    steps = [(Action.SUBMIT, "a"), (Action.SUBMIT, "b"), (Action.REMOVE, "b")]
    trace = Trace(
        name="by hand",
        workload="drawn",
        seed=1,
        steps=tuple(TraceStep(action=action, dataflow=name, phase=TracePhase.WALK) for action, name in steps),
    )
    replayed = dry_rows(workload(documents, "weather", "traffic"), trace, Way("reuse", "pack"))
    assert [(1, 4, 0, 1, 0), (2, 8, 0, 1, 0), (1, 4, 3, 1, 0)] == [counts(row) for row, _ in replayed]


def test_many_dataflows_are_counted_to_the_end() -> None:
    """Three hundred of them over forty shared prefixes: at the peak what is distinct runs, at the end nothing."""
    documents = {f"flow-{number}": chain(number, number % 40) for number in range(300)}
    trace = Trace(
        name="SEQ",
        workload="drawn",
        seed=1,
        steps=tuple(
            TraceStep(action=action, dataflow=name, phase=TracePhase.FILL)
            for action in (Action.SUBMIT, Action.REMOVE)
            for name in documents
        ),
    )
    replayed = dry_rows(workload(documents, "weather"), trace, Way("reuse"))
    rows = [row for row, _ in replayed]
    assert (300, 300 * 4, 1 + 40 + 2 * 300, 300) == (
        rows[299].dataflows,
        rows[299].submitted_tasks,
        rows[299].running_tasks,
        rows[299].jobs,
    )
    assert (0, 0, 0, 0, 0) == counts(rows[-1])


def test_what_cannot_be_replayed_is_refused() -> None:
    """A dataflow that the workload has not, and one whose document has a problem, each by name."""
    step = TraceStep(action=Action.SUBMIT, dataflow="x", phase=TracePhase.FILL)
    trace = Trace(name="SEQ", workload="drawn", seed=1, steps=(step,))
    with pytest.raises(NotReplayed, match=r"'drawn' has no dataflow 'x'; replay the trace on the workload"):
        next(dry_rows(workload({}), trace, Way("reuse", "pack")))
    broken = workload({"x": chain(1, 1)}, "traffic")
    with pytest.raises(NotReplayed, match=r"'x' of the workload 'drawn' has problems, the first at /tasks/0"):
        next(dry_rows(broken, trace, Way("reuse", "pack")))


def _arriving(source: Weighed) -> float:
    """The rate of a source, which a service knows with its owner."""
    name: str = source.config["source"]
    return RATES[name.rpartition(":")[2]]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace over the toy workload, drawn by the command."""
    make(tmp_path / "toy")
    into = tmp_path / "seq.json"
    result = CliRunner().invoke(app, ["trace", str(tmp_path / "toy"), "--into", str(into)])
    assert (0, True) == (result.exit_code, "SEQ, 6 steps" in result.stdout)
    return into


def test_a_dry_replay_keeps_its_counts_and_how_it_was_made(trace: Path, tmp_path: Path) -> None:
    """Done twice it is the same; nothing was measured."""
    call = ["replay", str(trace), "--dry", "--mode", "default", "--into", str(tmp_path / "results")]
    for _ in range(2):
        result = CliRunner().invoke(app, call)
        assert 0 == result.exit_code, result.output
    results = read_results(tmp_path / "results")
    assert [4, 7, 12, 9, 4, 0] == [row.running_tasks for row in results.steps]
    assert ("default", "pack", "off", True, True) == (
        results.manifest.mode,
        results.manifest.placement,
        results.manifest.defragment,
        results.manifest.dry,
        results.manifest.complete,
    )
    assert ("SEQ", "by hand", ()) == (
        results.manifest.trace["name"],
        results.manifest.workload["made"],
        results.windows,
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--measure", "some"], "--measure some: is neither all nor a number of steps"),
        (["--measure", "0"], "--measure 0: is neither all nor a number of steps"),
        (["--dry", "--defragment", "itself"], "a dry replay has no measurements to decide by"),
    ],
)
def test_a_replay_that_cannot_be_says_why(trace: Path, tmp_path: Path, options: list[str], reason: str) -> None:
    """With the exit code for what is of no use, before anything is started."""
    result = CliRunner().invoke(app, ["replay", str(trace), "--into", str(tmp_path / "results"), *options])
    assert (1, True, False) == (result.exit_code, reason in result.stderr, (tmp_path / "results").exists())


def test_a_trace_of_other_dataflows_is_refused(trace: Path, tmp_path: Path) -> None:
    """Also live, before a service is started; and a file that is no trace is named."""
    trace.write_text(trace.read_text().replace('"a"', '"z"'))
    result = CliRunner().invoke(app, ["replay", str(trace), "--into", str(tmp_path / "results")])
    assert (1, True) == (result.exit_code, "has no dataflow 'z'" in result.stderr)
    assert not (tmp_path / "results").exists()
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "no"), "--into", str(tmp_path / "results")])
    assert (1, True) == (result.exit_code, "name a file that `braid trace` has written" in result.stderr)


@given(many=st.integers(1, 60), points=st.integers(1, 80))
def test_so_many_steps_are_measured_as_were_asked_for(many: int, points: int) -> None:
    """Or all of them where there are no more; and they lie between the first and the last."""
    trace = sequential("w", [f"d{number}" for number in range(many)], 1)
    measured = measured_steps(trace, points)
    assert min(points, len(trace.steps)) == len(measured)
    assert measured <= frozenset(range(len(trace.steps)))
    assert measured_steps(trace, None) == frozenset(range(len(trace.steps)))


def test_in_a_hurry_only_measured_steps_are_waited_for_and_take_their_time() -> None:
    """The others are just committed."""
    trace = sequential("w", [f"d{number}" for number in range(10)], 1)
    pacing = Pacing(points=3, hurry=True)
    awaited = awaited_steps(trace, pacing)
    assert awaited == measured_steps(trace, 3)
    took = seconds_of(trace, pacing, (Way(mode="reuse", placement="launch"),))
    assert {step for step, seconds in enumerate(took) if seconds > pacing.measuring} == awaited
    assert frozenset(range(20)) == awaited_steps(trace, Pacing(points=3))


@pytest.fixture
def toy_workload(tmp_path: Path) -> Workload:
    return load_workload(str(make(tmp_path / "toy")))


def test_dataflows_that_hang_on_their_owner_belong_to_that_of_the_sources(toy_workload: Workload) -> None:
    """Those that publish, and those that keep something at a place of their tenant's; the rest is spread."""
    plain = document((1,))
    publishes = {**plain, "tasks": [*plain["tasks"], {"id": "p", "type": "mqtt_publish", "config": {}}]}
    keeps = {"id": "t", "type": "table_insert", "config": {"database": {"place": "readings"}}}
    many: Mapping[str, Any] = {
        **{f"d{number}": plain for number in range(40)},
        "publishes": publishes,
        "keeps": {**plain, "tasks": [*plain["tasks"], keeps]},
    }
    wide = Workload(name="wide", about={}, sources=toy_workload.sources, dataflows=many)
    tenants = tenants_of(wide, 5, 1)
    assert ["tenant-1", "tenant-1"] == [tenants["publishes"], tenants["keeps"]]
    assert {f"tenant-{number}" for number in range(1, 6)} == set(tenants.values())
    assert tenants == tenants_of(wide, 5, 1)


def test_documents_name_sources_as_everybody_does(toy_workload: Workload) -> None:
    """In `default` every task is fresh besides; the workload's document stays as it is."""
    reuse = submitted(toy_workload.dataflows["a"], "reuse")
    assert "tenant-1:street" == reuse["tasks"][0]["config"]["source"] == full_name("street")
    assert not any(task.get("fresh") for task in reuse["tasks"])
    assert all(task["fresh"] for task in submitted(toy_workload.dataflows["a"], "default")["tasks"])
    assert "street" == toy_workload.dataflows["a"]["tasks"][0]["config"]["source"]


def test_a_source_is_a_file_at_its_rate_or_a_topic(toy_workload: Workload) -> None:
    """A topic where dataflows publish, under the very name of the source."""
    (source,) = toy_workload.sources
    file = source_form(source, "street.jsonl", 2.5).model_dump(mode="json", by_alias=True)
    assert ("replay", "street.jsonl", 50.0, True) == tuple(
        file["connection"][name] for name in ("kind", "path", "per_second", "repeat")
    )
    assert {"n": "integer", "t": "float"} == file["schema"]
    connection = {"kind": "topic", "topic": "street", "retained": False, "format": {"kind": "json"}}
    assert connection == source_form(source, None, 1.0).model_dump()["connection"]


def manifest(**settings: Any) -> ReplayManifest:
    workload = Workload(name="toy", about={}, sources=(), dataflows={})
    return manifest_of(Way("reuse", "pack"), sequential("toy", ("a",), 1), workload, settings, dry=False)


def found(step: int) -> StepResult:
    row = step_row(step, dataflows=step + 1, measured=True, seconds=1.5)
    window = window_row(
        step, 0, 0.5, seconds=2.0, cores_workers=0.2, cores_manager=0.3, latency_p99=1.0, events_out=3.0
    )
    return StepResult(step=row, users=(UsersRow(step=step, users=1, tasks=3),), windows=(window,), between=(1.0, 2.0))


def test_what_was_kept_is_there_after_a_kill_but_for_a_line_that_was_half_written(tmp_path: Path) -> None:
    """The replay goes on behind the last whole step, and its tables hold all of them at its end."""
    keeper = ResultsFolder(tmp_path / "results", manifest(pace=1.0))
    keeper.keep(found(0))
    keeper.keep(found(1))
    with (tmp_path / "results" / STEP_LINES).open("a") as file:
        file.write('{"step": {"st')
    again = ResultsFolder(tmp_path / "results", manifest(pace=1.0))
    assert ([found(0), found(1)], False) == (again.step_results, again.complete)
    again.keep(found(2))
    again.finish()
    results = read_results(tmp_path / "results")
    assert [found(number).step for number in range(3)] == list(results.steps)
    assert [found(number).windows[0] for number in range(3)] == list(results.windows)
    assert ResultsFolder(tmp_path / "results", manifest(pace=1.0)).complete


def test_steps_that_another_replay_beside_has_yet_to_do_are_done_again(tmp_path: Path) -> None:
    """They are forgotten, in the file too."""
    keeper = ResultsFolder(tmp_path / "results", manifest())
    for number in range(3):
        keeper.keep(found(number))
    keeper.truncate(1)
    assert [found(0)] == keeper.step_results == ResultsFolder(tmp_path / "results", manifest()).step_results


def test_results_of_another_replay_are_not_touched(tmp_path: Path) -> None:
    """The message names the folder."""
    ResultsFolder(tmp_path / "results", manifest(pace=1.0)).keep(found(0))
    with pytest.raises(WrongResults, match="results: holds the results of another replay; choose another folder"):
        ResultsFolder(tmp_path / "results", manifest(pace=2.0))


def test_shares_are_those_that_the_service_metered() -> None:
    """What belongs to nobody is a row of its own; where no minute was metered nothing is said."""
    estimate = EstimateAnswer(low=1.0, likely=2.0, high=3.0)
    measured = found(3)
    savings = SavingsAnswer(
        since=datetime(2026, 1, 1, tzinfo=UTC),
        until=datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
        metered_seconds=60.0,
        tenants=2,
        whole=WholeAnswer(
            measured=cpu(1.0),
            parts={},
            overhead=cpu(0.1),
            others=cpu(0.0),
            alone_launched=estimate,
            alone_packed=EstimateAnswer(low=1.0, likely=1.5, high=3.0),
            saved=SavedAnswer(cores_by_packing=estimate),
        ),
        shares=tuple(
            ShareAnswer(tenant=tenant, share=cpu(cores), alone=estimate, saved=SavedAnswer(cores_by_packing=estimate))
            for tenant, cores in (("bob", 0.3), ("ann", 0.6))
        ),
    )
    filled = with_savings(measured, savings)
    assert (2.0, 1.5) == (filled.windows[0].alone_launched, filled.windows[0].alone_packed)
    assert [
        TenantCoresRow(step=3, tenant="ann", cores=0.6),
        TenantCoresRow(step=3, tenant="bob", cores=0.3),
        TenantCoresRow(step=3, tenant=None, cores=0.1),
    ] == list(filled.tenants)
    assert measured == with_savings(measured, savings.model_copy(update={"metered_seconds": 0.0}))


def cpu(cores: float) -> CpuAnswer:
    return CpuAnswer(cpu_ns=round(cores * 60e9), cores=cores)
