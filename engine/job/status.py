"""The status of a job, which is retained, and its metrics, as a host publishes them."""

import time
from collections.abc import Mapping
from typing import Any

from engine.job.job import SparkJob
from engine.job.lifecycle import JobState
from engine.plan import Plan
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder
from engine.records.record import InstanceMeter
from engine.records.record_store import RecordStore


def job_status(job: SparkJob, host: str) -> dict[str, Any]:
    """The status of a job: the maker of its plans finds in it which one runs, and what to await before the next."""
    latest = job.plans.plan
    status: dict[str, Any] = {
        "job": job.name,
        "host": host,
        "state": job.state,
        "trouble": job.trouble or (job.follower.forwarder.trouble if job.follower else ""),
        "version": latest.version if latest else 0,
        "term": latest.term if latest else 0,
        "back_off": job.back_off,
    }
    try:
        return status | _progress(job)
    except DAMAGE as error:
        return status | {"trouble": status["trouble"] or str(error)}


def _progress(job: SparkJob) -> dict[str, Any]:
    if job.follower is None:
        return {}
    so_far = job.follower.so_far
    in_effect = job.folder.entry(so_far.entry).plan if so_far.entry else None
    return {
        "in_effect": in_effect.version if in_effect else 0,
        "batch": so_far.batch,
        "published": job.follower.first_unsent,
        "handed_on": job.follower.first_not_handed_on(),
        "run": job.follower.run,
        "positions": dict(so_far.positions),
        "cuts": [cut._asdict() for cut in job.folder.cuts.all()],
        "given_up": sorted(job.keeper.given_up) if job.keeper else [],
        "unconfirmed": job.follower.forwarder.unconfirmed(),
        "failed": job.health.failed(),
    }


def stopped_status(folder: JobFolder, plan: Plan) -> dict[str, Any]:
    """The status of a job that was stopped, from its folder alone; `plan` is its latest."""
    store = RecordStore(folder.records)
    batches = store.batches()
    in_effect = folder.entry(store.file(batches[-1]).header.end.entry).plan.version if batches else 0
    return {
        "job": plan.job,
        "host": plan.host,
        "state": JobState.STOPPED,
        "trouble": "",
        "version": plan.version,
        "term": plan.term,
        "in_effect": in_effect,
        "batch": batches.stop - 1,
        "cuts": [cut._asdict() for cut in folder.cuts.all()],
    }


def job_metrics(job: SparkJob, ends: Mapping[str, int], now: float) -> dict[str, Any]:
    """The work of a job and its instances since it was started here, and its lag.

    `ends` are the ends of the spools that it reads.
    """
    if job.follower is None:
        none: dict[str, Any] = {"instances": {}, "streams": {}, "left": 0, "batch_seconds": {}}
        return none | {"batch": -1, "run": 0, "age": 0.0, "latency_seconds": {}, "outputs": {}}
    so_far = job.follower.so_far
    starts = job.plans.latest.starts if job.plans.latest else {}
    # The job has read nothing yet of a stream that its latest plan added.
    positions = {stream: max(so_far.positions.get(stream, 0), starts.get(stream, 0)) for stream in ends}
    lags = job.lag.note(ends, positions, now)
    latencies = job.follower.latencies.report(now)
    divided: dict[str, Any] = {"shards": dict(so_far.shards), "groups": dict(so_far.grouped)} if so_far.shards else {}
    return divided | {
        "batch": so_far.batch,
        "run": job.follower.run,
        "age": round(time.monotonic() - job.started_at, 1),
        "instances": {str(instance): _metered(meter) for instance, meter in sorted(so_far.meters.items())},
        "states": {str(instance): size for instance, size in so_far.sizes.items()},
        "streams": {
            stream: {"entered": so_far.entered.get(stream, 0), "lag_events": lag.events, "lag_seconds": lag.seconds}
            for stream, lag in lags.items()
        },
        "left": so_far.left,
        "batch_seconds": job.batch_times.percentiles(),
        "latency_seconds": latencies.all,
        "outputs": latencies.outputs,
    }


def _metered(meter: InstanceMeter) -> dict[str, int]:
    # Written out, because it is called for every instance at every beat, and `asdict` copies what cannot change.
    return {"cpu_ns": meter.cpu_ns, "taken": meter.taken, "emitted": meter.emitted, "dead": meter.dead}
