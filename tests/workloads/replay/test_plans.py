"""Plans of replays: what is measured when, who submits what, and what is kept of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.answers.savings import CpuAnswer, EstimateAnswer, SavedAnswer, SavingsAnswer, ShareAnswer, WholeAnswer
from tests.workloads.replay import test_dry_replay
from tests.workloads.rows import step_row, window_row
from workloads.replay.plan import (
    Pacing,
    awaited_steps,
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
    TenantCoresRow,
    UsersRow,
    WrongResults,
    manifest_of,
    read_results,
)
from workloads.traces import Way, sequential
from workloads.workload import Workload, load_workload


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
def workload(tmp_path: Path) -> Workload:
    return load_workload(str(test_dry_replay.make(tmp_path / "toy")))


def test_dataflows_that_hang_on_their_owner_belong_to_that_of_the_sources(workload: Workload) -> None:
    """Those that publish, and those that keep something at a place of their tenant's; the rest is spread."""
    document = test_dry_replay.document((1,))
    publishes = {**document, "tasks": [*document["tasks"], {"id": "p", "type": "mqtt_publish", "config": {}}]}
    keeps = {"id": "t", "type": "table_insert", "config": {"database": {"place": "readings"}}}
    many: Mapping[str, Any] = {
        **{f"d{number}": document for number in range(40)},
        "publishes": publishes,
        "keeps": {**document, "tasks": [*document["tasks"], keeps]},
    }
    wide = Workload(name="wide", about={}, sources=workload.sources, dataflows=many)
    tenants = tenants_of(wide, 5, 1)
    assert ["tenant-1", "tenant-1"] == [tenants["publishes"], tenants["keeps"]]
    assert {f"tenant-{number}" for number in range(1, 6)} == set(tenants.values())
    assert tenants == tenants_of(wide, 5, 1)


def test_documents_name_sources_as_everybody_does(workload: Workload) -> None:
    """In `default` every task is fresh besides; the workload's document stays as it is."""
    reuse = submitted(workload.dataflows["a"], "reuse")
    assert "tenant-1:street" == reuse["tasks"][0]["config"]["source"] == full_name("street")
    assert not any(task.get("fresh") for task in reuse["tasks"])
    assert all(task["fresh"] for task in submitted(workload.dataflows["a"], "default")["tasks"])
    assert "street" == workload.dataflows["a"]["tasks"][0]["config"]["source"]


def test_a_source_is_a_file_at_its_rate_or_a_topic(workload: Workload) -> None:
    """A topic where dataflows publish, under the very name of the source."""
    (source,) = workload.sources
    file = source_form(source, "street.jsonl", 2.5).model_dump(mode="json", by_alias=True)
    assert ("replay", "street.jsonl", 50.0, True) == tuple(
        file["connection"][name] for name in ("kind", "path", "per_second", "repeat")
    )
    assert {"n": "integer", "t": "float"} == file["schema"]
    connection = {"kind": "topic", "topic": "street", "retained": False}
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
