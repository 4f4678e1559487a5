"""The history of a dataflow, as its tenant gets it from the service, and as `braid history` prints it."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.series import HistoryRange
from dags.problems import pointer
from manager.problem import InvalidRequest, NotFound
from manager.series.resolutions import FINEST, MOST_SERIES_STEPS, write_step
from manager.use_case import Paging
from tests.braid_client.samples import HISTORY
from tests.braid_client.scripted_service import ok
from tests.manager.braid_runner import Braid
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, leading
from tests.manager.series.samples import ONE

KNOWN = 100
"""The newest steps, all but one of which are known."""
GAP = 10
_PAGE = Paging()


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """With a dataflow of ann's, what was done in its last steps, and one of bob's that nothing is known of."""
    submitted = [(tenant, "s:source > a:map > k:sink") for tenant in ("ann", "bob")]
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather",), submitted=submitted)


@pytest.fixture
def dataflow(manager: Manager) -> str:
    (own,) = (each.id for each in manager.service.dataflows.page(ANN, _PAGE).items)
    newest = int(time.time()) // FINEST * FINEST - FINEST
    with manager.store.write() as session:
        for ago in range(KNOWN, -1, -1):
            at = newest - ago * FINEST
            assert write_step(session, manager.committer.name, at, {} if ago == GAP else {own: ONE})
    return own


def test_each_range_has_a_fitting_step(manager: Manager, dataflow: str) -> None:
    """Every figure has a value for each step, in seconds where it is a rate; what is not known is None."""
    for reach, step in zip(HistoryRange, (15, 15, 300, 300, 3_600), strict=True):
        answer = manager.service.histories.history(ANN, dataflow, reach=reach)
        count = int((answer.until - answer.since).total_seconds()) // step
        assert (step, dataflow) == (answer.step, answer.dataflow)
        assert reach.seconds // step <= count <= min(MOST_SERIES_STEPS, reach.seconds // step + 1)
        series = {name: value for name, value in answer.model_dump().items() if isinstance(value, tuple)}
        assert {count} == {len(values) for values in series.values()}
        known = {name: {value for value in values if value is not None} for name, values in series.items()}
        assert {2.0} == known["events_in_per_second"]
        assert {1.0} == known["events_out_per_second"]
        assert ({0.1}, {0.5}, {4}) == tuple(
            known[name] for name in ("latency_seconds_p50", "latency_seconds_p99", "waiting")
        )
        assert ({0.25}, {0.5}) == (known["cores"], known["cores_alone"])
    finest = manager.service.histories.history(ANN, dataflow, reach=HistoryRange.QUARTER_HOUR)
    assert 1 == finest.waiting.count(None)


def test_a_history_may_begin_at_a_time(manager: Manager, dataflow: str) -> None:
    """As far back as something is kept; one that begins in the future is refused."""
    now = datetime.now(UTC)
    answer = manager.service.histories.history(ANN, dataflow, since=now - timedelta(minutes=2))
    assert (15, True) == (answer.step, answer.since <= now - timedelta(minutes=2))
    ages = manager.service.histories.history(ANN, dataflow, since=now - timedelta(days=400))
    assert (3_600, MOST_SERIES_STEPS) == (ages.step, len(ages.waiting))
    with pytest.raises(InvalidRequest) as refused:
        manager.service.histories.history(ANN, dataflow, since=now + timedelta(minutes=1))
    assert pointer("query", "since") == refused.value.errors[0].pointer


def test_a_tenant_knows_no_history_of_another(manager: Manager, dataflow: str) -> None:
    """It gets what a missing dataflow gets; its own, of which nothing is known, is all gaps; operators see all."""
    for hidden in (dataflow, "nothing"):
        with pytest.raises(NotFound, match=hidden):
            manager.service.histories.history(BOB, hidden)
    (own,) = (each.id for each in manager.service.dataflows.page(BOB, _PAGE).items)
    assert {None} == set(manager.service.histories.history(BOB, own).events_in_per_second)
    expected = manager.service.histories.history(ANN, dataflow, reach=HistoryRange.DAY)
    assert expected == manager.service.histories.history(OPERATOR, dataflow, reach=HistoryRange.DAY)


def test_a_removed_dataflow_keeps_its_history(manager: Manager, dataflow: str) -> None:
    """Until its steps are pruned like those of others."""
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    assert {None, 4} == set(manager.service.histories.history(ANN, dataflow).waiting)


def test_a_history_is_printed_as_a_table(braid: Braid) -> None:
    """A line for each figure; in JSON, the answer as it is."""
    answer: dict[str, Any] = HISTORY | {"waiting": [3, None, 12], "cores": [None, None, None]}
    rows = [" ".join(line.split()) for line in braid("history", "d1", answers=ok(answer)).stdout.splitlines()]
    assert rows[0] == "2026-01-02 03:04:05 to 2026-01-02 03:04:35, in steps of 15 s"
    assert "waiting 12 3 12 ▃ █" in rows
    assert "cores not known" in rows
    assert HISTORY == json.loads(braid("history", "d1", "--json", answers=ok(HISTORY)).stdout)


def test_a_history_is_asked_for_by_range_or_time(braid: Braid) -> None:
    """A time takes the place of the range."""
    for words, expected in (
        ((), {"range": "1h"}),
        (("--range", "7d"), {"range": "7d"}),
        (("--since", "2026-01-02T03:04:05Z"), {"since": "2026-01-02T03:04:05+00:00"}),
    ):
        braid("history", "d1", *words, answers=ok(HISTORY))
        assert expected == dict(braid.service.asked[-1].url.params)
