"""The page of a report: one self-contained HTML file. Pure."""

from collections.abc import Sequence

from workloads.report.analysis.paper_claims import percent_range, values
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary
from workloads.report.web_page import provenance, regime_sections, sections
from workloads.report.web_page.html_tags import Html, tag
from workloads.report.web_page.page_parts import Pictures
from workloads.way import REUSE, REUSE_PACKED


def page(every: Sequence[Runs], summary: Summary, pictures: Pictures, style: str) -> str:
    """The complete page."""
    shown = (
        ("savings", "Savings", sections.savings(summary)),
        ("paper", "Comparison with the paper", sections.paper(every, summary)),
        ("tasks", "Running tasks", sections.tasks(every, pictures)),
        ("cores", "Cores", sections.cores(every, pictures)),
        ("work", "Cores and work", regime_sections.work(every, summary)),
        ("regime", "The largest saving, by load", regime_sections.regimes(every, pictures)),
        ("reuse", "Users of shared tasks", sections.reuse(pictures)),
        ("defragmentation", "Defragmentation", sections.defragmentation(every, summary, pictures)),
        ("latency", "Latency over bridges", sections.latency(every, summary, pictures)),
        ("packing", "Packing and sharing", sections.packing(every, pictures)),
        ("tenants", "Costs of tenants", sections.tenants(every)),
        ("estimate", "Accuracy of the service's estimate", sections.estimate(summary)),
        ("made", "Origin of the figures", provenance.made(every)),
    )
    body = tag(
        "body",
        tag("header", tag("h1", "What sharing saves"), tag("p", _about(every), class_="soft"), _cards(summary)),
        tag(
            "nav",
            tag("ol", *(tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in shown)),
            aria_label="Sections",
        ),
        tag("main", *(_section(name, title, inside) for name, title, inside in shown)),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "What sharing saves"),
        tag("style", Html(style)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en', xmlns='http://www.w3.org/1999/xhtml')}\n"


def _section(name: str, title: str, inside: Html) -> Html:
    return tag("section", tag("h2", title, id=f"{name}-title"), inside, id=name, aria_labelledby=f"{name}-title")


def _about(every: Sequence[Runs]) -> str:
    dataflows: dict[str, int] = {}
    for runs in every:
        most = max(row.dataflows for row in next(runs.every).results.steps)
        dataflows[runs.workload] = max(most, dataflows.get(runs.workload, 0))
    workloads = " and ".join(f"{name} with up to {many} dataflows at once" for name, many in sorted(dataflows.items()))
    live = sum(len(runs.live) for runs in every)
    return (
        f"Dataflows of many tenants come and go. Their common tasks run once (reuse), or each dataflow runs by itself"
        f" (default). The report covers {workloads}: {sum(len(runs.dry) for runs in every)} dry replays, and {live} on"
        f" live services."
    )


def _cards(summary: Summary) -> Html:
    found = (
        ("Running tasks saved", values(summary, REUSE, lambda each: each.tasks_saved), "over all steps of each trace"),
        (
            "Saved at the peak",
            values(summary, REUSE, lambda each: each.tasks_saved_at_peak),
            "where most tasks would run",
        ),
        ("Work saved", values(summary, REUSE, lambda each: each.work_saved), "events times their cost, over all steps"),
        ("Cores saved", values(summary, REUSE, lambda each: each.cores_saved), "a job for each submission"),
        (
            "Cores saved, packed",
            values(summary, REUSE_PACKED, lambda each: each.cores_saved),
            "default packed as well",
        ),
    )
    return tag(
        "dl",
        *(
            tag("div", tag("dt", what), tag("dd", percent_range(those)), tag("dd", when), class_="card")
            for what, those, when in found
        ),
        class_="cards",
    )
