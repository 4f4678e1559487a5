"""The section on how the figures were made: the replays, how savings are reckoned, and what is missing. Pure."""

from collections.abc import Sequence
from statistics import fmean

from workloads.report.analysis.findings import missing
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import seconds
from workloads.report.web_page.html_tags import Html, joined, table, tag
from workloads.report.web_page.page_parts import details, sentences


def made(every: Sequence[Runs]) -> Html:
    """What was replayed, how savings are reckoned, and what is missing."""
    rows = []
    for runs in every:
        for run in runs.every:
            manifest = run.results.manifest
            rows.append(
                (
                    f"{runs.workload}, {runs.trace}",
                    run.way.name,
                    "dry" if manifest.dry else "live",
                    manifest.begun,
                    str(manifest.trace["seed"]),
                    str(len(run.results.steps)),
                    str(len(run.results.windows)),
                    seconds(fmean(row.seconds for row in run.results.windows)) if run.results.windows else "",
                )
            )
    head = ("workload, trace", "way", "kind", "begun", "seed", "steps", "windows", "of")
    first = next(every[0].every).results.manifest
    workloads = {runs.workload: next(runs.every).results.manifest.workload for runs in every}
    settings = {
        f"{runs.workload}, {runs.trace}, {way.name}": run.results.manifest.settings
        for runs in every
        for way, run in runs.live.items()
    }
    return joined(
        table("The replays", head, rows, texts=4),
        tag(
            "p",
            "A saving's interval: the windows of both ways at one step make pairs; what each pair departs from the"
            " saving that was found is its scatter, which is pooled over all steps and taken times Student's t. It"
            " tells how far measuring again would lead elsewhere, not what other traces would give.",
        ),
        tag("h3", "What is missing"),
        sentences(missing(every), "Nothing: every way was replayed and measured."),
        details("The workloads, and how they were made", workloads),
        details("The settings of the live replays", settings),
        details("Versions and machine of the first replay", {"versions": first.versions, "machine": first.machine}),
    )
