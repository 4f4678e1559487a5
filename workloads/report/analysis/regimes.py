"""Regimes in a report: the model's savings by the counts of a trace, and the measured savings. Pure.

The counts and the saved part of the work are means over the measured steps, or over all steps of a trace that was only
counted. The cost of a batch is measured if the same tasks also ran in fewer jobs, else assumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from manager.costs.measured import ASSUMED
from merge import Regime
from workloads.report.analysis.means import job_cores
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import part
from workloads.results import StepRow
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSavings:
    """The measured savings, as parts of default's cores, and the seconds of work in a batch.

    Made by `measured_savings`; None where there is no measurement.
    """

    per_batch: float
    sharing: float | None
    packing: float | None
    defragmenting: float | None


def regime_of(runs: Runs) -> Regime | None:
    """The regime of a trace; None if it was not run both ways."""
    steps = _steps(runs)
    default, shared = ([row for row in runs.counts(way) if row.step in steps] for way in (DEFAULT, REUSE))
    if not default or not shared or not any(row.work_running for row in default):
        return None
    alone, kept = _mean(default, "work_running"), _mean(shared, "work_running")
    pace, cores = _pace(runs), runs.cores(DEFAULT)
    batch, jobs = _batch(runs, pace), _mean(default, "jobs")
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


def measured_savings(runs: Runs, regime: Regime) -> MeasuredSavings | None:
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
        per_batch=regime.per_batch,
        sharing=saved(default, shared),
        packing=saved(default, packed),
        defragmenting=saved(shared, tidied),
    )


def regime_sentence(runs: Runs) -> str | None:
    """A sentence on the regime of a trace, and on the load from which sharing saves more than packing."""
    regime = regime_of(runs)
    if regime is None:
        return None
    text = f"{runs.workload}, {runs.trace}: a batch costs {1_000 * regime.batch:.0f} ms"
    if measured_savings(runs, regime) is None:
        text += "."
    else:
        found, alone = regime.saves, regime.alone + ASSUMED.host
        text += (
            f" and holds {1_000 * regime.per_batch:.0f} ms of work. By the model, sharing saves"
            f" {part(found.sharing / alone)} of default's cores, packing {part(found.packing / alone)}, and"
            f" defragmentation after sharing {part(found.defragmenting / alone)}. The largest saving is that of"
            f" {found.most or 'none of them'}."
        )
    if regime.crossover is None:
        return f"{text} Sharing saves less than packing at every load that a job can bear."
    return f"{text} Sharing saves more than packing from {1_000 * regime.crossover:.0f} ms of work in a batch."


def _steps(runs: Runs) -> frozenset[int]:
    measured = runs.cores(DEFAULT).keys()
    return frozenset(measured) or frozenset(row.step for row in runs.counts(DEFAULT))


def _mean(rows: Sequence[StepRow], name: str) -> float:
    return fmean(getattr(row, name) for row in rows)


def _pace(runs: Runs) -> float:
    run = runs.live.get(DEFAULT) or runs.dry.get(DEFAULT)
    return float(run.results.manifest.settings.get("pace", 1.0)) if run else 1.0


def _batch(runs: Runs, pace: float) -> float:
    found = job_cores(runs)
    return ASSUMED.batch if found is None else found[0] * pace
