"""Make the evidence: `python -m workloads.evidence [--work] [--full] [--quick] [--into FOLDER]`.

Task counts come from dry replays of every step, cores and latencies from live ones. After an interruption the same
command resumes; after completion it starts again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from manager.exit_codes import ExitCode
from workloads.evidence.pipeline import UNDER_WAY, EvidencePart, make_evidence
from workloads.evidence.plan import (
    UNIFORM_ITERATIONS,
    event_seconds,
    sessions,
    sessions_of_work,
    tempo_of,
    traces,
    with_uniform_tasks,
)
from workloads.replay.dry_replay import NotReplayed, dry_rows
from workloads.results import WrongResults
from workloads.service import RunFailed
from workloads.traces import DEFAULT
from workloads.workload import WrongWorkload, load_workload

_NAMES = ("opmw", "riotbench")
ALSO_COUNTED = ("opmw-join",)
"""Counted as well, but not replayed live: OPMW whose steps work once for each complete set of inputs."""
FIRST, SECOND = Path("docs/evidence/light-tasks"), Path("docs/evidence/heavy-tasks")
_CALIBRATED = "calibrated.json"
"""The file with the measured cost of an event, in the folder of the second part; a resumed run reads it."""
_LIGHT = (
    "Many jobs with little to do: events come slowly and tasks have their normal costs, so batches take most of the"
    " CPU."
)
_HEAVY = (
    "The paper's own regime: every task computes pi with {iterations:,} iterations for each event, and so does a step"
    " behind each source. An event cost {seconds:.2f} ms of CPU at each step. The rates are such that default takes"
    " 1.2 to 1.5 of two cores at the peak of each trace; so the ways ran one after the other. Where tasks take most of"
    " the CPU, cores follow the work: compare *cores saved* with *work saved*."
)


def main(
    *,
    work: Annotated[bool, typer.Option("--work", help="The second part: expensive, uniform tasks.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Measure at every step; takes two to three hours.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure only a step or two, as a trial.")] = False,
    into: Annotated[Path | None, typer.Option(help="The folder for the evidence.")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="Another workload; may be repeated.")] = None,
) -> None:
    """Replay OPMW and RIoTBench, dry and live, and write the report."""
    out = Console(highlight=False, stderr=True)
    names = tuple(workload or _NAMES)
    if work and full:
        out.print("--full applies only to the first part; leave it out with --work")
        raise typer.Exit(ExitCode.WRONG_CALL)
    try:
        if work:
            folder = into or SECOND
            make_evidence(out, _second(out, names, folder, quick=quick), folder)
        else:
            folder = into or FIRST
            make_evidence(out, _first(names, folder, full=full, quick=quick), folder)
    except (WrongWorkload, WrongResults, NotReplayed, RunFailed) as error:
        out.print(f"[red]{escape(str(error))}[/]\nTo resume: the same command again.", soft_wrap=True)
        raise typer.Exit(ExitCode.FAILED) from None
    except KeyboardInterrupt:
        out.print("Interrupted: everything was stopped. To resume: the same command again.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _first(names: Sequence[str], into: Path, *, full: bool, quick: bool) -> EvidencePart:
    workloads = {name: load_workload(name) for name in (*names, *_also(names))}
    return EvidencePart(
        title="Replays with little to do",
        about=_LIGHT
        + _other(into, "../heavy-tasks/README.md", "The second part is about expensive tasks.")
        + _other(into, "../peers.svg", "A picture has fifty dataflows beside Node-RED, PyFlink and PySpark."),
        workloads=workloads,
        traces=traces(workloads),
        sessions=sessions(names, full=full, quick=quick),
    )


def _second(out: Console, names: Sequence[str], into: Path, *, quick: bool) -> EvidencePart:
    seconds = _calibrated(into)
    out.print(f"an event costs {1_000 * seconds:.2f} ms of CPU on this machine")
    live = [with_uniform_tasks(load_workload(name), seconds=seconds) for name in names]
    counted_only = [with_uniform_tasks(load_workload(name), seconds=seconds) for name in _also(names)]
    workloads = {workload.name: workload for workload in (*live, *counted_only)}
    drawn, tempos = traces(workloads), {}
    for (name, trace), steps in traces({workload.name: workload for workload in live}).items():
        counted = dry_rows(workloads[name], steps, DEFAULT)
        tempos[name, trace] = tempo = tempo_of([row for row, _ in counted], seconds)
        rate = f"{tempo.rate:.3f} events of each source in a second, a batch every {tempo.pace:g} s"
        out.print(f"{escape(name)}, {trace}: {rate}", soft_wrap=True)
    return EvidencePart(
        title="Replays with expensive tasks",
        about=_HEAVY.format(iterations=UNIFORM_ITERATIONS, seconds=1_000 * seconds)
        + _other(into, "../light-tasks/README.md", "The first part is about jobs with little to do."),
        workloads=workloads,
        traces=drawn,
        sessions=sessions_of_work(tempos, quick=quick),
    )


def _also(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in ALSO_COUNTED if tuple(names) == _NAMES)


def _other(into: Path, page: str, what: str) -> str:
    """A sentence with a link to the other part, if that exists."""
    return f" [{what.removesuffix('.')}]({page})." if (into / page).exists() else ""


def _calibrated(into: Path) -> float:
    """The cost of an event: the one an unfinished run began with, or a new measurement."""
    kept = into / _CALIBRATED
    if kept.exists() and (into / UNDER_WAY).exists():
        return float(json.loads(kept.read_text(encoding="utf-8"))["event_seconds"])
    # Rounded, so that reading the file gives the same number.
    seconds = round(event_seconds(), 6)
    into.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"event_seconds": seconds}), encoding="utf-8")
    return seconds


if __name__ == "__main__":
    typer.run(main)
