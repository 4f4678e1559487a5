"""Means over a trace, for figures and sentences. Pure."""

from statistics import fmean

from workloads.report.analysis.runs import Runs
from workloads.way import DEFAULT, DEFAULT_PACKED, REUSE, REUSE_PACKED, Way

MANY = 10
"""So many dataflows or more are one class."""


def shares_by_users(runs: Runs) -> dict[int, float]:
    """The part of the running tasks that two, three, and more dataflows use, weighted by time."""
    # The users of a task are the same in any placement.
    run = next(
        (found for way in (REUSE, REUSE_PACKED) for found in (runs.dry.get(way), runs.live.get(way)) if found), None
    )
    if run is None:
        return {}
    step_weights = runs.step_weights
    found: dict[int, float] = {}
    for row in run.results.users:
        users = min(row.users, MANY)
        found[users] = found.get(users, 0.0) + step_weights[row.step] * row.tasks
    whole = sum(found.values())
    return {users: found[users] / whole for users in sorted(found) if users > 1} if whole else {}


def latencies(runs: Runs) -> dict[Way, tuple[float, float]]:
    """The mean p50 and p99 of each way with measurements."""
    found: dict[Way, tuple[float, float]] = {}
    for way in runs.ways:
        rows = [row for those in runs.windows(way).values() for row in those]
        p50 = [row.latency_p50 for row in rows if row.latency_p50 is not None]
        p99 = [row.latency_p99 for row in rows if row.latency_p99 is not None]
        if p50 and p99:
            found[way] = fmean(p50), fmean(p99)
    return found


def cores_by_packing_and_sharing(runs: Runs) -> dict[Way, float]:
    """The mean cores of each measured one of the four ways, over their common steps."""
    four = (DEFAULT, REUSE, DEFAULT_PACKED, REUSE_PACKED)
    found = {way: cores for way in four if (cores := runs.cores(way))}
    common = set.intersection(*map(set, found.values())) if found else set()
    if not common:
        return {}
    return {way: fmean(cores[step] for step in common) for way, cores in found.items()}


def tenant_cores(runs: Runs, way: Way) -> dict[str | None, float]:
    """Each tenant's mean share over the measured steps; the operator's overhead has no tenant."""
    run = runs.live.get(way)
    valid = runs.windows(way)
    rows = [row for row in run.results.tenants if row.step in valid] if run else []
    steps = {row.step for row in rows}
    found: dict[str | None, float] = {}
    for row in rows:
        found[row.tenant] = found.get(row.tenant, 0.0) + row.cores / len(steps)
    return found


def job_cores(runs: Runs) -> tuple[float, float] | None:
    """The fixed cores of a job, and the part of default's cores that all jobs take; None if unknown."""
    launched, packed = runs.cores(DEFAULT), runs.cores(DEFAULT_PACKED)
    common = sorted(launched.keys() & packed.keys())
    if not common:
        return None
    jobs = {way: {row.step: row.jobs for row in runs.counts(way)} for way in (DEFAULT, DEFAULT_PACKED)}
    more_jobs = fmean(jobs[DEFAULT][step] - jobs[DEFAULT_PACKED][step] for step in common)
    more_cores = fmean(launched[step] - packed[step] for step in common)
    if more_jobs <= 0 or more_cores <= 0:
        return None
    each = more_cores / more_jobs
    return each, each * fmean(jobs[DEFAULT][step] for step in common) / fmean(launched[step] for step in common)
