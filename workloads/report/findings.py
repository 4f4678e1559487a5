"""Findings from the numbers, as sentences. Pure.

They are about savings, the crossover, defragmentation, bridges and packing; about regimes, cores beside work, and
windows that were discarded because a service was behind.

A regime is the model's savings by the counts of a trace, beside the measured savings. The counts and the saved part of
the work are means over the measured steps, or over all steps of a trace that was only counted. The cost of a batch is
measured if the same tasks also ran in fewer jobs, else assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from manager.cli import counted
from manager.costs.measured import ASSUMED
from merge import Regime
from workloads.report.runs import Runs, cores_by_packing_and_sharing, job_cores
from workloads.report.summary import Summary, WaySummary, part
from workloads.results import StepRow
from workloads.traces import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, TracePhase, Way


def fewer_or_more(saved: float) -> str:
    """A saving as a difference.

    >>> fewer_or_more(0.336), fewer_or_more(-0.031)
    ('33.6 % fewer', '3.1 % more')
    """
    return f"{part(abs(saved))} {'more' if saved < 0 else 'fewer'}"


def reasons(every: Sequence[Runs], summary: Summary) -> Iterator[str]:
    """The reasons for the savings of each workload and trace, as far as the numbers show them."""
    for runs in every:
        ways = summary.workloads[runs.workload][runs.trace]
        default, shared = ways.get(DEFAULT.name), ways.get(REUSE.name)
        if default is None or shared is None:
            continue
        yield f"{runs.name}: {_about_tasks(runs, shared)}{_about_cores(runs, default, shared)}"


def crossover(runs: Runs) -> str | None:
    """A comparison of sharing and not sharing late in a trace, with and without defragmentation."""
    default, shared, defragmented = (runs.cores(way) for way in (DEFAULT, REUSE, DEFRAGMENTED))
    drain = {row.step for row in runs.counts(REUSE) if row.phase == TracePhase.DRAIN}
    common = sorted(drain & default.keys() & shared.keys())
    if not common:
        return None
    more = [step for step in common if shared[step] > default[step]]
    text = (
        f"{runs.name}: measured at {counted(len(common), 'step')} of the drain; reuse needs more cores than default at "
    )
    text += _listed_steps(more, runs, REUSE)
    both = [step for step in common if step in defragmented]
    if not both:
        return f"{text}. This was not measured with defragmentation."
    still = [step for step in both if defragmented[step] > default[step]]
    text += f"; with defragmentation at {_listed_steps(still, runs, DEFRAGMENTED)}"
    if more and not still:
        return f"{text}. So the paper's crossover occurs without defragmentation, and not with it."
    if more:
        return f"{text}. So the paper's crossover occurs both without and with defragmentation."
    if still:
        return f"{text}. So there is a crossover only with defragmentation, because of its moves."
    return f"{text}. So there is no crossover."


def defragmentation_effect(runs: Runs, summary: Summary) -> str | None:
    """The jobs, bridges and paused tasks without and with defragmentation, over all steps."""
    ways = summary.workloads[runs.workload][runs.trace]
    before, after = ways.get(REUSE.name), ways.get(DEFRAGMENTED.name)
    if before is None or after is None:
        return None
    return (
        f"{runs.name}: on average over all steps, defragmentation reduces {before.jobs_mean:.1f} jobs"
        f" to {after.jobs_mean:.1f}, {before.bridges_mean:.1f} bridges to {after.bridges_mean:.1f}, and"
        f" {before.paused_mean:.1f} paused tasks to {after.paused_mean:.1f}."
    )


def bridge_latency(runs: Runs, summary: Summary) -> str | None:
    """The latency with many bridges and with few."""
    ways = summary.workloads[runs.workload][runs.trace]
    launched, packed = ways.get(REUSE.name), ways.get(REUSE_PACKED.name)
    if launched is None or packed is None or launched.latency_p50 is None or packed.latency_p50 is None:
        return None
    more = launched.latency_p50 - packed.latency_p50
    return (
        f"{runs.name}: launched, with {launched.bridges_mean:.1f} bridges on average, the median"
        f" latency is {launched.latency_p50:.2f} s; packed, with {packed.bridges_mean:.1f}, it is"
        f" {packed.latency_p50:.2f} s, which is {abs(more):.2f} s {'less' if more > 0 else 'more'}."
    )


def packing_and_sharing(runs: Runs) -> str | None:
    """The savings of packing alone, of sharing alone, and of both."""
    cores = cores_by_packing_and_sharing(runs)
    if DEFAULT not in cores or DEFAULT_PACKED not in cores or not cores[DEFAULT]:
        return None
    text = (
        f"{runs.name}: packing alone, without sharing, saves"
        f" {part(1 - cores[DEFAULT_PACKED] / cores[DEFAULT])} of default's cores."
    )
    if REUSE in cores:
        text += f" Sharing alone, with a job for each submission, saves {part(1 - cores[REUSE] / cores[DEFAULT])}."
    if REUSE_PACKED in cores:
        text += (
            f" After packing, sharing saves another {part(1 - cores[REUSE_PACKED] / cores[DEFAULT_PACKED])} of the"
            f" rest; both together save {part(1 - cores[REUSE_PACKED] / cores[DEFAULT])}."
        )
    return text + _if_sequential(runs, DEFAULT, DEFAULT_PACKED)


def against_packed_default(runs: Runs) -> str | None:
    """The saving of sharing with defragmentation, compared with packed dataflows that share nothing."""
    defragmented, packed = runs.cores(DEFRAGMENTED), runs.cores(DEFAULT_PACKED)
    common = sorted(defragmented.keys() & packed.keys())
    if not common:
        return None
    saved = 1 - fmean(defragmented[step] for step in common) / fmean(packed[step] for step in common)
    text = (
        f"{runs.name}: compared with packed dataflows that share nothing, reuse with defragmentation"
        f" needs {fewer_or_more(saved)} cores."
    )
    return text + _if_sequential(runs, DEFRAGMENTED, DEFAULT_PACKED)


def consolidated_less_often(runs: Runs) -> str | None:
    """A note if the live replay was consolidated less often than the dry one."""
    run = runs.live.get(DEFRAGMENTED)
    if run is None or not run.results.manifest.settings.get("hurry"):
        return None
    return (
        f"{runs.name}: the live replay was consolidated only at measured steps; the dry one was"
        " consolidated after every step."
    )


def count_differences(runs: Runs) -> Iterator[str]:
    """The differences between the counts of live and dry runs."""
    for way, live in runs.live.items():
        dry = runs.dry.get(way)
        if dry is None:
            continue
        # A replay in a hurry defragments only at measured steps.
        pairs = [
            (one, other)
            for one, other in zip(dry.results.steps, live.results.steps, strict=True)
            if way.defragment == "off" or other.measured
        ]
        for what in ("running_tasks", "paused_tasks", "jobs", "bridges"):
            different = [one.step + 1 for one, two in pairs if getattr(one, what) != getattr(two, what)]
            if different:
                yield (
                    f"{runs.name}, {way.name}: the {what.replace('_', ' ')} of the live and the dry"
                    f" run differ at {len(different)} of {len(pairs)} steps, first at step {different[0]}."
                )


def missing_measurements(every: Sequence[Runs]) -> Iterator[str]:
    """The ways that were not replayed or not measured."""
    for runs in every:
        for way in (DEFAULT, REUSE):
            if not runs.counts(way):
                yield f"{runs.name}: {way.name} was not replayed."
        for way in (DEFAULT, REUSE, DEFRAGMENTED, DEFAULT_PACKED, REUSE_PACKED):
            if not runs.windows(way):
                yield f"{runs.name}: the cores and latency of {way.name} were not measured."


def _about_tasks(runs: Runs, shared: WaySummary) -> str:
    most = max(row.dataflows for row in runs.counts(REUSE))
    total, at_peak = shared.tasks_saved or 0.0, shared.tasks_saved_at_peak or 0.0
    text = (
        f"at the peak, with up to {most} dataflows, sharing has {fewer_or_more(at_peak)} tasks, and over the whole"
        f" trace {fewer_or_more(total)}"
    )
    if at_peak > total:
        text += ", since fewer dataflows have less in common"
    between = shared.tasks_saved_between or 0.0
    if between < total - 0.005:
        text += f". Compared with dataflows without their own duplicates it has {fewer_or_more(between)}"
    return f"{text}."


def _about_cores(runs: Runs, default: WaySummary, shared: WaySummary) -> str:
    if shared.cores_saved is None or not default.jobs_mean or shared.jobs_mean is None:
        return ""
    fewer_jobs = 1 - shared.jobs_mean / default.jobs_mean
    text = f" With {fewer_or_more(fewer_jobs)} jobs on average, it needs {fewer_or_more(shared.cores_saved)} cores."
    if fewer_jobs < (shared.tasks_saved or 0.0):
        text += " A job runs as long as one of its tasks is used, so sharing saves fewer jobs than tasks."
    cost = job_cores(runs)
    if cost is not None:
        each_job, of_default = cost
        text += (
            f" A job has a fixed cost of {each_job:.3f} cores (from default launched and default packed, which run the"
            f" same tasks in different numbers of jobs); for all jobs that is {part(of_default)} of default's cores."
        )
    return text


def _if_sequential(runs: Runs, one: Way, other: Way) -> str:
    """A note if two ways were not measured side by side."""
    first, second = (runs.live[way].results.manifest for way in (one, other))
    if first.ended and second.ended and max(first.begun, second.begun) <= min(first.ended, second.ended):
        return ""
    return " The two were measured one after the other, not side by side."


def _listed_steps(more: Sequence[int], runs: Runs, way: Way) -> str:
    """The steps at which a way needs more cores than default, with the number of clear differences."""
    if not more:
        return "none"
    listed = ", ".join(str(step + 1) for step in more)
    clear = sum(_is_clear(runs, way, step) for step in more)
    return f"{len(more)} of them (step {listed}; at {clear or 'none'} the intervals do not overlap)"


def _is_clear(runs: Runs, way: Way, step: int) -> bool:
    without, shared = runs.estimates(DEFAULT)[step], runs.estimates(way)[step]
    return without.high is not None and shared.low is not None and shared.low > without.high


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSavings:
    """The measured savings, as parts of default's cores; None where there is no measurement."""

    sharing: float | None
    packing: float | None
    defragmenting: float | None


