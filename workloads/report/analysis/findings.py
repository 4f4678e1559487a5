"""What follows from the numbers, in sentences: beside the paper's figures, on defragmentation, on packing. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from workloads.report.analysis.means import job_cores, packed_or_shared
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary, WaySummary, part
from workloads.traces.trace_file import TracePhase
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A range of savings that the paper, or its journal version, tells."""

    what: str
    by: str
    low: float
    high: float
    way: Way
    """The way that stands for it here."""
    found: Callable[[WaySummary], float | None]
    at_peak: Callable[[WaySummary], float | None]


def _tasks(each: WaySummary) -> float | None:
    return each.tasks_saved


def _tasks_at_peak(each: WaySummary) -> float | None:
    return each.tasks_saved_at_peak


def _cores(each: WaySummary) -> float | None:
    return each.cores_saved


def _cores_at_peak(each: WaySummary) -> float | None:
    return each.cores_saved_at_peak


def _claim(what: str, by: str, low: float, high: float, way: Way) -> Claim:
    found, at_peak = (_tasks, _tasks_at_peak) if what == _TASKS else (_cores, _cores_at_peak)
    return Claim(what=what, by=by, low=low, high=high, way=way, found=found, at_peak=at_peak)


_TASKS = "running tasks"
CLAIMS = (
    _claim(_TASKS, "paper", 0.38, 0.46, REUSE),
    _claim(_TASKS, "journal version", 0.34, 0.45, REUSE),
    _claim("CPU", "paper", 0.36, 0.51, REUSE),
    _claim("CPU", "journal version", 0.29, 0.63, REUSE),
    _claim("cost with defragmentation", "journal version", 0.36, 0.44, DEFRAGMENTED),
)
WHY = (
    "In the paper each task is a thread of its own that works on every event, so that CPU goes with the tasks. Here"
    " tasks run within jobs, and a job's micro-batches cost something whatever they hold: that part goes with the"
    " number of jobs, and sharing saves of it only as far as it saves jobs. How many tasks can be saved is a matter of"
    " what the dataflows of a workload have in common, and of how many of them run at a time."
)
"""Why savings of tasks and of cores differ, whatever the numbers are."""


def values(summary: Summary, way: Way, found: Callable[[WaySummary], float | None]) -> list[float]:
    """What was found of a way over all workloads and traces."""
    every = (ways.get(way.name) for traces in summary.workloads.values() for ways in traces.values())
    return [value for each in every if each is not None and (value := found(each)) is not None]


def changed(saved: float) -> str:
    """How much fewer, or more.

    >>> changed(0.336), changed(-0.031)
    ('33.6 % fewer', '3.1 % more')
    """
    return f"{part(abs(saved))} {'more' if saved < 0 else 'fewer'}"


def span(found: Sequence[float]) -> str:
    """A range of parts.

    >>> span([0.38, 0.4611]), span([0.2]), span([])
    ('38.0 to 46.1 %', '20.0 %', 'not measured')
    """
    if not found:
        return "not measured"
    low, high = f"{100 * min(found):.1f}", f"{100 * max(found):.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def verdict(claim: Claim, found: Sequence[float]) -> str:
    """How what was found lies to what was claimed."""
    if not found:
        return "not measured here"
    inside = sum(claim.low <= each <= claim.high for each in found)
    below = sum(each < claim.low for each in found)
    told = ((inside, "within"), (below, "below"), (len(found) - inside - below, "above"))
    return ", ".join(f"{count} of {len(found)} {where}" for count, where in told if count)


def reasons(every: Sequence[Runs], summary: Summary) -> Iterator[str]:
    """For each workload and trace what the savings come from, as far as the numbers say it."""
    for runs in every:
        of = summary.workloads[runs.workload][runs.trace]
        default, shared = of.get(DEFAULT.name), of.get(REUSE.name)
        if default is None or shared is None:
            continue
        yield f"{runs.workload}, {runs.trace}: {_about_tasks(runs, shared)}{_about_cores(runs, default, shared)}"


