"""Making a part of the evidence: dry replays of every step, live ones by its plan, the report and its page."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

from rich.console import Console
from rich.markup import escape

from workloads.evidence.plan import WAYS, Session, budget, folder_of, seconds, where
from workloads.replay.dry_results import replay_dry
from workloads.replay.live_replay import ReplayPart, replay_live
from workloads.replay.progress_bar import progress
from workloads.replay.results_folder import now
from workloads.report.analysis.discarded_windows import thrown_away
from workloads.report.analysis.runs import read_runs
from workloads.report.analysis.summary import markdown_of
from workloads.report.report_writer import write_report
from workloads.traces.trace_file import Trace
from workloads.workload import Workload

_PAGE = "report.html"
UNDER_WAY = "under-way.json"
"""In the folder while the evidence is being made: the plan that it is made by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePart:
    """A part of the evidence, about to be made."""

    title: str
    about: str
    """What its page begins with, in Markdown."""
    workloads: Mapping[str, Workload]
    traces: Mapping[tuple[str, str], Trace]
    """By workload and name; those in no session are only counted."""
    sessions: tuple[Session, ...]


def make(out: Console, what: EvidencePart, into: Path) -> None:
    """Make it, and say what is done; goes on with what was interrupted."""
    begun = time.monotonic()
    for line in budget(what.sessions, what.traces):
        out.print(escape(line))
    _begin(into, [asdict(session) for session in what.sessions])
    found = [*_count(what, into)]
    out.print(f"counted every step of {len(what.traces)} traces in {len(found)} dry replays")
    for number, session in enumerate(what.sessions, 1):
        parts = _parts(what, session, into)
        with progress(out, session.name, seconds(session, what.traces)) as told:
            replay_live(parts, session.pacing, told)
        found += [folder for part in parts for folder in part.ways]
        of = f"{number} of {len(what.sessions)}"
        out.print(f"{(time.monotonic() - begun) / 60:.1f} min: {escape(session.name)} is done, {of}")
    summary = write_report(found, into / _PAGE)
    made = (
        f"{what.about}\n\nMade on {now()[:10]}, measured at {where(what.sessions)} of each trace;"
        f" [the report]({_PAGE}) has the figures, and says what they rest on."
    )
    thrown = [*thrown_away(read_runs(found))] or ["No window was thrown away: no service was behind."]
    for line in thrown:
        out.print(escape(line), soft_wrap=True)
    said = "".join(f"- {line}\n" for line in thrown)
    (into / "README.md").write_text(f"# {what.title}\n\n{made}\n\n{markdown_of(summary)}\n{said}", encoding="utf-8")
    (into / UNDER_WAY).unlink()
    out.print(f"{into}: the evidence, made in {(time.monotonic() - begun) / 60:.0f} min")


def _parts(what: EvidencePart, session: Session, into: Path) -> list[ReplayPart]:
    return [
        ReplayPart(
            workload=what.workloads[cue.workload],
            trace=what.traces[cue.workload, cue.trace],
            ways={folder_of(into, cue.workload, cue.trace, each, dry=False): each for each in cue.ways},
            rate=cue.rate,
        )
        for cue in session.cues
    ]


def _begin(into: Path, plan: object) -> None:
    """Go on with what was interrupted, where it was made by the same plan, and begin anew else."""
    mark, told = into / UNDER_WAY, json.dumps(plan, indent=1)
    if mark.exists() and mark.read_text(encoding="utf-8") == told:
        return
    if (into / "results").exists():
        rmtree(into / "results")
    into.mkdir(parents=True, exist_ok=True)
    mark.write_text(told, encoding="utf-8")


def _count(what: EvidencePart, into: Path) -> Iterator[Path]:
    """Count what runs at every step of every trace, at the pace and the rate of the live replays; says where."""
    paced = {
        (cue.workload, cue.trace): (session.pacing.pace, cue.rate) for session in what.sessions for cue in session.cues
    }
    # What is not replayed live has the pace of what is.
    pace = what.sessions[0].pacing.pace
    for (name, trace_name), trace in what.traces.items():
        at, rate = paced.get((name, trace_name), (pace, 1.0))
        for way in WAYS:
            folder = folder_of(into, name, trace_name, way, dry=True)
            replay_dry(what.workloads[name], trace, way, pace=at, rate=rate, into=folder)
            yield folder
