"""The page of a report: one self-contained HTML file of sections, written with the figures and the summary beside it.

HTML is a string of a type of its own; other text is escaped when it is inserted. All but `write_report` is pure.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
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
    cores_saving,
    error_of,
    number,
    part,
    part_of,
    percent_range,
    seconds,
    summary_of,
    tasks_by_kind,
    values,
    verdict,
    windows_counted,
)
from workloads.traces import REUSE, REUSE_PACKED, Way

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
            tag("thead", tag("tr", *(tag("th", each, scope="col") for each in head))),
            tag("tbody", *(_row(row, texts) for row in rows)),
        ),
        class_="table",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def _row(row: tuple[str, ...], texts: int) -> Html:
    first, *others = row
    cells = (tag("td", each, class_="number" if at >= texts else None) for at, each in enumerate(others, start=1))
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


def sentences(found: Iterable[str], otherwise: str) -> Html:
    """Sentences as a list; without any, the text `otherwise`."""
    listed = list(found)
    if not listed:
        return tag("p", otherwise) if otherwise else Html()
    return tag("ul", *(tag("li", each) for each in listed))


def details(what: str, settings: Mapping[str, object]) -> Html:
    """Settings as JSON, folded."""
    if not settings:
        return Html()
    shown = dumps(settings, indent=2, ensure_ascii=False, default=str)
    return tag("details", tag("summary", what), tag("pre", shown))


def savings(summary: Summary) -> Html:
    """The saved tasks, work and cores for each workload, trace and way."""
    rows = [
        (
            f"{workload}, {trace}",
            way,
            tasks_by_kind(each),
            "" if way == each.against else part(each.tasks_saved),
            "" if way == each.against else part(each.tasks_saved_at_peak),
            "" if way == each.against else part(each.steps_saved),
            "" if way == each.against else part(each.work_saved),
            number(each.jobs_mean, 1),
            windows_counted(each),
            number(each.cores_mean, 3),
            "" if way == each.against else part_of(cores_saving(each)),
            "" if way == each.against else part(each.cores_saved_at_peak),
        )
        for workload, traces in summary.workloads.items()
        for trace, ways in traces.items()
        for way, each in ways.items()
    ]
    head = (
        "workload, trace",
        "way",
        "tasks (sources + steps + outputs)",
        "tasks saved",
        "at the peak",
        "steps saved",
        "work saved",
        "jobs",
        "windows",
        "cores",
        "cores saved",
        "at the peak",
    )
    return joined(
        tag(
            "p",
            "Savings are compared with the same placement without sharing, summed over the steps. The 95 % interval of"
            " the saved cores is in brackets; it comes from pairs of windows. A way is default or reuse; each"
            " submission has a job of its own, unless the way is packed or grafted. Work is the number of events times"
            " their cost at each task, and is exact for the rates of the sources. Shared tasks are near the sources,"
            " and rates add up where streams meet, so less of the work is saved than of the tasks.",
        ),
        table("Means over the steps, and savings", head, rows, texts=2),
    )


def paper(every: Sequence[Runs], summary: Summary) -> Html:
    """The paper's savings, those found here, and reasons for the differences."""
    rows = []
    for claim in CLAIMS:
        found, at_peak = values(summary, claim.way, claim.found), values(summary, claim.way, claim.at_peak)
        claimed = f"{100 * claim.low:.0f} to {100 * claim.high:.0f} %"
        rows.append(
            (
                f"{claim.what}, {claim.by}",
                claimed,
                percent_range(found),
                verdict(claim, found),
                percent_range(at_peak),
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


def tasks(every: Sequence[Runs], pictures: Pictures) -> Html:
    """The running tasks after each step, and a comparison of live and dry counts."""
    differences = [text for runs in every for text in count_differences(runs)]
    compared = [runs for runs in every if runs.dry.keys() & runs.live.keys()]
    same = (
        "Live replays have the same running tasks, paused tasks, jobs and bridges as the dry replays, at every step or,"
        " with defragmentation, at every measured step."
    )
    found = [same] if compared and not differences else differences
    return joined(figure(pictures, "tasks-per-step"), sentences(found, ""))


def cores(every: Sequence[Runs], pictures: Pictures) -> Html:
    """The cores at each measured step, and the discarded windows."""
    return joined(
        tag(
            "p",
            "The cores of all processes of the service with the broker, without the manager. Whiskers are 95 %"
            " intervals of a step's mean; the variance of the windows is pooled over all steps.",
        ),
        figure(pictures, "cores-per-step"),
        sentences(discarded_windows(every), "No window was discarded: no service was behind."),
    )


def reuse(pictures: Pictures) -> Html:
    """The part of the running tasks by the number of dataflows that use them."""
    return joined(
        tag(
            "p",
            "The part of all running tasks, weighted by their duration, that two, three, or more dataflows use. The"
            " rest serves one dataflow each.",
        ),
        figure(pictures, "reuse-histogram"),
    )


def defragmentation(every: Sequence[Runs], summary: Summary, pictures: Pictures) -> Html:
    """The effect of defragmentation, also on the crossover late in the drain."""
    found = [
        text
        for runs in every
        for text in (
            defragmentation_effect(runs, summary),
            consolidated_less_often(runs),
            crossover(runs),
            against_packed_default(runs),
        )
        if text
    ]
    return joined(
        tag(
            "p",
            "The paper measures without defragmentation, and finds that paused tasks make sharing more expensive than"
            " not sharing late in the drain. Here consolidation also packs running DAGs into few jobs, so its saving"
            " compared with default is not due to sharing alone.",
        ),
        figure(pictures, "defragmentation"),
        sentences(found, ""),
    )


def latency(every: Sequence[Runs], summary: Summary, pictures: Pictures) -> Html:
    """The latency with and without bridges."""
    found = [text for runs in every if (text := bridge_latency(runs, summary))]
    return joined(
        tag(
            "p",
            "The latency from a raw event's arrival to the outputs that it causes. If dataflows are launched, a shared"
            " stream crosses a bridge to every other job that needs it. If they are packed, most streams stay within a"
            " job.",
        ),
        figure(pictures, "latency"),
        sentences(found, ""),
    )


def packing(every: Sequence[Runs], pictures: Pictures) -> Html:
    """The savings of packing and of sharing, separately."""
    found = [text for runs in every if (text := packing_and_sharing(runs))]
    return joined(
        tag(
            "p",
            "Many dataflows in one job need fewer cores than each in its own, even if they share no tasks. This saving"
            " is due to packing and not to sharing, so the two are shown separately.",
        ),
        figure(pictures, "packing-and-sharing"),
        sentences(found, ""),
    )


def tenants(every: Sequence[Runs]) -> Html:
    """Each tenant's share of the measured cores."""
    found = [shares for runs in every if (shares := _tenants_of(runs))]
    intro = (
        "The measured cores are divided among the tenants whose dataflows use them, in cores and as a part of the"
        " total. The last row has the cores measured at the same steps, which the shares should add up to."
    )
    return joined(tag("p", intro), *found) if found else tag("p", NO_DATA, class_="soft")


def _tenants_of(runs: Runs) -> Html | None:
    shares = {way: found for way in runs.ways if (found := tenant_cores(runs, way))}
    if not shares:
        return None
    names = sorted({name for found in shares.values() for name in found}, key=lambda name: (name is None, name or ""))
    wholes = {way: sum(found.values()) for way, found in shares.items()}
    rows = [
        (
            "the operator's overhead" if name is None else name,
            *(_of_whole(found.get(name, 0.0), wholes[way]) for way, found in shares.items()),
        )
        for name in names
    ]
    rows.append(("total", *(number(whole, 3) for whole in wholes.values())))
    rows.append(("measured", *(number(fmean(runs.cores(way).values()), 3) for way in shares)))
    return table(
        f"{runs.workload}, {runs.trace}: means over the measured steps", ("tenant", *map(_named, shares)), rows
    )


def _named(way: Way) -> str:
    return way.name


def _of_whole(cores: float, whole: float) -> str:
    return f"{number(cores, 3)} ({part(cores / whole if whole else None)})"


def estimate(summary: Summary) -> Html:
    """The service's estimate of the cores without sharing, compared with the measurement."""
    rows = [
        (f"{workload}, {trace}", way, each.against, part_of(error))
        for workload, traces in summary.workloads.items()
        for trace, ways in traces.items()
        for way, each in ways.items()
        if (error := error_of(each)) is not None
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


def work(every: Sequence[Runs], summary: Summary) -> Html:
    """The saved cores compared with the saved work."""
    return joined(
        tag(
            "p",
            "Work is the number of events times their cost, summed over all tasks. Sharing saves work. Cores follow the"
            f" work where it takes most of the CPU; here they count as following within {NEAR:g} percentage points.",
        ),
        sentences(cores_against_work(every, summary), NO_DATA),
    )


def regimes(every: Sequence[Runs], pictures: Pictures) -> Html:
    """The savings of sharing, packing and defragmenting, by the work in a batch."""
    found = [text for runs in every if (text := regime_sentence(runs))]
    return joined(
        tag(
            "p",
            "This is a model: the cores are the number of batches times the cost of one, plus the work of the tasks."
            " Sharing saves work, and the batches of jobs that disappear, but it adds bridges. Packing saves batches."
            " Defragmenting saves the batches and bridges of jobs that sharing left scattered. So packing saves most"
            " where a batch holds little work, and sharing where it holds much. Lines are the model, dots are"
            " measurements, and from the vertical line on sharing saves more than packing.",
        ),
        figure(pictures, "regimes"),
        sentences(found, NO_DATA),
    )


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


def page(every: Sequence[Runs], summary: Summary, pictures: Pictures, style: str) -> str:
    """The complete page."""
    shown = (
        ("savings", "Savings", savings(summary)),
        ("paper", "Comparison with the paper", paper(every, summary)),
        ("tasks", "Running tasks", tasks(every, pictures)),
        ("cores", "Cores", cores(every, pictures)),
        ("work", "Cores and work", work(every, summary)),
        ("regime", "The largest saving, by load", regimes(every, pictures)),
        ("reuse", "Users of shared tasks", reuse(pictures)),
        ("defragmentation", "Defragmentation", defragmentation(every, summary, pictures)),
        ("latency", "Latency over bridges", latency(every, summary, pictures)),
        ("packing", "Packing and sharing", packing(every, pictures)),
        ("tenants", "Costs of tenants", tenants(every)),
        ("estimate", "Accuracy of the service's estimate", estimate(summary)),
        ("made", "Origin of the figures", made(every)),
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


REPORT_PAGE = "report.html"
SUMMARY = "summary.json"


def write_report(results: Sequence[Path], into: Path) -> Summary:
    """Write a page on results folders, with its figures (`.svg`, `.png`) and `summary.json` beside it."""
    from workloads.report.drawings import figures_of, write_figure  # noqa: PLC0415 - matplotlib takes a second to load

    every = read_runs(results)
    summary = summary_of(every)
    path = page_in(into)
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: (figure.title, write_figure(figure, folder)) for name, figure in figures_of(every).items()}
    style = files("workloads.report").joinpath("page.css").read_text(encoding="utf-8")
    path.write_text(page(every, summary, pictures, style), encoding="utf-8")
    text = dumps(summary.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
    return summary


def page_in(into: Path) -> Path:
    """The path of the page: `into` itself if it ends in `.html`, else a file in that folder.

    >>> page_in(Path("a/b.html")).as_posix(), page_in(Path("a")).as_posix()
    ('a/b.html', 'a/report.html')
    """
    return into if into.suffix == ".html" else into / REPORT_PAGE
