"""Managers without a host: who leads, who waits, and how they begin and end."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.errors import NotDone
from bridge import topics
from tests.integration.serving import BRAID, Served, counting, runs, street

pytestmark = pytest.mark.full


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, host="none")
    made.start()
    yield made
    made.close()


def test_of_two_managers_one_leads_and_the_other_takes_over(served: Served, tmp_path: Path) -> None:
    """The second answers that it does not lead; once the first was killed it goes on with the same broker."""
    second = Served(tmp_path, host="none")
    second.begin()
    try:
        second.until(second.answers, "the second manager to answer")
        assert not second.ready()
        with second.client() as client, pytest.raises(NotDone, match="does not lead"):
            list(client.jobs())
        keeper = served.keeper
        served.kill()
        second.until(second.ready, "the second manager to lead")
        assert keeper.pid == second.keeper.pid
        assert 0 == second.stop()
        assert not runs(keeper)
    finally:
        second.close()


@pytest.mark.slow
def test_one_that_waits_takes_nothing_with_it(served: Served, tmp_path: Path) -> None:
    """Asked to stop, it leaves broker and leader alone."""
    second = Served(tmp_path, host="none")
    second.begin()
    second.until(second.answers, "the second manager to answer")
    assert second.process is not None
    second.process.terminate()
    assert 0 == second.process.wait(60.0)
    assert served.ready()
    assert runs(served.keeper)


@pytest.mark.slow
def test_a_dataflow_without_a_host_waits_and_its_plan_is_there(served: Served) -> None:
    """A host that is started elsewhere finds the plan retained, once it says that it is there."""
    with served.admit("ann") as ann:
        ann.register_source(street())
        with pytest.raises(NotDone, match="host"):
            ann.submit(counting("ann:street"))
        served.line.publish(topics.host("north", "status"), b'{"host": "north", "alive": true}', retain=True)
        with served.client() as operator:
            served.until(lambda: [host.name for host in operator.hosts()], "the host to be seen")
        dataflow = ann.submit(counting("ann:street"))
        assert (DataflowState.DEPLOYING, "job 1 has not run version 1 of its plan yet") == (
            dataflow.state,
            dataflow.reason,
        )
        served.line.subscribe([topics.job("1", "plan")])
        served.until(lambda: topics.job("1", "plan") in served.topics(), "the plan")


def test_a_port_in_use_is_named(served: Served, tmp_path: Path) -> None:
    """A manager that cannot serve ends, says what to do, and starts nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [str(BRAID), "serve", "--root", str(tmp_path / "other"), "--port", str(port), "--host", "none"]
        ended = subprocess.run(command, capture_output=True, check=False, timeout=60.0)  # noqa: S603 - our own command
    assert 1 == ended.returncode
    assert f"REST cannot be served on 127.0.0.1, port {port}" in ended.stderr.decode()
    assert not (tmp_path / "other" / "keeper").exists()
    assert served.ready()