def regime_of(runs: Runs) -> Regime | None:
    """The regime of a trace; None if it was not run both ways."""
    steps = runs.cores(DEFAULT).keys() or {row.step for row in runs.counts(DEFAULT)}
    default, shared = ([row for row in runs.counts(way) if row.step in steps] for way in (DEFAULT, REUSE))
    if not default or not shared or not any(row.work_running for row in default):
        return None
    alone, kept = _mean(default, "work_running"), _mean(shared, "work_running")
    run = runs.live.get(DEFAULT) or runs.dry.get(DEFAULT)
    pace = float(run.results.manifest.settings.get("pace", 1.0)) if run else 1.0
    cores, cost, jobs = runs.cores(DEFAULT), job_cores(runs), _mean(default, "jobs")
    batch = ASSUMED.batch if cost is None else cost[0] * pace
    # From measured cores, since the work in results is in events, not in seconds; else it is assumed to be small.
    work = fmean(cores.values()) - ASSUMED.host - jobs * batch / pace if cores else 0.0
    work = max(work, jobs * batch / pace / 100)
    return Regime(
        dataflows=jobs,
        work=work,
        shared=work * kept / alone,
        jobs=_mean(shared, "jobs"),
        spared=jobs - _mean(shared, "jobs"),
        bridges=_mean(shared, "bridges"),
        pace=pace,
        batch=batch,
        # The assumption is for a batch every second.
        bridge=ASSUMED.bridge / pace,
    )


