"""The demo and the bundled examples."""

import re

from typer.testing import CliRunner

from manager.command import app


def test_the_demo_shows_what_is_reused_and_ends_with_the_others_undisturbed() -> None:
    """The demo submits four dataflows, shows the saving grow, removes two, and finds the others' outputs in place."""
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    assert re.findall(r"(\d+) dataflows, (\d+) running tasks instead of (\d+)", result.stdout) == [
        ("1", "4", "4"),
        ("2", "8", "11"),
        ("3", "12", "15"),
        ("4", "15", "22"),
        ("3", "14", "18"),
        ("2", "11", "11"),
    ]
    assert result.stdout.rstrip().endswith(
        "The other two dataflows kept their outputs: the instances that produce them never stopped."
    )
