"""The page of a report: one self-contained HTML file of sections, written with the figures and the summary beside it.

HTML is a string of a type of its own; other text is escaped when it is inserted. All but `write_report` is pure.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from json import dumps
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from workloads.report.findings import (
    NEAR,
    against_packed_default,
    bridge_latency,
    consolidated_less_often,
    cores_against_work,
    count_differences,
    crossover,
    defragmentation_effect,
    discarded_windows,
    missing_measurements,
    packing_and_sharing,
    reasons,
    regime_sentence,
)
from workloads.report.runs import Runs, read_runs, tenant_cores
from workloads.report.summary import (
    CLAIMS,
    WHY,
    Summary,
    cells,
    interval_of,
    number,
    part,
    part_of,
    percent_range,
    seconds,
    summary_of,
    values,
    verdict,
)
from workloads.traces import REUSE, REUSE_PACKED

VOID = frozenset({"br", "meta"})
"""Elements without an end tag."""
# A page may not contain these, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Text escaped as HTML; HTML stays as it is.

    >>> escaped("a < b"), escaped(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return text if isinstance(text, Html) else Html(html.escape(_FORBIDDEN.sub("\ufffd", text)))


def tag(name: str, /, *inside: str, **attributes: str | None) -> Html:
    """An element; attributes that are None are left out, and a trailing underscore is removed, as of `class_`.

    >>> tag("td", "1 < 2", class_="number", title=None)
    '<td class="number">1 &lt; 2</td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{given} />")
    return Html(f"<{name}{given}>{joined(*inside)}</{name}>")


def joined(*parts: str) -> Html:
    """Concatenate texts and HTML."""
    return Html("".join(map(escaped, parts)))