def crossing(runs: Runs) -> str | None:
    """Whether sharing takes more than not sharing late in a trace, with defragmentation and without."""
    default, shared, tidied = (runs.cores(way) for way in (DEFAULT, REUSE, DEFRAGMENTED))
    drain = {row.step for row in runs.counts(REUSE) if row.phase == TracePhase.DRAIN}
    common = sorted(drain & default.keys() & shared.keys())
    name = f"{runs.workload}, {runs.trace}"
    if not common:
        return None
    more = [step for step in common if shared[step] > default[step]]
    many = f"{len(common)} step{'s' if len(common) > 1 else ''}"
    told = f"{name}: {many} of the drain measured; reuse takes more cores than default at "
    told += _steps(more, runs, REUSE)
    both = [step for step in common if step in tidied]
    if not both:
        return f"{told}. With defragmentation this was not measured."
    still = [step for step in both if tidied[step] > default[step]]
    told += f"; with defragmentation at {_steps(still, runs, DEFRAGMENTED)}"
    if more and not still:
        return f"{told}: the paper's crossover is there without defragmentation, and gone with it."
    if more:
        return f"{told}: the crossover is there, and not gone with defragmentation."
    if still:
        return f"{told}: there is no crossover without defragmentation, but one with it, for which the moves account."
    return f"{told}: there is no crossover to be cured."


def moved(runs: Runs, summary: Summary) -> str | None:
    """What defragmentation leaves of jobs and paused tasks, which are counted at every step."""
    of = summary.workloads[runs.workload][runs.trace]
    before, after = of.get(REUSE.name), of.get(DEFRAGMENTED.name)
    if before is None or after is None:
        return None
    return (
        f"{runs.workload}, {runs.trace}: in the mean over all steps {before.jobs_mean:.1f} jobs become"
        f" {after.jobs_mean:.1f}, {before.bridges_mean:.1f} bridges {after.bridges_mean:.1f},"
        f" and {before.paused_mean:.1f} paused tasks {after.paused_mean:.1f}."
    )


def bridged(runs: Runs, summary: Summary) -> str | None:
    """What a stream's way over bridges adds to the latency."""
    of = summary.workloads[runs.workload][runs.trace]
    launched, packed = of.get(REUSE.name), of.get(REUSE_PACKED.name)
    if launched is None or packed is None or launched.latency_p50 is None or packed.latency_p50 is None:
        return None
    more = launched.latency_p50 - packed.latency_p50
    return (
        f"{runs.workload}, {runs.trace}: launched, with {launched.bridges_mean:.1f} bridges in the mean, the median"
        f" latency is {launched.latency_p50:.2f} s; packed, with {packed.bridges_mean:.1f}, it is"
        f" {packed.latency_p50:.2f} s, which is {abs(more):.2f} s {'less' if more > 0 else 'more'}."
    )


def apart(runs: Runs) -> str | None:
    """What packing saves alone, sharing alone, and both."""
    found = packed_or_shared(runs)
    if DEFAULT not in found or DEFAULT_PACKED not in found or not found[DEFAULT]:
        return None
    told = (
        f"{runs.workload}, {runs.trace}: packing alone, with nothing shared, saves"
        f" {part(1 - found[DEFAULT_PACKED] / found[DEFAULT])} of the cores of default."
    )
    if REUSE in found:
        told += (
            f" Sharing alone, with every residue in a job of its own, saves {part(1 - found[REUSE] / found[DEFAULT])}."
        )
    if REUSE_PACKED in found:
        told += (
            f" Sharing among packed dataflows saves {part(1 - found[REUSE_PACKED] / found[DEFAULT_PACKED])} more of"
            f" what packing leaves, and both together {part(1 - found[REUSE_PACKED] / found[DEFAULT])}."
        )
    told += _in_turn(runs, DEFAULT, DEFAULT_PACKED)
    return told


def fairly(runs: Runs) -> str | None:
    """What is left of a defragmented trace's saving where the dataflows that share nothing are packed as well."""
    tidied, packed = runs.cores(DEFRAGMENTED), runs.cores(DEFAULT_PACKED)
    common = sorted(tidied.keys() & packed.keys())
    if not common:
        return None
    less = 1 - fmean(tidied[step] for step in common) / fmean(packed[step] for step in common)
    told = (
        f"{runs.workload}, {runs.trace}: against dataflows that share nothing but are packed, reuse with"
        f" defragmentation takes {part(abs(less))} {'less' if less > 0 else 'more'}."
    )
    return told + _in_turn(runs, DEFRAGMENTED, DEFAULT_PACKED)


