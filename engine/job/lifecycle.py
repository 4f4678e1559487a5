"""The life cycle of a job, as a table.

A job whose query died is started again after a while. A query that does not stop is cancelled; if that does not help,
the job is stuck.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class JobState(StrEnum):
    """The states of a job."""

    STARTING = "starting"
    RUNNING = "running"
    DIED = "died"
    STOPPING = "stopping"
    CANCELLING = "cancelling"
    STUCK = "stuck"
    STOPPED = "stopped"


class JobEvent(StrEnum):
    """The events in the life of a job."""

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
    """An event that cannot happen in the state that a job is in."""


def next_state(state: JobState, event: JobEvent) -> JobState:
    """The state of a job after an event.

    >>> next_state(JobState.STOPPING, JobEvent.TIMED_OUT)
    <JobState.CANCELLING: 'cancelling'>
    """
    after = JOB_LIFE[state].get(event)
    if after is None:
        raise ImpossibleTurn(f"a job that is {state} cannot meet {event!r}")
    return after
