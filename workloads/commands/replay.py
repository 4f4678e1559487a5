"""The command `braid replay`, which replays a trace."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from manager.cli import AsJson, Notation, Shown, WrongUsage, exit_on_error
from manager.exit_codes import ExitCode
from manager.settings import Placement
from workloads.replay.dry_replay import NotReplayed, replay_dry
from workloads.replay.live_replay import ReplayPart, progress, replay_live
from workloads.replay.plan import Pacing, total_seconds
from workloads.results import WrongResults
from workloads.service import RunFailed
from workloads.traces import Defragment, Mode, Way, WrongTrace, read_trace
from workloads.workload import WrongWorkload, load_workload


def replay(  # noqa: PLR0913 - a replay has these settings
    trace: Annotated[Path, typer.Argument(help="A file written by braid trace.")],
    *,
    into: Annotated[Path, typer.Option(help="The folder for the results; an interrupted replay in it is resumed.")],
    mode: Annotated[Mode, typer.Option(help="default shares nothing; reuse shares all that it can.")] = "reuse",
    placement: Annotated[Placement, typer.Option(help="As in braid serve.")] = "pack",
    defragment: Annotated[
        Defragment, typer.Option(help="Never, when the service decides, or after each step.")
    ] = "off",
    pace: Annotated[float, typer.Option(min=0.1, help="Seconds from one batch to the next.")] = 1.0,
    rate: Annotated[float, typer.Option(min=1e-6, help="Factor on the rates of the workload's sources.")] = 1.0,
    windows: Annotated[int, typer.Option(min=1, help="Measurement windows at each measured step.")] = 3,
    window: Annotated[float, typer.Option(min=0.5, help="Seconds of each window.")] = 10.0,
    measure: Annotated[str, typer.Option(help="all, or the number of measured steps, spread over the trace.")] = "all",
    speed: Annotated[float, typer.Option(min=1e-3, help="Factor on the speed of a trace with times.")] = 1.0,
    is_dry: Annotated[bool, typer.Option("--dry", help="Only count what would run; start no service.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a service of its own; record the counts and the cost of each step."""
    out = Console(highlight=False, stderr=True)
    notation = Notation.JSON if as_json else Notation.TABLE
    with exit_on_error(notation):
        try:
            drawn = read_trace(trace)
            workload = load_workload(drawn.workload)
            way = Way(mode=mode, placement=placement, defragment=defragment)
            points = None if measure == "all" else _points(measure)
            pacing = Pacing(pace=pace, windows=windows, window=window, points=points, speed=speed)
            if is_dry:
                replay_dry(workload, drawn, way, pace=pace, rate=rate, into=into)
            else:
                with progress(out, f"{drawn.name} {way.name}", total_seconds(drawn, pacing, (way,))) as on_progress:
                    part = ReplayPart(workload=workload, trace=drawn, ways={into: way}, rate=rate)
                    replay_live((part,), pacing, on_progress)
        except (WrongTrace, WrongWorkload, WrongResults, NotReplayed) as error:
            raise WrongUsage(str(error)) from None
        except RunFailed as error:
            end_run(out, "replay-failed", f"{error}\nTo resume: the same command again.", as_json=as_json)
        except KeyboardInterrupt:
            why = "Interrupted: everything was stopped. To resume: the same command again."
            end_run(out, "interrupted", why, as_json=as_json)
        Shown(
            data={"into": str(into), "steps": len(drawn.steps)},
            text=f"{into}: {len(drawn.steps)} steps; for a report: braid report {into}",
        ).print(notation)


def _points(measure: str) -> int:
    try:
        points = int(measure)
    except ValueError:
        points = 0
    if points < 1:
        raise WrongUsage(f"--measure {measure}: is neither all nor a number of steps")
    return points


def end_run(out: Console, name: str, why: str, *, as_json: bool, style: str = "") -> NoReturn:
    """Say why a run ended early, to people and to programs, and end the command."""
    out.print(escape(why), soft_wrap=True, style=style)
    if as_json:
        Shown(data={"problem": {"code": name, "detail": why}}, text="").print(Notation.JSON)
    raise typer.Exit(ExitCode.INTERRUPTED if name == "interrupted" else ExitCode.FAILED) from None
