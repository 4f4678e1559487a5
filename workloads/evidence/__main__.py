"""Make the evidence: `python -m workloads.evidence [--full] [--quick] [--into FOLDER]`.

Task counts come from dry replays of every step, cores and latencies from live ones. Interrupted, it goes on where it
was with the same call; at its end, the next call begins anew.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from manager.commands.exit_codes import ExitCode
from workloads.evidence.plan import WAYS, Session, budget, folder_of, seconds, sessions, traces, where
from workloads.loading import WrongWorkload, load_workload
from workloads.replay.counting import replay_dry
from workloads.replay.dry import NotReplayed
from workloads.replay.keeping import now
from workloads.replay.live import Part, replay_live
from workloads.replay.progress import progress
from workloads.report.summary import markdown_of
from workloads.report.writing import write_report
from workloads.service import RunFailed
from workloads.tables import WrongResults
from workloads.trace import Trace
from workloads.workload import Workload

PAGE = "report.html"
_UNDER_WAY = "under-way.json"
"""In the folder while the evidence is being made: the plan that it is made by."""


def main(
    *,
    full: Annotated[bool, typer.Option("--full", help="Measure at every step; takes two to three hours.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure at two steps, to see whether it works.")] = False,
    into: Annotated[Path, typer.Option(help="The folder for all that comes of it.")] = Path("docs/evidence"),
    workload: Annotated[list[str] | None, typer.Option(help="Another workload; may be given again.")] = None,
) -> None:
    """Replay OPMW and RIoTBench, dry and live, and write the report."""
    out = Console(highlight=False, stderr=True)
    names = tuple(workload or ("opmw", "riotbench"))
    try:
        workloads = {name: load_workload(name) for name in names}
        _make(out, workloads, sessions(names, full=full, quick=quick), into)
    except (WrongWorkload, WrongResults, NotReplayed, RunFailed) as error:
        out.print(f"[red]{escape(str(error))}[/]\nTo go on: the same call again.", soft_wrap=True)
        raise typer.Exit(ExitCode.FAILED) from None
    except KeyboardInterrupt:
        out.print("Interrupted: everything was stopped. To go on: the same call again.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _make(out: Console, workloads: Mapping[str, Workload], every: Sequence[Session], into: Path) -> None:
    drawn, begun = traces(workloads), time.monotonic()
    for line in budget(every, drawn):
        out.print(escape(line))
    _begin(into, [asdict(session) for session in every])
    found = [*_count(workloads, drawn, every[0].pacing.pace, into)]
    out.print(f"counted every step of {len(drawn)} traces in {len(found)} dry replays")
    for session in every:
        parts = [
            Part(
                workload=workloads[cue.workload],
                trace=drawn[cue.workload, cue.trace],
                ways={folder_of(into, cue.workload, cue.trace, each, dry=False): each for each in cue.ways},
                rate=cue.rate,
            )
            for cue in session.cues
        ]
        with progress(out, session.name, seconds(session, drawn)) as told:
            replay_live(parts, session.pacing, told)
        found += [folder for part in parts for folder in part.ways]
        out.print(f"{(time.monotonic() - begun) / 60:.1f} min: {escape(session.name)} is done")
    summary = write_report(found, into / PAGE)
    made = (
        f"Made on {now()[:10]}, measured at {where(every)} of each trace;"
        f" [the report]({PAGE}) has the figures, and says what they rest on."
    )
    (into / "README.md").write_text(f"# Evidence\n\n{made}\n\n{markdown_of(summary)}", encoding="utf-8")
    (into / _UNDER_WAY).unlink()
    out.print(f"{into}: the evidence, made in {(time.monotonic() - begun) / 60:.0f} min")


def _begin(into: Path, plan: object) -> None:
    """Go on with what was interrupted, where it was made by the same plan, and begin anew else."""
    mark, told = into / _UNDER_WAY, json.dumps(plan, indent=1)
    if mark.exists() and mark.read_text(encoding="utf-8") == told:
        return
    if (into / "results").exists():
        rmtree(into / "results")
    into.mkdir(parents=True, exist_ok=True)
    mark.write_text(told, encoding="utf-8")


def _count(
    workloads: Mapping[str, Workload], drawn: Mapping[tuple[str, str], Trace], pace: float, into: Path
) -> Sequence[Path]:
    """Count what runs at every step of every trace, at the pace of the live replays; says where."""
    found = []
    for (name, trace_name), trace in drawn.items():
        for way in WAYS:
            folder = folder_of(into, name, trace_name, way, dry=True)
            replay_dry(workloads[name], trace, way, pace=pace, into=folder)
            found.append(folder)
    return found


if __name__ == "__main__":
    typer.run(main)
