"""The sections of a report's page: what each shows, and the sentences around it. Pure."""

from collections.abc import Sequence
from statistics import fmean

from workloads.report.analysis.discarded_windows import thrown_away
from workloads.report.analysis.findings import (
    CLAIMS,
    WHY,
    agreement,
    apart,
    bridged,
    crossing,
    fairly,
    hurried,
    moved,
    reasons,
    span,
    values,
    verdict,
)
from workloads.report.analysis.means import tenant_cores
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import (
    Summary,
    cores_saving,
    error_of,
    number,
    part,
    part_of,
    tasks_by_kind,
    windows_counted,
)
from workloads.report.web_page.html_tags import Html, joined, table, tag
from workloads.report.web_page.page_parts import NOTHING, Pictures, figure, sentences
from workloads.way import Way


def savings(summary: Summary) -> Html:
    """What was saved of tasks, work and cores, for each workload, trace and way."""
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
            "Savings are told against the same placement without sharing: what was used with sharing, added up over the"
            " steps, against what was used without. In brackets stands the 95 % interval of the cores saved, from"
            " windows measured in pairs. A way is default or reuse, with a job for each residue unless it says packed"
            " or grafted. Work is events times what one costs at each task, and exact for the rates of the sources."
            " Shared tasks lie near the sources, and rates add up where streams meet, so that less of the work is saved"
            " than of the tasks.",
        ),
        table("Means over the steps, and what is saved", head, rows, texts=2),
    )


def paper(every: Sequence[Runs], summary: Summary) -> Html:
    """The ranges that the paper tells, beside those found here, and why they differ."""
    rows = []
    for claim in CLAIMS:
        found, at_peak = values(summary, claim.way, claim.found), values(summary, claim.way, claim.at_peak)
        told = f"{100 * claim.low:.0f} to {100 * claim.high:.0f} %"
        rows.append((f"{claim.what}, {claim.by}", told, span(found), verdict(claim, found), span(at_peak)))
    head = ("less", "told", "found over all steps", "of the traces", "found at the peak")
    said = list(reasons(every, summary))
    explained = joined(tag("p", WHY), sentences(said, "")) if said else tag("p", "Nothing was replayed both ways.")
    return joined(
        table("What the paper says is saved, and what was found here", head, rows, texts=5),
        tag("h3", "Where they differ, and why"),
        explained,
    )


def tasks(every: Sequence[Runs], pictures: Pictures) -> Html:
    """Running tasks after each step, and whether live runs have the counts of dry ones."""
    differing = [told for runs in every for told in agreement(runs)]
    compared = [runs for runs in every if runs.dry.keys() & runs.live.keys()]
    same = (
        "Where a trace was replayed live as well, running tasks, paused tasks, jobs and bridges are those of the dry"
        " run, at every step, or with defragmentation at every measured one."
    )
    said = [same] if compared and not differing else differing
    return joined(figure(pictures, "tasks-per-step"), sentences(said, ""))


def cores(every: Sequence[Runs], pictures: Pictures) -> Html:
    """Cores at each measured step, and which windows do not count."""
    return joined(
        tag(
            "p",
            "Cores of all processes of the service, the broker included and the manager apart. Whiskers are 95 %"
            " intervals of a step's mean; the scatter of the windows is pooled over all steps.",
        ),
        figure(pictures, "cores-per-step"),
        sentences(thrown_away(every), "No window was thrown away: no service was behind."),
    )


def reuse(pictures: Pictures) -> Html:
    """Which part of the running tasks so many dataflows use."""
    return joined(
        tag(
            "p",
            "Of all running tasks, weighed by how long they ran, the part that so many dataflows use; the rest serves"
            " one.",
        ),
        figure(pictures, "reuse-histogram"),
    )


def defragmentation(every: Sequence[Runs], summary: Summary, pictures: Pictures) -> Html:
    """What defragmentation leaves, and whether the crossover late in the drain is gone with it."""
    said = [
        told for runs in every for told in (moved(runs, summary), hurried(runs), crossing(runs), fairly(runs)) if told
    ]
    return joined(
        tag(
            "p",
            "The paper measures without defragmentation, and finds that late in the drain paused tasks make sharing"
            " dearer than not sharing. Here consolidation packs running DAGs into few jobs as well, so that what it"
            " saves against default is not a saving of sharing alone.",
        ),
        figure(pictures, "defragmentation"),
        sentences(said, ""),
    )


def latency(every: Sequence[Runs], summary: Summary, pictures: Pictures) -> Html:
    """Latency where streams cross bridges, and where they do not."""
    said = [told for runs in every if (told := bridged(runs, summary))]
    return joined(
        tag(
            "p",
            "From a raw event's arrival to the outputs that it causes. Launched, a shared stream crosses a bridge to"
            " every other job that needs it; packed, most streams stay within a job.",
        ),
        figure(pictures, "latency"),
        sentences(said, ""),
    )


def packing(every: Sequence[Runs], pictures: Pictures) -> Html:
    """What packing saves and what sharing saves, apart."""
    said = [told for runs in every if (told := apart(runs))]
    return joined(
        tag(
            "p",
            "Many dataflows in one job take less than each in its own, whether they share tasks or not. What packing"
            " saves is not a saving of sharing, so the two are told apart here.",
        ),
        figure(pictures, "packing-and-sharing"),
        sentences(said, ""),
    )


def tenants(every: Sequence[Runs]) -> Html:
    """Each tenant's share of what was measured."""
    found = [told for runs in every if (told := _tenants_of(runs))]
    intro = (
        "What was measured is shared out among those whose dataflows use it, in cores, and as a part of the whole."
        " Below stands what was measured at the same steps, which the shares are to add up to."
    )
    return joined(tag("p", intro), *found) if found else tag("p", NOTHING, class_="soft")


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
    rows.append(("all", *(number(whole, 3) for whole in wholes.values())))
    rows.append(("measured", *(number(fmean(runs.cores(way).values()), 3) for way in shares)))
    return table(
        f"{runs.workload}, {runs.trace}: means over the measured steps", ("tenant", *map(_named, shares)), rows
    )


def _named(way: Way) -> str:
    return way.name


def _of_whole(cores: float, whole: float) -> str:
    return f"{number(cores, 3)} ({part(cores / whole if whole else None)})"


def estimate(summary: Summary) -> Html:
    """The service's estimate of what is needed without sharing, set against what was measured."""
    rows = [
        (f"{workload}, {trace}", way, each.against, part_of(error))
        for workload, traces in summary.workloads.items()
        for trace, ways in traces.items()
        for way, each in ways.items()
        if (error := error_of(each)) is not None
    ]
    if not rows:
        return tag("p", NOTHING, class_="soft")
    head = ("workload, trace", "estimated while running", "measured as", "error")
    return joined(
        tag(
            "p",
            "A service that shares estimates what the same dataflows would need without sharing. Here that is set"
            " against what they did need then, at the same steps.",
        ),
        table("By how much the estimate is too high, or below 0 too low", head, rows, texts=3),
    )
