"""Regimes in a report: what the model says of a trace by its counts, and where what was measured lies. Pure.

The counts and the part of the work that sharing saves are means over the steps that were measured, or over all steps
of what was only counted. What a batch costs is measured where the same tasks ran in fewer jobs, and assumed else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from manager.defragmentation.calibration import ASSUMED
from merge import Regime
from workloads.report.analysis.means import job_cores
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import part
from workloads.results import StepRow
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSavings:
    """What was measured: seconds of work in a batch, and the parts of what default takes that each of the three saved.

    Made by `spots_of`. What was not measured is None.
    """

    per_batch: float
    sharing: float | None
    packing: float | None
    defragmenting: float | None


def regime_of(runs: Runs) -> Regime | None:
    """The regime of a trace; None where it was not run both ways."""
    steps = _steps(runs)
    default, shared = ([row for row in runs.counts(way) if row.step in steps] for way in (DEFAULT, REUSE))
    if not default or not shared or not any(row.work_running for row in default):
        return None
    alone, kept = _mean(default, "work_running"), _mean(shared, "work_running")
    pace, cores = _pace(runs), runs.cores(DEFAULT)
    batch, jobs = _batch(runs, pace), _mean(default, "jobs")
    # By what was measured, since work in results is in events and not in seconds; assumed to be little else.
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
        # Assumed for a batch every second.
        bridge=ASSUMED.bridge / pace,
    )


def spots_of(runs: Runs, regime: Regime) -> MeasuredSavings | None:
    """Where what was measured lies; None where nothing was measured without sharing."""
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
    """In which regime a trace was, and from where on sharing saves more than packing, in a sentence."""
    regime = regime_of(runs)
    if regime is None:
        return None
    told = f"{runs.workload}, {runs.trace}: a batch costs {1_000 * regime.batch:.0f} ms"
    if spots_of(runs, regime) is None:
        told += "."
    else:
        found, alone = regime.saves, regime.alone + ASSUMED.host
        told += (
            f" and holds {1_000 * regime.per_batch:.0f} ms of work. By the model sharing saves"
            f" {part(found.sharing / alone)} there, packing {part(found.packing / alone)}, and defragmenting what is"
            f" shared {part(found.defragmenting / alone)} of what default takes, so {found.most or 'none of them'}"
            " counts most."
        )
    if regime.crossover is None:
        return f"{told} At no load that a job can bear does sharing save more than packing."
    return f"{told} Sharing saves more than packing from {1_000 * regime.crossover:.0f} ms of work in a batch on."


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
