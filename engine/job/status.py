"""What a host tells of a job: how it is, retained; and what its instances have done."""

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
    """How a job is; whoever made its plans finds in it which one runs, and what has to be awaited before the next."""
    told: dict[str, Any] = {
        "job": job.name,
        "host": host,
        "state": job.state,
        "trouble": job.trouble or (job.follower.trouble if job.follower else ""),
        "version": job.plan.version if job.plan else 0,
        "term": job.plan.term if job.plan else 0,
        "back_off": job.back_off,
    }
    try:
        return told | _followed(job)
    except DAMAGE as error:
        return told | {"trouble": told["trouble"] or str(error)}


def _followed(job: SparkJob) -> dict[str, Any]:
    if job.follower is None:
        return {}
    followed = job.follower.told
    in_effect = job.folder.entry(followed.entry).plan if followed.entry else None
    return {
        "in_effect": in_effect.version if in_effect else 0,
        "batch": followed.batch,
        "published": job.follower.published,
        "run": job.follower.run,
        "positions": dict(followed.positions),
        "cuts": [cut._asdict() for cut in job.folder.cuts.all()],
        "given_up": job.given_up,
        "unconfirmed": job.follower.leaving(),
        "failed": job.healths.failed(),
    }


def stopped_status(folder: JobFolder, plan: Plan) -> dict[str, Any]:
    """How a job is that was stopped, by its folder alone; `plan` is its latest."""
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
    """What a job and each of its instances have done since it was started here, and how far it is behind.

    `ends` are those of the spools that it reads.
    """
    if job.follower is None:
        none: dict[str, Any] = {"instances": {}, "streams": {}, "left": 0, "batch_seconds": {}}
        return none | {"batch": -1, "run": 0, "age": 0.0, "latency_seconds": {}, "outputs": {}}
    told = job.follower.told
    starts = job.entries[-1].starts if job.entries else {}
    # It has read nothing yet of a stream that a plan brought just now.
    positions = {stream: max(told.positions.get(stream, 0), starts.get(stream, 0)) for stream in ends}
    lags = job.lagging.note(ends, positions, now)
    latencies = job.follower.latencies.told(now)
    return {
        "batch": told.batch,
        "run": job.follower.run,
        "age": round(time.monotonic() - job.began, 1),
        "instances": {str(instance): _metered(meter) for instance, meter in sorted(told.meters.items())},
        "streams": {
            stream: {"entered": told.entered.get(stream, 0), "lag_events": lag.events, "lag_seconds": lag.seconds}
            for stream, lag in lags.items()
        },
        "left": told.left,
        "batch_seconds": job.batch_times.told(),
        "latency_seconds": latencies.all,
        "outputs": latencies.outputs,
    }


def _metered(meter: InstanceMeter) -> dict[str, int]:
    # By hand, because it is told for every instance at every beat, and `asdict` copies what cannot change.
    return {"cpu_ns": meter.cpu_ns, "taken": meter.taken, "emitted": meter.emitted, "dead": meter.dead}
