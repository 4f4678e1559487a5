"""The life of a job: the table of its states."""

import networkx as nx
import pytest

from engine.job.lifecycle import JOB_LIFE, ImpossibleTurn, JobEvent, JobState, next_state


def test_every_state_stands_in_the_table() -> None:
    """No state is forgotten, neither as a place to leave nor as one to come to."""
    assert set(JOB_LIFE) == set(JobState)
    reached = {after for events in JOB_LIFE.values() for after in events.values()}
    assert reached == set(JobState)


def test_from_everywhere_a_job_can_end() -> None:
    """Whatever state a job is in, some events lead to its end, and from there none leads on."""
    graph = nx.DiGraph((state, after) for state, events in JOB_LIFE.items() for after in events.values())
    for state in JobState:
        assert nx.has_path(graph, state, JobState.STOPPED)
    assert JOB_LIFE[JobState.STOPPED] == {}


def test_an_event_that_cannot_be_is_refused() -> None:
    """A next_state that the table does not have raises rather than being passed over."""
    with pytest.raises(ImpossibleTurn, match="a job that is stopped cannot meet"):
        next_state(JobState.STOPPED, JobEvent.STOP)
