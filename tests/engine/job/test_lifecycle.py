"""The life cycle of a job: the table of its states."""

import networkx as nx
import pytest

from engine.job.lifecycle import JOB_LIFE, ImpossibleTurn, JobEvent, JobState, next_state


def test_every_state_is_in_the_table() -> None:
    """Each state has a row, and each is reached from some other."""
    assert set(JOB_LIFE) == set(JobState)
    reached = {after for events in JOB_LIFE.values() for after in events.values()}
    assert reached == set(JobState)


def test_a_job_can_end_from_every_state() -> None:
    """From each state some events lead to the end, and from there none leads on."""
    graph = nx.DiGraph((state, after) for state, events in JOB_LIFE.items() for after in events.values())
    for state in JobState:
        assert nx.has_path(graph, state, JobState.STOPPED)
    assert JOB_LIFE[JobState.STOPPED] == {}


def test_an_impossible_event_is_refused() -> None:
    """An event that the table does not have raises an error, and is not passed over."""
    with pytest.raises(ImpossibleTurn, match="a job that is stopped cannot meet"):
        next_state(JobState.STOPPED, JobEvent.STOP)
