"""The pace server: what Spark's processes ask and report."""

import math
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engine.job.pace_server import PaceServer
from engine.offset import Offset
from engine.port_events import PortSample, SampledPort
from engine.spark.source import PaceLine
from tests.engine.job.test_pace_keeper import BOUND, Scene

Lines = Callable[[str], PaceLine]
FIRST = Offset(run=1, entry=1, at={"a": 0}).as_json()
READS = {"long_batch": 1, "shards": 1, "shard": 0, "reader": "r"}


@pytest.fixture(params=["here", "network"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PaceServer]:
    """A server that is reached on this machine, and one for a cluster."""
    made = PaceServer(tmp_path / "pace" if request.param == "here" else "127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def lines(server: PaceServer) -> Iterator[Lines]:
    """Makes lines of jobs to the server."""
    with ExitStack() as stack:
        yield lambda job: stack.enter_context(closing(PaceLine(server.address, job)))


def test_a_long_batch_is_asked_for_read_and_recorded(server: PaceServer, lines: Lines) -> None:
    """Each question is answered by the keeper of its job, and a reported record leads to the next batch."""
    scene = Scene()
    server.add("j", scene.keeper)
    line = lines("j")
    assert {"long_batch": 1, "shards": 1} == line.ask({"long_batch": 0})
    span = {"start": Offset().as_json(), "end": FIRST, "early": {}}
    first = {"batch": 0, "repeats": 0, "span": span, "looked_at": [], "timed": False}
    assert first == line.ask({**READS, "last": None})
    scene.put("a")
    scene.records.recorded[0] = Offset.of_json(FIRST)
    assert {} == lines("j").ask({"recorded": 0})
    assert {**FIRST, "at": {"a": 1}} == line.ask({**READS, "last": (0, 0)})["span"]["end"]
    assert 1 == scene.ended


def test_a_batch_is_given_with_the_instances_that_are_looked_at(server: PaceServer, lines: Lines) -> None:
    """And what a worker has sampled of them is kept."""
    scene = Scene()
    server.add("j", scene.keeper)
    scene.keeper.looks.renew(7, 60.0)
    line = lines("j")
    line.ask({"long_batch": 0})
    assert [7] == line.ask({**READS, "last": None})["looked_at"]
    sample = PortSample(SampledPort(7, "in", is_input=True), 3, ("{}",))
    assert {} == line.ask({"recorded": None, "sampled": [sample], "of": [7]})
    assert [(7, 3)] == [(seen.instance, seen.ports[0].count) for seen in scene.keeper.looks.news()]


def test_without_its_job_every_long_batch_is_over(server: PaceServer, lines: Lines) -> None:
    """A query whose job was stopped or never known ends by itself."""
    scene = Scene()
    server.add("j", scene.keeper)
    assert {"long_batch": 1, "shards": 1} == lines("j").ask({"long_batch": 0})
    server.remove("j")
    assert {"order": "end"} == lines("j").ask({**READS, "last": None})
    assert {"order": "end"} == lines("another").ask({"long_batch": 0})


def test_a_stream_is_due_for_the_first_job_that_reads_it(server: PaceServer) -> None:
    """And never if none does."""
    early, late = Scene("raw", pace=60.0), Scene("raw", "b", pace=120.0)
    for job, scene in (("early", early), ("late", late)):
        scene.warmed()
        server.add(job, scene.keeper)
    expected = [early.keeper.due("raw", 0.0), late.keeper.due("b", 0.0), math.inf]
    assert expected == [server.due(stream, 0.0) for stream in ("raw", "b", "other")]


def test_an_error_is_reported_to_the_query(server: PaceServer, lines: Lines) -> None:
    """An index that cannot be read fails the query that needs it, with the reason."""
    scene = Scene()
    server.add("j", scene.keeper)
    scene.spools.clear()
    with pytest.raises(RuntimeError, match="KeyError: 'a'"):
        lines("j").ask({"long_batch": 0})


def test_a_worker_that_ends_is_noticed(server: PaceServer, lines: Lines) -> None:
    """The reader that waits for its record passes something on, so that Spark notices it too."""
    scene = Scene()
    server.add("j", scene.keeper)
    reader, worker = lines("j"), lines("j")
    reader.ask({"long_batch": 0})
    reader.ask({**READS, "last": None})
    worker.ask({"recorded": None})
    worker.close()
    assert {"order": "nudge"} == reader.ask({**READS, "last": (0, 0)})


def test_over_the_network_only_who_knows_the_secret_is_answered() -> None:
    """Anybody on the network may connect."""
    server = PaceServer("127.0.0.1")
    try:
        scene = Scene()
        server.add("j", scene.keeper)
        machine, port, _ = server.address.split(":")
        with (
            closing(PaceLine(f"{machine}:{port}:guessed", "j")) as line,
            pytest.raises(ConnectionError, match="the host of job j is gone"),
        ):
            line.ask({"long_batch": 0})
        with socket.create_connection((machine, int(port)), BOUND) as guessing:
            guessing.sendall(b"\n")
            assert b"" == guessing.recv(1)
    finally:
        server.close()
