"""The warm-up of a machine: a job with nothing to do, so that a host that is taken over begins at once.

The first job of a session takes ten times as long to start as any other: the JVM loads classes, and Spark starts
workers. Idle workers are gone after a minute, so a machine without jobs warms up again and again.
"""

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bridge import Sender, SystemClock
from engine.job.lifecycle import JobState
from engine.job.pace_server import begin_pace_server
from engine.job.query import HostParts, SparkJob
from engine.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM_SECONDS = 45.0
"""Seconds after which a machine without jobs is cold."""
_BOUND = 60.0
_LOOK = 0.05
_JOB = "warm-up"
log = logging.getLogger("braid.host")


def keep_warm(session: "SparkSession", stopping: threading.Event, is_cold: Callable[..., bool]) -> None:
    """Warm a machine up whenever `is_cold` says that it is worth it; `begins` is true at the start of the machine."""
    begins = True
    while True:
        if is_cold(begins=begins):
            try:
                warm_up(session, stopping.is_set)
            except Exception:  # a cold machine is slow, and no worse
                log.exception("the warm-up failed; the next job starts slowly")
        begins = False
        if stopping.wait(_WARM_SECONDS):
            return


def warm_up(session: "SparkSession", is_over: Callable[[], bool]) -> None:
    """Run a job without tasks for one batch, and stop it."""
    with tempfile.TemporaryDirectory(prefix="braid-") as name:
        root = Path(name)
        pace = begin_pace_server(session, root)
        job = SparkJob(
            _JOB,
            HostParts(
                root=root,
                session=session,
                pace=pace,
                # Its plan has no outputs.
                sender=cast("Sender", None),
                clock=SystemClock(),
                on_record=lambda _job: None,
                owned_spool=lambda _stream: None,
            ),
        )
        try:
            job.log(Plan(job=_JOB, host=_JOB, version=1), {}, {})
            job.start()
            _await(lambda: bool(job.follower and job.follower.follow()) or is_over())
            job.stop()
            _await(lambda: _has_ended(job) or is_over())
        finally:
            pace.close()


def _has_ended(job: SparkJob) -> bool:
    job.look()
    return job.state in {JobState.STOPPED, JobState.STUCK}


def _await(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _BOUND
    while not is_reached():
        if time.monotonic() > deadline:
            log.warning("the warm-up did not come to its end; the first job starts slowly")
            return
        time.sleep(_LOOK)
