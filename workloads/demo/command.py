"""The demo: dataflows of RIoTBench arrive one by one and share what they have in common; one leaves, and returns."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from manager.answers import SavingsAnswer
from manager.commands.client_command import AsJson
from manager.commands.display import Shown
from manager.commands.exit_codes import ExitCode
from workloads.demo.display import Board, show_end, show_progress, show_removal, show_submission, show_window
from workloads.demo.outcome import DemoOutcome
from workloads.demo.scenario import DEMO_DATAFLOWS, PACING, SEED
from workloads.demo.stage import Removal, Stage, demo_stage
from workloads.report.report_writer import page_in, write_report
from workloads.service_process import RunFailed
from workloads.traces.trace_file import Action

_WIDTH = 120
"""How wide the demo writes where no screen says so."""
INTRODUCTION = (
    f"{len(DEMO_DATAFLOWS)} dataflows of RIoTBench, an IoT benchmark, come from {PACING.tenants} tenants. "
    "They read sensors of a city, taxi rides and electricity meters, at the benchmark's rates. Two services run side "
    "by side on this machine: one shares what dataflows have in common, the other runs each task again for whoever "
    "wants it. Both pack all into as few Spark jobs as hold it, so that what differs is sharing alone. The order is "
    f"drawn, with the seed {SEED}.\n"
)


def demo(
    *,
    into: Annotated[Path, typer.Option(help="The folder for the report and its results.")] = Path("braid-demo-report"),
    as_json: AsJson = False,
) -> None:
    """Show Braid at work: dataflows of RIoTBench arrive one by one, on a service that shares and on one that does not.

    With --json, what people read goes to standard error.
    """
    out = Console(highlight=False, stderr=as_json)
    if not out.is_terminal:
        out.width = _WIDTH
    begun, outcome = time.monotonic(), DemoOutcome()
    try:
        with _made(into):
            _play(out, into, outcome)
    except KeyboardInterrupt:
        why = "Interrupted: everything was stopped, and no process is left."
        out.print(why)
        _end(ExitCode.INTERRUPTED, "interrupted", why, as_json=as_json)
    except RunFailed as error:
        out.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        _end(ExitCode.FAILED, "demo-failed", str(error), as_json=as_json)
    outcome.seconds = time.monotonic() - begun
    out.print(f"The report: {escape(outcome.report)}", soft_wrap=True)
    out.print(f"Everything has stopped, and no process is left. The demo took {outcome.seconds:.0f} s.")
    if as_json:
        Shown(data=outcome.data(), text="").print(as_json=True)


def _end(code: ExitCode, name: str, why: str, *, as_json: bool) -> NoReturn:
    if as_json:
        Shown(data={"problem": {"code": name, "detail": why}}, text="").print(as_json=True)
    raise typer.Exit(code) from None


@contextmanager
def _made(into: Path) -> Iterator[None]:
    """See that the report can be written before the demo begins; the folder goes again where it stays empty."""
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFailed(f"{into}: {error.strerror}; name a folder that can be written, by --into") from None
    try:
        yield
    finally:
        with suppress(OSError):
            into.rmdir()


def _play(out: Console, into: Path, outcome: DemoOutcome) -> None:
    board = Board(out)
    with TemporaryDirectory(prefix="braid-demo-") as found, board.live:
        results = Path(found)
        out.rule("What does sharing save?", align="left")
        out.print(INTRODUCTION)
        with demo_stage(results, board.awaits) as stage:
            for side, what in zip(stage.sides, ("shares", "does not share"), strict=True):
                out.print(f"{side.player.service.url} {what}: a broker, a host with Spark, REST, SQLite.")
            _perform(out, board, stage, outcome)
            stage.check_numbers()
            stage.end()
        board.awaits("writing the report")
        # From here on only what is whole is left, whatever happens.
        kept = copytree(results, into / "results", dirs_exist_ok=True)
        write_report([each for each in sorted(kept.iterdir()) if each.is_dir()], into)
        outcome.report = str(page_in(into))


def _perform(out: Console, board: Board, stage: Stage, outcome: DemoOutcome) -> None:
    """Go through the trace, and show and measure what comes of it."""
    account: SavingsAnswer | None = None
    for number, step in enumerate(stage.trace.steps):
        if step.action is Action.REMOVE:
            board.awaits("waiting for events of each output")
            stage.await_outputs()
        board.awaits(f"step {number + 1} of {len(stage.trace.steps)}: {step.action} {step.dataflow}")
        before = stage.shared.player.outputs.begin_waits()
        done = stage.do(number)
        counts = stage.shared.keeper.found[-1].step
        board.now(stage, account)
        if isinstance(done, Removal):
            show_removal(out, done, counts)
            outcome.remove(done, counts)
            board.awaits("waiting for the others' events")
            outcome.others = stage.await_progress(done, before)
            show_progress(out, outcome.others)
        else:
            show_submission(out, done, counts)
            outcome.submit(done, counts)
        if stage.measures(number):
            board.awaits("measuring both services at the same time")
            for account in stage.measure(number):
                board.now(stage, account)
                show_window(out, stage)
                outcome.measure(*stage.sides, account)
        out.print()
    show_end(out, stage, account)
