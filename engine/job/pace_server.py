"""The pace server of a host, which the processes of Spark ask and report to.

It passes on what they say to the keepers of their jobs. They reach it at a socket, or on a cluster over the network, by
a secret that Spark hands them.
"""

import json
import math
import secrets
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.job.pace_keeper import LongBatch, PaceKeeper, ReaderOrder
from engine.spark.session import is_local


class PaceServer:
    """Answers the processes that plan and read, and hears from those that run batches."""

    def __init__(self, place: Path | str) -> None:
        """`place` is the path of a socket, or the address where the executors of a cluster reach this machine."""
        self._keepers: dict[str, PaceKeeper] = {}
        self._server: _UnixServer | _NetworkServer
        if isinstance(place, Path):
            self._server = _UnixServer(str(place), _Connection)
            self.address = str(place)
        else:
            self._server = _NetworkServer((place, 0), _Connection)
            # A process that knows it may ask: Spark hands it to those of its application.
            self._server.secret = secrets.token_hex(16)
            self.address = f"{place}:{self._server.server_address[1]}:{self._server.secret}"
        self._server.pace = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="pace", daemon=True)
        self._thread.start()

    def add(self, job: str, keeper: PaceKeeper) -> None:
        """Pass a job's questions to its keeper from now on."""
        self._keepers[job] = keeper

    def remove(self, job: str) -> None:
        """Answer a job's questions at once from now on."""
        if (keeper := self._keepers.pop(job, None)) is not None:
            keeper.stop()

    def note_growth(self, stream: str, marked: bool) -> None:  # noqa: FBT001 - a spool passes it by position
        """Notify the keepers that a stream has grown, perhaps by a marker; from any thread."""
        for keeper in list(self._keepers.values()):
            keeper.note_growth(stream, marked=marked)

    def due(self, stream: str, after: float) -> float:
        """When the next batch after a time may begin that reads on in a stream, in any job; from any thread."""
        return min((keeper.due(stream, after) for keeper in list(self._keepers.values())), default=math.inf)

    def close(self) -> None:
        """Stop answering."""
        for job in list(self._keepers):
            self.remove(job)
        self._server.shutdown()
        self._server.server_close()
        if isinstance(self._server, _UnixServer):
            Path(self.address).unlink(missing_ok=True)

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, object]:
        """The answer to a question; from any thread."""
        keeper = self._keepers.get(question["job"])
        try:
            return {"order": ReaderOrder.END} if keeper is None else _answered(keeper, question)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query has to fail with it
            return {"trouble": f"{type(error).__name__}: {error}"}

    def note_lost_worker(self, job: str) -> None:
        """Note that a worker of a job has ended; from any thread."""
        if (keeper := self._keepers.get(job)) is not None:
            keeper.note_lost_worker()


def begin_pace_server(session: SparkSession, folder: Path) -> PaceServer:
    """Begin to answer the processes of a session: those of a cluster over the network, else at a socket in a folder."""
    context = session.sparkContext
    is_here = is_local(context.master or "")
    return PaceServer(folder / "pace" if is_here else str(context.getConf().get("spark.driver.host")))


def _answered(keeper: PaceKeeper, question: Mapping[str, Any]) -> Mapping[str, object]:
    """The answer to a question; empty if there is nothing to answer."""
    if (timed := question.get("timed")) is not None:
        keeper.traced.note(*timed)
    if "recorded" in question:
        # A worker that begins has recorded nothing.
        if question["recorded"] is not None:
            keeper.note_record(question["recorded"])
        keeper.looks.note(question.get("of", ()), question.get("sampled", ()))
        return {}
    if "raised" in question:
        keeper.note_raised(question["raised"])
        return {}
    if "shards" not in question:
        following = keeper.long_batch_after(question["long_batch"])
        return {} if following is None else {"long_batch": following.number, "shards": following.shards}
    long_batch = LongBatch(question["long_batch"], question["shards"])
    last = question["last"]
    batch = keeper.batch_after(long_batch, question["shard"], question["reader"], last and (last[0], last[1]))
    if isinstance(batch, ReaderOrder):
        return {"order": batch}
    return {
        "batch": batch.number,
        "repeats": batch.repeats,
        "span": batch.span.as_json(),
        "looked_at": keeper.looks.instances(),
        "timed": keeper.is_timed(batch),
    }


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    pace: PaceServer
    secret = ""


class _NetworkServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    pace: PaceServer
    secret: str


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _UnixServer | _NetworkServer)  # noqa: S101 - for the type checker; the base class has the general type
        worker_of: str | None = None
        try:
            if server.secret and not secrets.compare_digest(self.rfile.readline(), f"{server.secret}\n".encode()):
                return
            for line in self.rfile:
                question = json.loads(line)
                worker_of = question["job"] if "recorded" in question else None
                self.wfile.write(json.dumps(server.pace.answer(question)).encode() + b"\n")
        except ConnectionError:
            # Spark has ended the process that asked.
            pass
        if worker_of is not None:
            server.pace.note_lost_worker(worker_of)