def hurried(runs: Runs) -> str | None:
    """That a live replay was consolidated less often than its dry one."""
    run = runs.live.get(DEFRAGMENTED)
    if run is None or not run.results.manifest.settings.get("hurry"):
        return None
    return (
        f"{runs.workload}, {runs.trace}: the live replay was consolidated at measured steps only, and not after every"
        " step as the dry one was."
    )


def agreement(runs: Runs) -> Iterator[str]:
    """Whether live runs have the counts of the dry ones."""
    for way, live in runs.live.items():
        dry = runs.dry.get(way)
        if dry is None:
            continue
        # A replay in a hurry asks for a defragmentation at measured steps only.
        pairs = [
            (one, other)
            for one, other in zip(dry.results.steps, live.results.steps, strict=True)
            if way.defragment == "off" or other.measured
        ]
        for what in ("running_tasks", "paused_tasks", "jobs", "bridges"):
            other = [one.step + 1 for one, two in pairs if getattr(one, what) != getattr(two, what)]
            if other:
                yield (
                    f"{runs.workload}, {runs.trace}, {way.name}: the {what.replace('_', ' ')} of the live run are not"
                    f" those of the dry run at {len(other)} of {len(pairs)} steps, first at step {other[0]}."
                )


def missing(every: Sequence[Runs]) -> Iterator[str]:
    """Which combinations nothing is said of."""
    for runs in every:
        for way in (DEFAULT, REUSE):
            if not runs.counts(way):
                yield f"{runs.workload}, {runs.trace}: {way.name} was not replayed."
        for way in (DEFAULT, REUSE, DEFRAGMENTED, DEFAULT_PACKED, REUSE_PACKED):
            if not runs.windows(way):
                yield f"{runs.workload}, {runs.trace}: cores and latency of {way.name} were not measured."


def _about_tasks(runs: Runs, shared: WaySummary) -> str:
    """How many tasks are saved, and what bounds that."""
    most = max(row.dataflows for row in runs.counts(REUSE))
    total, at_peak = shared.tasks_saved or 0.0, shared.tasks_saved_at_peak or 0.0
    told = (
        f"where most tasks run, with up to {most} dataflows, sharing has {changed(at_peak)} tasks, and over the whole"
        f" trace {changed(total)}"
    )
    if at_peak > total:
        told += ", since fewer dataflows have less in common"
    between = shared.tasks_saved_between or 0.0
    if between < total - 0.005:
        told += f"; {changed(between)} against dataflows without the duplicates within each, which are collapsed too"
    return f"{told}."


def _about_cores(runs: Runs, default: WaySummary, shared: WaySummary) -> str:
    """How many cores are saved, and what of them goes with jobs rather than with tasks."""
    if shared.cores_saved is None or not default.jobs_mean or shared.jobs_mean is None:
        return ""
    fewer_jobs = 1 - shared.jobs_mean / default.jobs_mean
    told = f" With {changed(fewer_jobs)} jobs in the mean it takes {changed(shared.cores_saved)} cores."
    if fewer_jobs < (shared.tasks_saved or 0.0):
        told += " A job runs on as long as anybody needs one of its tasks, so jobs are not saved as tasks are."
    cost = job_cores(runs)
    if cost is not None:
        a_job, of_default = cost
        told += (
            f" A job takes {a_job:.3f} cores whatever it holds (default launched against default packed: the same"
            f" tasks in fewer jobs), and all jobs together {part(of_default)} of what default takes."
        )
    return told


def _in_turn(runs: Runs, one: Way, other: Way) -> str:
    """That two ways were not measured side by side, if they were not."""
    first, second = (runs.live[way].results.manifest for way in (one, other))
    if first.ended and second.ended and max(first.begun, second.begun) <= min(first.ended, second.ended):
        return ""
    return " The two were measured one after the other, not side by side."


def _steps(more: Sequence[int], runs: Runs, way: Way) -> str:
    """Which steps these are, and at how many the intervals lie apart."""
    if not more:
        return "none"
    listed = ", ".join(str(step + 1) for step in more)
    surely = sum(_apart(runs, way, step) for step in more)
    return f"{len(more)} of them (after step {listed}; with intervals that lie apart at {surely or 'none'})"


def _apart(runs: Runs, way: Way, step: int) -> bool:
    without, shared = runs.estimates(DEFAULT)[step], runs.estimates(way)[step]
    return without.high is not None and shared.low is not None and shared.low > without.high
