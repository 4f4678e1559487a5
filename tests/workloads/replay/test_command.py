"""The commands that draw and replay traces: what they keep, and how they end where something is of no use."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from manager.command import app
from tests.workloads.replay import toy
from workloads.results import read_results


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace over the toy workload, drawn by the command."""
    toy.make(tmp_path / "toy")
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
