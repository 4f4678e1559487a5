"""The demo and the bundled examples."""

import re

import pytest
from typer.testing import CliRunner

from manager.command import app


@pytest.mark.spark
def test_the_demo_runs_what_was_merged_and_the_others_are_undisturbed() -> None:
    """Four dataflows run as one job, two of them are removed, and the others' outputs go on without a gap."""
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.stdout
    assert re.findall(r"(\d+) dataflows, (\d+) running tasks instead of (\d+)", result.stdout) == [
        ("1", "4", "4"),
        ("2", "8", "11"),
        ("3", "12", "15"),
        ("4", "15", "22"),
        ("3", "14", "18"),
        ("2", "11", "11"),
    ]
    assert "Instances 4, 13, 14, 15 are paused" in result.stdout
    assert result.stdout.rstrip().endswith("got every event of theirs, once and in order, and never stopped.")
