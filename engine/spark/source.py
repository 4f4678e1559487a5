"""The Spark source: a batch of Spark is long, and within it batch after batch is passed on as the host answers.

What Spark does for a batch of its own costs some 40 ms of CPU, so one lasts as long as there is something to do. What
has happened in it is said by the records alone: a task of a long batch that begins again goes on behind the last one.

Spark makes a reader in a process for planning, and another wherever a long batch is read. So a reader connects to its
host only when it has to, and the modules that only reading needs are imported there. A `PaceLine` is the line to the
host, which says what the next long batch and the next batch are; workers report over it what they have recorded. Every
job has a process that plans, so this imports next to nothing.
"""

import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from engine.offset import Span


class PaceLine:
    """The line of one process for one job; it connects at its first question."""

    def __init__(self, address: str, job: str) -> None:
        """`address` is that of a `PaceServer`."""
        self._address = address
        self._job = job
        self._connection: socket.socket | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question, for which it waits as long as the host does."""
        if self._connection is None:
            self._connection = _connected(self._address)
        self._connection.sendall(json.dumps({"job": self._job, **question}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            more = self._connection.recv(65_536)
            if not more:
                raise ConnectionError(f"the host of job {self._job} is gone; it starts the job again once it is back")
            line += more
        answer: dict[str, Any] = json.loads(line)
        if "trouble" in answer:
            raise RuntimeError(answer["trouble"])
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connected(address: str) -> socket.socket:
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        return connection
    machine, port, secret = address.rsplit(":", 2)
    connection = socket.create_connection((machine, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(f"{secret}\n".encode())
    return connection


SOURCE_FORMAT = "braid"
_COLUMNS = "batch long, span string, last boolean, items binary"
"""The columns of `engine/kernel/batch_rows.py`, as a schema of Spark."""


@dataclass
class LongBatchShard(InputPartition):
    """The shard of a long batch that one reader reads, batch by batch."""

    long_batch: int
    shards: int
    shard: int


class SpoolSource(DataSource):
    """The source of the streams that enter a job; made by Spark from the options of a query."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return SOURCE_FORMAT

    def schema(self) -> str:
        """The schema of its rows: items of spools with their positions."""
        return _COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's interface
        """The reader of one query."""
        return SpoolStreamReader(dict(self.options))


class SpoolStreamReader(DataSourceStreamReader):
    """Plans and reads the long batches of one job."""

    def __init__(self, options: dict[str, str]) -> None:
        self._job = options["job"]
        self._root = options["root"]
        self._line = PaceLine(options["pace"], self._job)

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's interface
        """The offset before the first long batch."""
        return {"long_batch": 0, "shards": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's interface
        """The end of the next long batch; waits until there is something to do in it."""
        answer = self._line.ask({"long_batch": start["long_batch"]})
        return answer if "long_batch" in answer else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A task for each shard, which runs as long as the long batch."""
        return [] if start == end else [LongBatchShard(**end, shard=shard) for shard in range(end["shards"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The items that may have events of a shard, batch by batch until the long batch is over."""
        assert isinstance(partition, LongBatchShard)  # noqa: S101 - for the type checker; Spark's interface is general
        from engine.kernel.batch_rows import NUDGE, arriving, written_rows  # noqa: PLC0415 - see above
        from engine.kernel.entering_events import Portion  # noqa: PLC0415 - see above
        from engine.records.job_folder import job_folder  # noqa: PLC0415 - see above

        root = Path(self._root)
        folder = job_folder(root, self._job)
        question: dict[str, Any] = {**asdict(partition), "reader": token_hex(8), "last": None}
        while True:
            batch = self._line.ask(question)
            match batch.get("order"):
                case "end":
                    return
                case "leave":
                    # Spark does not listen to what this process would still say.
                    os._exit(1)
                case "nudge":
                    yield NUDGE
                    continue
            span = Span.of_json(batch["span"])
            # A batch may have been planned over events that the job has to pass over by now.
            entry = folder.entry(span.end.entry)
            portion = Portion(division=entry.division, shard=partition.shard)
            items = arriving(root, entry, span, folder.gone(), portion)
            looked_at, timed = batch["looked_at"], batch["timed"]
            yield from written_rows(batch["batch"], span, items, partition.shard, looked_at, timed=timed)
            yield NUDGE
            question["last"] = batch["batch"], batch["repeats"]
