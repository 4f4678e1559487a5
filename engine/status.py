"""What a host tells of a job: how it is, retained; and what its instances have done."""

from dataclasses import asdict
from typing import Any

from engine.damage import DAMAGE
from engine.job import Job


def job_status(job: Job, host: str) -> dict[str, Any]:
    """How a job is; whoever made its plans finds in it which one runs, and what has to be awaited before the next."""
    told: dict[str, Any] = {
        "job": job.name,
        "host": host,
        "state": job.state,
        "trouble": job.trouble or (job.follower.trouble if job.follower else ""),
        "version": job.plan.version if job.plan else 0,
        "term": job.plan.term if job.plan else 0,
    }
    try:
        return told | _followed(job)
    except DAMAGE as error:
        return told | {"trouble": told["trouble"] or str(error)}


def _followed(job: Job) -> dict[str, Any]:
    if job.follower is None:
        return {}
    followed = job.follower.told
    in_effect = job.folder.entry(followed.entry).plan if followed.entry else None
    return {
        "in_effect": in_effect.version if in_effect else 0,
        "batch": followed.batch,
        "positions": dict(followed.positions),
        "cuts": [cut._asdict() for cut in job.folder.kept_cuts()],
        "unconfirmed": job.follower.leaving(),
        "failed": job.healths.failed(),
    }


def job_metrics(job: Job) -> dict[str, Any]:
    """What each instance of a job has done since the job was started here."""
    if job.follower is None:
        return {"batch": -1, "instances": {}}
    told = job.follower.told
    meters = {str(instance): asdict(meter) for instance, meter in sorted(told.meters.items())}
    return {"batch": told.batch, "instances": meters}
