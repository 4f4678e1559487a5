"""The Spark session does no unnecessary work."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json
from engine.spark.session import start_session

session = start_session("history", master="local[1]")
assert 3 == session.range(3).count()
context, state = session.sparkContext._jsc.sc(), session._jsparkSession.sharedState()
# The listeners have taken up all that happened by then.
context.listenerBus().waitUntilEmpty()
print(json.dumps([context.statusStore().jobsList(None).size(), state.statusStore().executionsCount()]))
session.stop()
"""


@pytest.mark.spark
def test_no_history_of_queries_is_kept() -> None:
    """Spark keeps neither the jobs of a query nor its plan, as a default session does for its web pages."""
    command = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    assert [0, 0] == json.loads(output)
