"""The command `braid demo`: dataflows arrive one by one and share tasks; one leaves and returns."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from braid_client.answers.savings import SavingsAnswer
from manager.cli import AsJson, Notation, Shown
from workloads.commands.replay import end_run
from workloads.demo import (
    DEMO_DATAFLOWS,
    PACING,
    SEED,
    Board,
    DemoOutcome,
    Removal,
    Stage,
    demo_stage,
    show_end,
    show_progress,
    show_removal,
    show_submission,
    show_window,
)
from workloads.report.web_page import page_in, write_report
from workloads.service import RunFailed
from workloads.traces import Action

_WIDTH = 120
"""Columns of the output where there is no terminal."""
INTRODUCTION = (
    f"{len(DEMO_DATAFLOWS)} dataflows of RIoTBench, a benchmark of the Internet of Things, come from "
    f"{PACING.tenants} tenants. They read city sensors, taxi rides and electricity meters, at the benchmark's rates. "
    "Two services run side by side on this machine: one shares the tasks that dataflows have in common, the other "
    "runs every dataflow's tasks separately. Both pack the tasks into as few Spark jobs as possible, so they differ "
    f"only in sharing. The order of the dataflows is random, with seed {SEED}.\n"
)


def demo(
    *,
    into: Annotated[Path, typer.Option(help="The folder for the report and its results.")] = Path("braid-demo-report"),
    as_json: AsJson = False,
) -> None:
    """Show Braid at work: dataflows arrive one by one on a service that shares tasks and on one that does not.

    With --json, the text for people goes to standard error.
    """
    out = Console(highlight=False, stderr=as_json)
    if not out.is_terminal:
        out.width = _WIDTH
    begun, outcome = time.monotonic(), DemoOutcome()
    try:
        with _writable(into):
            _play(out, into, outcome)
    except KeyboardInterrupt:
        end_run(out, "interrupted", "Interrupted: everything was stopped; no process is left.", as_json=as_json)
    except RunFailed as error:
        end_run(out, "demo-failed", str(error), as_json=as_json, style="red")
    outcome.seconds = time.monotonic() - begun
    out.print(f"Report: {escape(outcome.report)}", soft_wrap=True)
    out.print(f"Everything has stopped; no process is left. The demo took {outcome.seconds:.0f} s.")
    if as_json:
        Shown(data=asdict(outcome), text="").print(Notation.JSON)


@contextmanager
def _writable(into: Path) -> Iterator[None]:
    """Make the report's folder before the demo begins; remove it again if it stays empty."""
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFailed(f"{into}: {error.strerror}; choose a writable folder with --into") from None
    try:
        yield
    finally:
        with suppress(OSError):
            into.rmdir()


def _play(out: Console, into: Path, outcome: DemoOutcome) -> None:
    board = Board(out)
    with TemporaryDirectory(prefix="braid-demo-") as folder, board.live:
        results = Path(folder)
        out.rule("What does sharing save?", align="left")
        out.print(INTRODUCTION)
        with demo_stage(results, board.show_wait) as stage:
            for side, what in zip(stage.sides, ("shares tasks", "does not share"), strict=True):
                out.print(f"{side.player.service.url} {what}. It has a broker, a Spark host, a REST API and SQLite.")
            _perform(out, board, stage, outcome)
            stage.check_missing()
            stage.end()
        board.show_wait("writing the report")
        # From here on the folder holds only complete results.
        kept = copytree(results, into / "results", dirs_exist_ok=True)
        write_report([path for path in sorted(kept.iterdir()) if path.is_dir()], into)
        outcome.report = str(page_in(into))


def _perform(out: Console, board: Board, stage: Stage, outcome: DemoOutcome) -> None:
    """Do the steps of the trace; show and measure their effects."""
    account: SavingsAnswer | None = None
    for number, step in enumerate(stage.trace.steps):
        if step.action is Action.REMOVE:
            board.show_wait("waiting for an event of each output")
            stage.await_outputs()
        board.show_wait(f"step {number + 1} of {len(stage.trace.steps)}: {step.action} {step.dataflow}")
        before = stage.shared.player.outputs.reset_gaps()
        effect = stage.do_step(number)
        counts = stage.shared.results.step_results[-1].step
        board.show_state(stage, account)
        if isinstance(effect, Removal):
            show_removal(out, effect, counts)
            outcome.remove(effect, counts)
            board.show_wait("waiting for events of the other dataflows")
            outcome.others = stage.await_progress(effect, before)
            show_progress(out, outcome.others)
        else:
            show_submission(out, effect, counts)
            outcome.submit(effect, counts)
        if stage.is_measured(number):
            board.show_wait("measuring both services at the same time")
            for account in stage.measure(number):
                board.show_state(stage, account)
                show_window(out, stage)
                outcome.measure(*stage.sides, account)
        out.print()
    show_end(out, stage, account)
