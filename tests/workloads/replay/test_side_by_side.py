"""Traces that are replayed side by side are measured together, as long as there is something to measure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tests.workloads.rows import window_row as measured
from workloads.replay.live_replay import _Ready, _side_by_side
from workloads.replay.plan import Pacing
from workloads.replay.player import Player
from workloads.results import WindowRow
from workloads.traces import REUSE


class Noting:
    """Stands in for a player, and notes what is asked of it; it is behind in the second window of each step."""

    way = REUSE

    def __init__(self, name: str, heard: list[str]) -> None:
        self._name = name
        self._heard = heard

    def catch_up(self, _pace: float) -> None:
        self._heard.append(f"{self._name} catches up")

    def open_window(self) -> Any:
        self._heard.append(f"{self._name} opens")

    def close_window(self, _opened: Any, step: int, window: int, _pace: float) -> WindowRow:
        self._heard.append(f"{self._name} shuts {step}.{window}")
        return measured(step, window, 1.0, behind="an event has waited" if window else "")


def play(name: str, steps: int, heard: list[str], found: list[Any]) -> Iterator[_Ready | None]:
    for step in range(steps):
        heard.append(f"{name} begins {step}")
        yield None
        heard.append(f"{name} waits for {step}")
        ready = _Ready(step=step, players={Path(name): cast("Player", Noting(name, heard))}, windows={})
        yield ready
        found.append((name, [f"{row.step}.{row.window}" for row in ready.windows[Path(name)]]))


def test_all_begin_a_step_before_any_is_waited_for_and_windows_are_opened_together() -> None:
    """One that is at its end is not waited for; each gets the windows of its own step."""
    heard: list[str] = []
    found: list[Any] = []
    plays = [play("a", 2, heard, found), play("b", 1, heard, found)]
    said: list[str] = []
    pacing = Pacing(pace=1.0, windows=2, window=0.0, settle=0.0)
    _side_by_side(plays, pacing, lambda what, _seconds: said.append(what))
    together = ["a begins 0", "b begins 0", "a waits for 0", "b waits for 0", "a catches up", "b catches up"]
    windows = [
        each for window in range(2) for each in ("a opens", "b opens", f"a shuts 0.{window}", f"b shuts 0.{window}")
    ]
    alone = ["a begins 1", "a waits for 1", "a catches up", "a opens", "a shuts 1.0", "a opens", "a shuts 1.1"]
    assert together + windows + alone == heard
    assert [("a", ["0.0", "0.1"]), ("b", ["0.0", "0.1"]), ("a", ["1.0", "1.1"])] == found
    thrown = "reuse: window 2 is discarded: an event has waited"
    assert [f"step 1, {thrown}", f"step 1, {thrown}", f"step 2, {thrown}"] == said
