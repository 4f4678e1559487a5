"""Retired topics: which changes retire them, how long they are known, and when they may be cleared."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.sources import SourceForm
from dags import Catalogue
from engine.job.lifecycle import JobState
from engine.tasks import TYPES
from manager.jobs.decisions import Memory, decide
from manager.kernel.retired_topics import RetiredTopic
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from manager.outputs.retained import has_left
from merge import JobId
from tests.manager.managers import OPERATOR, Manager, caller, raw

ANN = caller("ann")
TOPIC = RetiredTopic(id="1", dataflow="d", sink="s", topic="ann/+", job=JobId(3), version=7)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A service with one source."""
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    form = {"name": "s", "owner": "ann", "connection": {"kind": "topic", "topic": "raw"}, "schema": {"t": "float"}}
    made.service.sources.register(OPERATOR, SourceForm.model_validate({**form, "visibility": "public"}))
    yield made
    made.close()


def counts(**settings: Any) -> str:
    """A dataflow that counts, with settings of its output."""
    return f"s:source{{'source': 'ann:s'}} > c:count{{'by': ['t']}} > out:output{settings}"


def retired(manager: Manager) -> list[tuple[str, str]]:
    """The retired topics, each with its dataflow."""
    return sorted((topic.dataflow, topic.topic) for topic in manager.changes.retired_topics.under_way())


def test_a_topic_is_retired_once_nothing_is_retained_there(manager: Manager, sqlite: str) -> None:
    """When its dataflow goes, or is replaced by one that retains nothing there; nothing else counts."""
    dataflow = manager.submit("ann", counts(format="plain", topic="ann/x", retain=True))
    manager.service.dataflows.replace(ANN, dataflow, raw(counts(format="csv", topic="ann/x", retain=True)))
    assert [] == retired(manager)
    manager.service.dataflows.replace(ANN, dataflow, raw(counts(format="csv", topic="ann/y", retain=True)))
    assert [(dataflow, "ann/x")] == retired(manager)
    manager.service.dataflows.replace(ANN, dataflow, raw(counts(format="csv", topic="ann/y")))
    assert [(dataflow, "ann/x"), (dataflow, "ann/y")] == retired(manager)
    other = manager.submit("bob", counts(format="plain", retain=True))
    enveloped = manager.submit("bob", counts(retain=True))
    for gone in (dataflow, other, enveloped):
        manager.service.dataflows.remove(OPERATOR, gone, Stop.NOW)
    wanted = [
        (dataflow, "ann/x"),
        (dataflow, "ann/y"),
        (other, f"braid/1/out/bob/{other}/out/plain"),
        (enveloped, f"braid/1/out/bob/{enveloped}/out"),
    ]
    assert sorted(wanted) == retired(manager)
    again = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    assert sorted(wanted) == retired(again)
    for topic in again.changes.retired_topics.under_way():
        again.changes.retired_topics.cleared(topic)
    assert [] == retired(again)
    again.close()
    manager.lead()
    assert [] == retired(manager)


def seen(**report: Any) -> JobSeen:
    """A report of a job."""
    return JobSeen(job="3", **{"host": "h", "state": JobState.RUNNING, "seen": datetime.now(UTC), **report})


@pytest.mark.parametrize(
    ("report", "wanted", "may"),
    [
        (None, True, False),
        (None, False, True),
        (seen(leaving=7), True, False),
        (seen(leaving=8), True, True),
        (seen(leaving=7, state=JobState.STOPPED), True, False),
        (seen(leaving=8, state=JobState.STOPPED), True, True),
        (seen(), True, False),
        (seen(state=JobState.STOPPED), True, True),
    ],
)
def test_topics_are_cleared_once_nothing_of_before_can_leave(
    report: JobSeen | None, *, wanted: bool, may: bool
) -> None:
    """Not even after a crash; a job that nobody has seen and nobody wants has nothing to send."""
    assert may == has_left(TOPIC, report, wanted=wanted)


def test_a_job_is_known_until_it_has_said_that_all_has_left() -> None:
    """Though it has stopped, it is not forgotten while topics await that."""
    sight = Sight(complete=True, jobs={"3": JobSight(seen=seen(state=JobState.STOPPED))})
    assert frozenset() == decide({}, sight, Memory(), 0.0, awaited=frozenset({"3"})).gone
    assert {"3"} == decide({}, sight, Memory(), 0.0).gone