def table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, texts: int = 1) -> Html:
    """A table with a caption; the first `texts` columns are text, the first of them the headings of the rows."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *(tag("th", title, scope="col") for title in head))),
            tag("tbody", *(_row(row, texts) for row in rows)),
        ),
        class_="table",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def _row(row: tuple[str, ...], texts: int) -> Html:
    first, *others = row
    cells = (tag("td", cell, class_="number" if at >= texts else None) for at, cell in enumerate(others, start=1))
    return tag("tr", tag("th", first, scope="row"), *cells)


Pictures: TypeAlias = Mapping[str, tuple[str, Html]]
"""The title and the SVG of each figure, by name."""
NO_DATA = "These results contain no such data."


def figure(pictures: Pictures, name: str) -> Html:
    """A figure with its title; a note if it was not drawn."""
    if name not in pictures:
        return tag("p", NO_DATA, class_="soft")
    title, svg = pictures[name]
    return tag("figure", svg, tag("figcaption", title))


def sentences(texts: Iterable[str], otherwise: str) -> Html:
    """Sentences as a list; without any, the text `otherwise`."""
    listed = list(texts)
    if not listed:
        return tag("p", otherwise) if otherwise else Html()
    return tag("ul", *(tag("li", text) for text in listed))


def details(what: str, settings: Mapping[str, object]) -> Html:
    """Settings as JSON, folded."""
    if not settings:
        return Html()
    shown = dumps(settings, indent=2, ensure_ascii=False, default=str)
    return tag("details", tag("summary", what), tag("pre", shown))


def savings(summary: Summary) -> Html:
    """The saved tasks, work and cores for each workload, trace and way."""
    columns = {
        "tasks": "tasks (sources + steps + outputs)",
        "tasks saved": "tasks saved",
        "tasks saved at the peak": "at the peak",
        **{name: name for name in ("steps saved", "work saved", "jobs", "windows", "cores", "cores saved")},
        "cores saved at the peak": "at the peak",
    }
    rows = []
    for workload, trace, way, row in summary.rows():
        shown = cells(way, row)
        rows.append((f"{workload}, {trace}", way, *(shown[name] for name in columns)))
    return joined(
        tag(
            "p",
            "Savings are compared with the same placement without sharing, summed over the steps. The 95 % interval of"
            " the saved cores is in brackets; it comes from pairs of windows. A way is default or reuse; each"
            " submission has a job of its own, unless the way is packed or grafted. Work is the number of events times"
            " their cost at each task, and is exact for the rates of the sources. Shared tasks are near the sources,"
            " and rates add up where streams meet, so less of the work is saved than of the tasks.",
        ),
        table("Means over the steps, and savings", ("workload, trace", "way", *columns.values()), rows, texts=2),
    )


def paper(every: Sequence[Runs], summary: Summary) -> Html:
    """The paper's savings, those found here, and reasons for the differences."""
    rows = []
    for claim in CLAIMS:
        savings_here = values(summary, claim.way, claim.saved)
        rows.append(
            (
                f"{claim.quantity}, {claim.publication}",
                f"{100 * claim.low:.0f} to {100 * claim.high:.0f} %",
                percent_range(savings_here),
                verdict(claim, savings_here),
                percent_range(values(summary, claim.way, f"{claim.saved}_at_peak")),
            )
        )
    head = ("saving", "published", "found here over all steps", "of the traces", "found here at the peak")
    listed = list(reasons(every, summary))
    explained = joined(tag("p", WHY), sentences(listed, "")) if listed else tag("p", "Nothing was replayed both ways.")
    return joined(
        table("Savings in the paper and here", head, rows, texts=5),
        tag("h3", "Reasons for the differences"),
        explained,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A section of a paragraph, a figure and sentences; an empty one is left out."""

    name: str
    title: str
    about: str = ""
    figure: str = ""
    findings: Callable[[Sequence[Runs], Summary], Iterable[str | None]] = lambda _every, _summary: ()
    otherwise: str = ""
    """The text where nothing was found."""

    def html(self, every: Sequence[Runs], summary: Summary, pictures: Pictures) -> Html:
        """What is below the section's title."""
        return joined(
            tag("p", self.about) if self.about else "",
            figure(pictures, self.figure) if self.figure else "",
            sentences(filter(None, self.findings(every, summary)), self.otherwise),
        )


def _counts_compared(every: Sequence[Runs], _summary: Summary) -> list[str]:
    differences = [text for runs in every for text in count_differences(runs)]
    same = (
        "Live replays have the same running tasks, paused tasks, jobs and bridges as the dry replays, at every step or,"
        " with defragmentation, at every measured step."
    )
    return [same] if not differences and any(runs.dry.keys() & runs.live.keys() for runs in every) else differences


_SECTIONS = (
    _Section(name="tasks", title="Running tasks", figure="tasks-per-step", findings=_counts_compared),
    _Section(
        name="cores",
        title="Cores",
        about="The cores of all processes of the service with the broker, without the manager. Whiskers are 95 %"
        " intervals of a step's mean; the variance of the windows is pooled over all steps.",
        figure="cores-per-step",
        findings=lambda every, _: discarded_windows(every),
        otherwise="No window was discarded: no service was behind.",
    ),
    _Section(
        name="work",
        title="Cores and work",
        about="Work is the number of events times their cost, summed over all tasks. Sharing saves work. Cores follow"
        f" the work where it takes most of the CPU; here they count as following within {NEAR:g} percentage points.",
        findings=cores_against_work,
        otherwise=NO_DATA,
    ),
    _Section(
        name="regime",
        title="The largest saving, by load",
        about="This is a model: the cores are the number of batches times the cost of one, plus the work of the tasks."
        " Sharing saves work, and the batches of jobs that disappear, but it adds bridges. Packing saves batches."
        " Defragmenting saves the batches and bridges of jobs that sharing left scattered. So packing saves most"
        " where a batch holds little work, and sharing where it holds much. Lines are the model, dots are"
        " measurements, and from the vertical line on sharing saves more than packing.",
        figure="regimes",
        findings=lambda every, _: map(regime_sentence, every),
        otherwise=NO_DATA,
    ),
    _Section(
        name="reuse",
        title="Users of shared tasks",
        about="The part of all running tasks, weighted by their duration, that two, three, or more dataflows use. The"
        " rest serves one dataflow each.",
        figure="reuse-histogram",
    ),
    _Section(
        name="defragmentation",
        title="Defragmentation",
        about="The paper measures without defragmentation, and finds that paused tasks make sharing more expensive than"
        " not sharing late in the drain. Here consolidation also packs running DAGs into few jobs, so its saving"
        " compared with default is not due to sharing alone.",
        figure="defragmentation",
        findings=lambda every, summary: (
            text
            for runs in every
            for text in (
                defragmentation_effect(runs, summary),
                consolidated_less_often(runs),
                crossover(runs),
                against_packed_default(runs),
            )
        ),
    ),
    _Section(
        name="latency",
        title="Latency over bridges",
        about="The latency from a raw event's arrival to the outputs that it causes. If dataflows are launched, a"
        " shared stream crosses a bridge to every other job that needs it. If they are packed, most streams stay within"
        " a job.",
        figure="latency",
        findings=lambda every, summary: (bridge_latency(runs, summary) for runs in every),
    ),
    _Section(
        name="packing",
        title="Packing and sharing",
        about="Many dataflows in one job need fewer cores than each in its own, even if they share no tasks. This"
        " saving is due to packing and not to sharing, so the two are shown separately.",
        figure="packing-and-sharing",
        findings=lambda every, _: map(packing_and_sharing, every),
    ),
)


def tenants(every: Sequence[Runs]) -> Html:
    """Each tenant's share of the measured cores."""
    tables = [shares for runs in every if (shares := _tenants_of(runs))]
    intro = (
        "The measured cores are divided among the tenants whose dataflows use them, in cores and as a part of the"
        " total. The last row has the cores measured at the same steps, which the shares should add up to."
    )
    return joined(tag("p", intro), *tables) if tables else tag("p", NO_DATA, class_="soft")


def _tenants_of(runs: Runs) -> Html | None:
    shares = {way: share_of for way in runs.ways if (share_of := tenant_cores(runs, way))}
    if not shares:
        return None
    names = sorted(
        {name for shares_of_way in shares.values() for name in shares_of_way},
        key=lambda name: (name is None, name or ""),
    )
    wholes = {way: sum(shares_of_way.values()) for way, shares_of_way in shares.items()}
    rows = [
        (
            "the operator's overhead" if name is None else name,
            *(_of_whole(shares_of_way.get(name, 0.0), wholes[way]) for way, shares_of_way in shares.items()),
        )
        for name in names
    ]
    rows.append(("total", *(number(whole, 3) for whole in wholes.values())))
    rows.append(("measured", *(number(fmean(runs.cores(way).values()), 3) for way in shares)))
    return table(f"{runs.name}: means over the measured steps", ("tenant", *(way.name for way in shares)), rows)


def _of_whole(cores: float, whole: float) -> str:
    return f"{number(cores, 3)} ({part(cores / whole if whole else None)})"


def estimate(summary: Summary) -> Html:
    """The service's estimate of the cores without sharing, compared with the measurement."""
    rows = [
        (f"{workload}, {trace}", way, row.against, part_of(error))
        for workload, trace, way, row in summary.rows()
        if (error := interval_of(row, "estimate_error")) is not None
    ]
    if not rows:
        return tag("p", NO_DATA, class_="soft")
    head = ("workload, trace", "estimated by", "measured with", "error")
    return joined(
        tag(
            "p",
            "A service that shares tasks estimates the cores that the same dataflows would need without sharing. This"
            " table compares the estimate with the cores measured without sharing, at the same steps.",
        ),
        table("Error of the estimate; above 0 it is too high", head, rows, texts=3),
    )


def made(every: Sequence[Runs]) -> Html:
    """The replays, the method, and missing measurements."""
    rows = [
        (
            runs.name,
            run.way.name,
            "dry" if run.results.manifest.dry else "live",
            run.results.manifest.begun,
            str(run.results.manifest.trace["seed"]),
            str(len(run.results.steps)),
            str(len(run.results.windows)),
            seconds(fmean(row.seconds for row in run.results.windows)) if run.results.windows else "",
        )
        for runs in every
        for run in runs.every
    ]
    head = ("workload, trace", "way", "kind", "start", "seed", "steps", "windows", "length")
    first = next(every[0].every).results.manifest
    workloads = {runs.workload: next(runs.every).results.manifest.workload for runs in every}
    settings = {
        f"{runs.name}, {way.name}": run.results.manifest.settings for runs in every for way, run in runs.live.items()
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


def page(every: Sequence[Runs], summary: Summary, pictures: Pictures, style: str) -> str:
    """The complete page."""
    shown = (
        ("savings", "Savings", savings(summary)),
        ("paper", "Comparison with the paper", paper(every, summary)),
        *((section.name, section.title, section.html(every, summary, pictures)) for section in _SECTIONS),
        ("tenants", "Costs of tenants", tenants(every)),
        ("estimate", "Accuracy of the service's estimate", estimate(summary)),
        ("made", "Origin of the figures", made(every)),
    )
    listed = (tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in shown)
    sections = (
        tag("section", tag("h2", title, id=f"{name}-title"), inside, id=name, aria_labelledby=f"{name}-title")
        for name, title, inside in shown
    )
    body = tag(
        "body",
        tag("header", tag("h1", "What sharing saves"), tag("p", _about(every), class_="soft"), _cards(summary)),
        tag("nav", tag("ol", *listed), aria_label="Sections"),
        tag("main", *sections),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "What sharing saves"),
        tag("style", Html(style)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en', xmlns='http://www.w3.org/1999/xhtml')}\n"


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


_CARDS = (
    ("Running tasks saved", REUSE, "tasks_saved", "over all steps of each trace"),
    ("Saved at the peak", REUSE, "tasks_saved_at_peak", "where most tasks would run"),
    ("Work saved", REUSE, "work_saved", "events times their cost, over all steps"),
    ("Cores saved", REUSE, "cores_saved", "a job for each submission"),
    ("Cores saved, packed", REUSE_PACKED, "cores_saved", "default packed as well"),
)


def _cards(summary: Summary) -> Html:
    return tag(
        "dl",
        *(
            tag("div", tag("dt", what), tag("dd", percent_range(saved)), tag("dd", when), class_="card")
            for what, saved, when in ((what, values(summary, way, name), when) for what, way, name, when in _CARDS)
        ),
        class_="cards",
    )


REPORT_PAGE = "report.html"
SUMMARY = "summary.json"


def write_report(results: Sequence[Path], into: Path) -> Summary:
    """Write a page on results folders, with its figures (`.svg`, `.png`) and `summary.json` beside it."""
    from workloads.report.drawings import pictures_of  # noqa: PLC0415 - matplotlib takes a second to load

    every = read_runs(results)
    summary = summary_of(every)
    path = page_in(into)
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    style = files("workloads.report").joinpath("page.css").read_text(encoding="utf-8")
    path.write_text(page(every, summary, pictures_of(every, folder), style), encoding="utf-8")
    text = dumps(summary.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
    return summary


def page_in(into: Path) -> Path:
    """The path of the page: `into` itself if it ends in `.html`, else a file in that folder.

    >>> page_in(Path("a/b.html")).as_posix(), page_in(Path("a")).as_posix()
    ('a/b.html', 'a/report.html')
    """
    return into if into.suffix == ".html" else into / REPORT_PAGE
