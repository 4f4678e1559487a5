"""The sections of a report's page: tables, figures and explanations. Pure."""

from collections.abc import Sequence
from statistics import fmean

from workloads.report.analysis.discarded_windows import discarded_windows
from workloads.report.analysis.findings import (
    against_packed_default,
    bridge_latency,
    consolidated_less_often,
    count_differences,
    crossover,
    defragmentation_effect,
    packing_and_sharing,
    reasons,
)
from workloads.report.analysis.means import tenant_cores
from workloads.report.analysis.paper_claims import CLAIMS, WHY, percent_range, values, verdict
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
from workloads.report.web_page.page_parts import NO_DATA, Pictures, figure, sentences
from workloads.way import Way


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
