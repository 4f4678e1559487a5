"""What a host tells of a job: how it is, retained; and what its instances have done."""

from dataclasses import asdict
from typing import Any

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
    if job.follower is not None:
        followed = job.follower.told
        in_effect = job.folder.entry(followed.entry).plan if followed.entry else None
        told |= {
            "in_effect": in_effect.version if in_effect else 0,
            "batch": followed.batch,
            "positions": dict(followed.positions),
            "cuts": [cut._asdict() for cut in job.folder.kept_cuts()],
            "unconfirmed": job.follower.leaving(),
            "failed": job.healths.failed(),
        }
    return told


def job_metrics(job: Job) -> dict[str, Any]:
    """What each instance of a job has done since the job was started here."""
    if job.follower is None:
        return {"batch": -1, "instances": {}}
    told = job.follower.told
    meters = {str(instance): asdict(meter) for instance, meter in sorted(told.meters.items())}
    return {"batch": told.batch, "instances": meters}