def measured_savings(runs: Runs) -> MeasuredSavings | None:
    """The measured savings of a trace; None if nothing was measured without sharing."""
    default = runs.cores(DEFAULT)
    if not default:
        return None
    shared, packed, tidied = (runs.cores(way) for way in (REUSE, DEFAULT_PACKED, DEFRAGMENTED))

    def saved(before: Mapping[int, float], after: Mapping[int, float]) -> float | None:
        common = default.keys() & before.keys() & after.keys()
        if not common:
            return None
        return sum(before[step] - after[step] for step in common) / sum(default[step] for step in common)

    return MeasuredSavings(
        sharing=saved(default, shared),
        packing=saved(default, packed),
        defragmenting=saved(shared, tidied),
    )


def regime_sentence(runs: Runs) -> str | None:
    """A sentence on the regime of a trace, and on the load from which sharing saves more than packing."""
    regime = regime_of(runs)
    if regime is None:
        return None
    text = f"{runs.name}: a batch costs {1_000 * regime.batch:.0f} ms"
    if measured_savings(runs) is None:
        text += "."
    else:
        savings, alone = regime.saves, regime.alone + ASSUMED.host
        text += (
            f" and holds {1_000 * regime.per_batch:.0f} ms of work. By the model, sharing saves"
            f" {part(savings.sharing / alone)} of default's cores, packing {part(savings.packing / alone)}, and"
            f" defragmentation after sharing {part(savings.defragmenting / alone)}. The largest saving is that of"
            f" {savings.most or 'none of them'}."
        )
    if regime.crossover is None:
        return f"{text} Sharing saves less than packing at every load that a job can bear."
    return f"{text} Sharing saves more than packing from {1_000 * regime.crossover:.0f} ms of work in a batch."


def _mean(rows: Sequence[StepRow], name: str) -> float:
    return fmean(getattr(row, name) for row in rows)


NEAR = 3.0
"""Percentage points within which cores follow the work."""


def cores_against_work(every: Sequence[Runs], summary: Summary) -> Iterator[str]:
    """A sentence for each way that was measured together with its baseline."""
    for runs in every:
        ways = summary.workloads[runs.workload][runs.trace]
        for way in runs.ways:
            row = ways[way.name]
            if way == way.baseline or row.cores_saved is None or row.work_saved_where_measured is None:
                continue
            points = 100 * (row.cores_saved - row.work_saved_where_measured)
            most = max(runs.cores(way.baseline).values())
            yield (
                f"{runs.name}, {way.name}: {part(row.cores_saved)} of the cores are saved, and"
                f" {part(row.work_saved_where_measured)} of the work at the same steps:"
                f" {'within' if abs(points) <= NEAR else 'not within'} {NEAR:g} points ({points:+.1f})."
                f" {way.baseline.name} takes at most {most:.2f} cores."
            )


def discarded_windows(every: Sequence[Runs]) -> Iterator[str]:
    """A sentence for each way with discarded windows: their number, and the reason of the first."""
    for runs in every:
        for way in runs.ways:
            discarded = runs.discarded_windows(way)
            if not discarded:
                continue
            many = len(discarded) + sum(map(len, runs.windows(way).values()))
            first = discarded[0]
            yield (
                f"{runs.name}, {way.name}: {len(discarded)} of {many} windows were discarded because"
                f" the service was behind, first at step {first.step + 1}: {first.behind}."
            )
