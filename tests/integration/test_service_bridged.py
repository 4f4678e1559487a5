"""The service where every task is a job of its own: streams cross bridges, and are begun and ended in order."""

from collections.abc import Iterator

import pytest

from braid_client.answers.dataflows import DataflowState
from tests.integration.hosting import QUICK, counted, numbers
from tests.integration.serving import Served, counting, passing, serving, street

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose pace is so quick that no two tasks fit into one job."""
    with serving(Served(tmp_path_factory.mktemp("bridged"), pace=QUICK)) as made:
        yield made


def test_dataflows_over_many_jobs_come_and_go_without_loss(served: Served) -> None:
    """What the first had in common with the second goes on when it leaves; when both left, no job and no word stays."""
    with served.admit("ann") as ann, served.client() as operator:
        ann.register_source(street())
        _ = served.line
        first = ann.submit(counting("ann:street"))
        served.until_state(ann, first.id, DataflowState.RUNNING)
        served.publish("city/street", numbers(0, 5))
        assert counted(numbers(0, 5)) == served.until_delivered(first, "out", 5)
        second = ann.submit(passing("ann:street", 1_000))
        served.until_state(ann, second.id, DataflowState.RUNNING)
        # Of each task behind the one that both share, and of its own bridge.
        assert len({job.job for job in operator.jobs()}) > 3
        served.publish("city/street", numbers(5, 9))
        assert counted(numbers(0, 9)) == served.until_delivered(first, "out", 9)
        assert numbers(5, 9) == served.until_delivered(second, "out", 4)
        ann.remove(first.id)
        served.publish("city/street", numbers(9, 12))
        assert numbers(5, 12) == served.until_delivered(second, "out", 7)
        ann.remove(second.id)
        served.until(lambda: [] == list(operator.jobs()), "no job")
        served.until(lambda: not any(host.jobs for host in operator.hosts()), "no job on the host")
        served.until(lambda: served.retained() == [], "nothing of the jobs at the broker")
