"""The life of a job, as a table.

A job whose query died is started again after a while; one that does not stop is helped along, and given up at last.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class JobState(StrEnum):
    """Where a job is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    DIED = "died"
    STOPPING = "stopping"
    CANCELLING = "cancelling"
    STUCK = "stuck"
    STOPPED = "stopped"


class JobEvent(StrEnum):
    """What happens to a job."""

    STARTED = "started"
    QUERY_DIED = "query died"
    RETRY = "retry"
    STOP = "stop"
    ENDED = "ended"
    TIMED_OUT = "timed out"


JOB_LIFE: Mapping[JobState, Mapping[JobEvent, JobState]] = MappingProxyType(
    {
        JobState.STARTING: {
            JobEvent.STARTED: JobState.RUNNING,
            JobEvent.QUERY_DIED: JobState.DIED,
            JobEvent.STOP: JobState.STOPPING,
        },
        JobState.RUNNING: {JobEvent.QUERY_DIED: JobState.DIED, JobEvent.STOP: JobState.STOPPING},
        JobState.DIED: {JobEvent.RETRY: JobState.STARTING, JobEvent.STOP: JobState.STOPPED},
        JobState.STOPPING: {JobEvent.ENDED: JobState.STOPPED, JobEvent.TIMED_OUT: JobState.CANCELLING},
        JobState.CANCELLING: {JobEvent.ENDED: JobState.STOPPED, JobEvent.TIMED_OUT: JobState.STUCK},
        JobState.STUCK: {JobEvent.ENDED: JobState.STOPPED},
        JobState.STOPPED: {},
    }
)


class ImpossibleTurn(RuntimeError):
    """Something happened to a job that cannot happen where it is."""


def turn(state: JobState, event: JobEvent) -> JobState:
    """Where a job is after an event.

    >>> turn(JobState.STOPPING, JobEvent.TIMED_OUT)
    <JobState.CANCELLING: 'cancelling'>
    """
    after = JOB_LIFE[state].get(event)
    if after is None:
        raise ImpossibleTurn(f"a job that is {state} cannot meet {event!r}")
    return after
