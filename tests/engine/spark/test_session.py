"""The session that batches run in does nothing that nobody asked for."""

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
# Whatever was told of it has been taken up by then.
context.listenerBus().waitUntilEmpty()
print(json.dumps([context.statusStore().jobsList(None).size(), state.statusStore().executionsCount()]))
session.stop()
"""


@pytest.mark.spark
def test_no_history_is_kept_of_what_ran() -> None:
    """Spark notes neither the job of a query nor its plan, which a session as it comes does for its pages."""
    command = [sys.executable, "-c", SCRIPT]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    assert [0, 0] == json.loads(told)
