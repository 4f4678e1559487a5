"""The section on the origin of the figures: the replays, the method, and missing measurements. Pure."""

from collections.abc import Sequence
from statistics import fmean

from workloads.report.analysis.findings import missing_measurements
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import seconds
from workloads.report.web_page.html_tags import Html, joined, table, tag
from workloads.report.web_page.page_parts import details, sentences


def made(every: Sequence[Runs]) -> Html:
    """The replays, the method, and missing measurements."""
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
    head = ("workload, trace", "way", "kind", "start", "seed", "steps", "windows", "length")
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
            "The interval of a saving comes from pairs of windows, measured in both ways at the same step. The"
            " deviations of the pairs from the saving are pooled over all steps and multiplied by Student's t. The"
            " interval says how much a repeated measurement would vary, not what other traces would give.",
        ),
        tag("h3", "What is missing"),
        sentences(missing_measurements(every), "Nothing: every way was replayed and measured."),
        details("The workloads and their origin", workloads),
        details("The settings of the live replays", settings),
        details("Versions and machine of the first replay", {"versions": first.versions, "machine": first.machine}),
    )
