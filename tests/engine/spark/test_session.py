"""The Spark session does no unnecessary work."""

import json
import subprocess
import sys

import pytest

from engine.spark.session import LOCAL_SLOTS

SCRIPT = """
import json
import psutil
from engine.spark.session import start_session

session = start_session("history", master="local[1]")
assert 3 == session.range(3).count()
context, state = session.sparkContext._jsc.sc(), session._jsparkSession.sharedState()
# The listeners have taken up all that happened by then.
context.listenerBus().waitUntilEmpty()
jvm = psutil.Process(session.sparkContext._gateway.proc.pid)
kept = context.statusStore().jobsList(None).size(), state.statusStore().executionsCount()
print(json.dumps([*kept, jvm.num_threads()]))
session.stop()
"""


@pytest.fixture(scope="module")
def kept() -> list[int]:
    """The queries and plans that a session has kept after one query, and the threads of its JVM."""
    command = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    return [int(number) for number in json.loads(output)]


@pytest.mark.spark
def test_no_history_of_queries_is_kept(kept: list[int]) -> None:
    """Spark keeps neither the jobs of a query nor its plan, as a default session does for its web pages."""
    assert [0, 0] == kept[:2]


@pytest.mark.spark
def test_slots_cost_no_threads(kept: list[int]) -> None:
    """Each would take memory, although nothing runs in most slots."""
    assert kept[2] < LOCAL_SLOTS
