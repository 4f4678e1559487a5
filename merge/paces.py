"""Paces: how long jobs wait between two batches, where everybody who reads them allows more than usual.

A batch costs the same whatever it holds, so a job that beats five times slower saves four of five batches. A dataflow
allows that by the latency that its policy names. A job is as slow as the most demanding of its readers allows; one with
a reader that names no latency keeps the usual pace.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import networkx as nx

from merge.capacity import Costs
from merge.jobs import JobId, Jobs
from merge.running_graph import RunningGraph

LONGEST_PACE = 60.0
"""Seconds that a job waits between two batches at most."""
TIMES_SLOWER = (2, 3, 5, 10, 20, 30, 60)
"""How many times slower than usual a job may be. Few steps, so that a load that wavers a little changes nothing."""
_LONGEST_WAIT = 1.5
"""Paces that an event waits for its batch at most: a tick just after a batch is passed over."""


class Repace(NamedTuple):
    """A job that should have another pace; made by `repaced`."""

    job: JobId
    pace: float
    why: str


def repaced(
    running: RunningGraph, jobs: Jobs, latencies: Mapping[str, float], costs: Costs, paces: Mapping[JobId, float]
) -> tuple[Repace, ...]:
    """The jobs that should have another pace than they have, in the order of their ids.

    `latencies` has the seconds that a dataflow allows, for those that name a bound. `costs.pace` is the usual pace.
    """
    bounds = dict(_bounds(running, jobs, latencies))
    slowed = {job for job, pace in paces.items() if pace > costs.pace}
    repaces = []
    for job in sorted(jobs.jobs.keys() & {*bounds, *slowed}):
        bound, reader = bounds.get(job, (0.0, ""))
        pace = _pace(bound, sum(costs.busy.get(instance, 0.0) for instance in jobs.jobs[job].active), costs)
        if pace != paces.get(job, costs.pace):
            repaces.append(Repace(job, pace, _why(pace, bound, reader, costs)))
    return tuple(repaces)


def _pace(bound: float, busy: float, costs: Costs) -> float:
    """The longest pace at which a job so busy takes no more seconds than that from an event's arrival to its output."""
    longest = min(LONGEST_PACE, (bound - costs.batch) / (_LONGEST_WAIT + busy))
    return costs.pace * max((times for times in TIMES_SLOWER if costs.pace * times <= longest), default=1)


def _bounds(
    running: RunningGraph, jobs: Jobs, latencies: Mapping[str, float]
) -> Iterator[tuple[JobId, tuple[float, str]]]:
    """The seconds that each job may take, and the dataflow that demands it; not of jobs with a reader without a bound.

    A dataflow's bound is shared by the longest row of jobs that its events pass through.
    """
    allowed: dict[JobId, tuple[float, str]] = {}
    for dataflow in sorted(latencies.keys() & running.dataflows.keys()):
        places = running.dataflow(dataflow).places.values()
        own = frozenset(jobs.homes[instance].job for instance in places if running.tasks[instance].inputs)
        share = latencies[dataflow] / _longest_row(own, jobs)
        for job in own:
            allowed[job] = min(allowed.get(job, (share, dataflow)), (share, dataflow))
    for job, bound in allowed.items():
        # Who reads a source reads its spool, whichever job that is counted to.
        tasks = (instance for instance in jobs.jobs[job].active if running.tasks[instance].inputs)
        readers = {reader for instance in tasks for reader in running.users[instance]}
        if readers <= latencies.keys():
            yield job, bound


def _longest_row(own: frozenset[JobId], jobs: Jobs) -> int:
    streams: nx.DiGraph[JobId] = nx.DiGraph()
    streams.add_nodes_from(own)
    streams.add_edges_from((origin, job) for job in own for origin in jobs.feeding.get(job, ()) if origin in own)
    return max(1, nx.dag_longest_path_length(streams) + 1)


def _why(pace: float, bound: float, reader: str, costs: Costs) -> str:
    if pace == costs.pace:
        return f"a reader allows no more than the usual {costs.pace:g} s between batches"
    return (
        f"all its readers allow it, {reader} the least: {bound:g} s for this job, so batches begin every {pace:g} s, "
        f"which saves {costs.batch / costs.pace - costs.batch / pace:.3f} cores"
    )
