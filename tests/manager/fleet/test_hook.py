"""The hook: the operator's command gets the name and the reason, once, and its failures are said."""

import stat
from pathlib import Path

import pytest

from manager.machines.scaler import ScaleHook, SupplyFailed


def command(folder: Path, *lines: str) -> str:
    """A command that does these lines of shell."""
    path = folder / "scale hook.sh"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(stat.S_IRWXU)
    return f"'{path}' here"


def test_it_is_called_once_for_each_change(tmp_path: Path) -> None:
    """With its own words first; what was done is not done again by the same manager."""
    said = tmp_path / "said"
    hook = ScaleHook(command(tmp_path, f"echo \"$1 $2 $3 $4\" >> '{said}'"))
    for _ in range(2):
        hook.start("added-1", "jobs need more")
    for _ in range(2):
        hook.stop("added-1", "jobs need fewer")
    hook.start("added-1", "again")
    hook.end()
    assert [
        "here add added-1 jobs need more",
        "here remove added-1 jobs need fewer",
        "here add added-1 again",
    ] == said.read_text().splitlines()


def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A process that it began may keep its output open."""
    pid = tmp_path / "pid"
    hook = ScaleHook(command(tmp_path, f"sleep 600 & echo $! > '{pid}'"))
    hook.start("added-1", "why")
    ScaleHook(f"sh -c 'kill {pid.read_text().strip()}'").stop("added-1", "why")


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    """An exit code with what it said, one that takes too long, and one that is not there; then it is tried again."""
    ready = tmp_path / "ready"
    hook = ScaleHook(command(tmp_path, f"test -e '{ready}' || {{ echo no quota left; exit 3; }}"))
    with pytest.raises(SupplyFailed, match=r"ended with 3 on add added-1: no quota left"):
        hook.start("added-1", "why")
    ready.touch()
    hook.start("added-1", "why")
    with pytest.raises(SupplyFailed, match=r"took more than 0\.1 s to add added-1 and was killed"):
        ScaleHook(command(tmp_path, "exec sleep 600"), patience=0.1).start("added-1", "why")
    with pytest.raises(SupplyFailed, match="cannot be run"):
        ScaleHook(str(tmp_path / "nowhere")).start("added-1", "why")
