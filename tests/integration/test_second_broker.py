"""A second broker in the place of one that is lost with all that it kept: behind one address, as two have it."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from braid_client.answers.dataflows import DataflowState
from bridge.broker import start_broker
from tests.integration.serving import Served, counting, street
from tests.integration.test_sending import CHUNK, Listener, sent
from workloads.service import free_port

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto]


def test_nothing_that_was_answered_is_lost_with_a_broker(tmp_path: Path) -> None:
    """The second one knows no session, no plan and no status; every event that was sent over REST counts once."""
    port, users = free_port(), {"braid": "secret"}
    settings = {"BRAID_BROKER": f"mqtt://braid:secret@127.0.0.1:{port}"}
    served = Served(tmp_path, pace=0.2, placement="launch", settings=settings)
    with ExitStack() as stack:
        lost = stack.enter_context(start_broker(tmp_path / "first", users, port=port))
        stack.callback(served.close)
        served.start()
        client = stack.enter_context(served.admit("ann"))
        client.register_source(street())
        # The second one reads what the first one forwards, so a stream between jobs is under way too.
        first, second = (client.submit(counting("street", name)) for name in ("one", "two"))
        served.until_state(client, second.id, DataflowState.RUNNING)
        heard = [Listener(served, each.id) for each in (first, second)]
        for number in range(0, 500, CHUNK):
            sent(client, "street", number, producer="p")
            if number == 200:
                for each in heard:
                    each.until(number + CHUNK)
                os.kill(lost.pid, signal.SIGKILL)
                stack.enter_context(start_broker(tmp_path / "second", users, port=port))
        for each in heard:
            assert [{"k": "a", "count": count} for count in range(1, 501)] == each.until(500)
