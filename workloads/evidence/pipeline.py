"""The pipeline that makes a part of the evidence: dry replays, live replays by its plan, the report, the README."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

from rich.console import Console
from rich.markup import escape

from workloads.evidence.plan import WAYS, Session, budget, folder_of, measured_at, seconds
from workloads.replay.dry_replay import replay_dry
from workloads.replay.live_replay import ReplayPart, progress, replay_live
from workloads.report.findings import discarded_windows
from workloads.report.runs import read_runs
from workloads.report.summary import markdown_of
from workloads.report.web_page import REPORT_PAGE, write_report
from workloads.results import now
from workloads.traces import Trace
from workloads.workload import Workload

UNDER_WAY = "under-way.json"
"""The file with the plan of an unfinished run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePart:
    """A part of the evidence that is to be made."""

    title: str
    about: str
    """The introduction of its README, in Markdown."""
    workloads: Mapping[str, Workload]
    traces: Mapping[tuple[str, str], Trace]
    """By workload and name; those without a session are only counted."""
    sessions: tuple[Session, ...]


def make_evidence(out: Console, part: EvidencePart, into: Path) -> None:
    """Make a part and print the progress; resume an interrupted run of the same plan."""
    begun = time.monotonic()
    for line in budget(part.sessions, part.traces):
        out.print(escape(line))
    _begin(into, [asdict(session) for session in part.sessions])
    folders = [*_count(part, into)]
    out.print(f"counted every step of {len(part.traces)} traces in {len(folders)} dry replays")
    for number, session in enumerate(part.sessions, 1):
        replays = _replay_parts(part, session, into)
        with progress(out, session.name, seconds(session, part.traces)) as on_progress:
            replay_live(replays, session.pacing, on_progress)
        folders += [folder for replay in replays for folder in replay.ways]
        place = f"{number} of {len(part.sessions)}"
        out.print(f"{(time.monotonic() - begun) / 60:.1f} min: {escape(session.name)} is done, {place}")
    summary = write_report(folders, into / REPORT_PAGE)
    made = (
        f"{part.about}\n\nMade on {now()[:10]}, measured at {measured_at(part.sessions)} of each trace;"
        f" [the report]({REPORT_PAGE}) has the figures and explains them."
    )
    lines = [*discarded_windows(read_runs(folders))] or ["No window was discarded: no service was behind."]
    for line in lines:
        out.print(escape(line), soft_wrap=True)
    listed = "".join(f"- {line}\n" for line in lines)
    (into / "README.md").write_text(f"# {part.title}\n\n{made}\n\n{markdown_of(summary)}\n{listed}", encoding="utf-8")
    (into / UNDER_WAY).unlink()
    out.print(f"{into}: made the evidence in {(time.monotonic() - begun) / 60:.0f} min")


def _replay_parts(part: EvidencePart, session: Session, into: Path) -> list[ReplayPart]:
    return [
        ReplayPart(
            workload=part.workloads[cue.workload],
            trace=part.traces[cue.workload, cue.trace],
            ways={folder_of(into, cue.workload, cue.trace, way, dry=False): way for way in cue.ways},
            rate=cue.rate,
        )
        for cue in session.cues
    ]


def _begin(into: Path, plan: object) -> None:
    """Keep the results of an unfinished run of the same plan; remove all others."""
    mark, text = into / UNDER_WAY, json.dumps(plan, indent=1)
    if mark.exists() and mark.read_text(encoding="utf-8") == text:
        return
    if (into / "results").exists():
        rmtree(into / "results")
    into.mkdir(parents=True, exist_ok=True)
    mark.write_text(text, encoding="utf-8")


def _count(part: EvidencePart, into: Path) -> Iterator[Path]:
    """Replay every trace dry in every way, at the pace and rate of the live replays; yields the results' folders."""
    paced = {
        (cue.workload, cue.trace): (session.pacing.pace, cue.rate) for session in part.sessions for cue in session.cues
    }
    # A trace that is not replayed live gets the pace of the others.
    pace = part.sessions[0].pacing.pace
    for (name, trace_name), trace in part.traces.items():
        at, rate = paced.get((name, trace_name), (pace, 1.0))
        for way in WAYS:
            folder = folder_of(into, name, trace_name, way, dry=True)
            replay_dry(part.workloads[name], trace, way, pace=at, rate=rate, into=folder)
            yield folder
