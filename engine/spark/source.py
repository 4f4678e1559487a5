"""The Spark source: asks the host where each batch ends, and reads the spools up to there.

Spark makes the reader anew in a process for planning, and again wherever a batch is read, so that nothing is connected
before it is needed. For the same reason what only reading needs is imported there: every job has a process that
plans.
"""

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from engine.offset import Offset

SOURCE_FORMAT = "braid"
_COLUMNS = "stream string, first long, count long, stamp long, payload binary, births string"
"""What `engine/kernel/batch_rows.py` makes, as Spark names it."""


@dataclass
class Batch(InputPartition):
    """What one batch reads; its rows begin with one that says so, for the kernel."""

    start: dict[str, Any]
    end: dict[str, Any]


class SpoolSource(DataSource):
    """The streams that enter a job; made by Spark from the options of a query."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return SOURCE_FORMAT

    def schema(self) -> str:
        """What the kernel takes: items of spools with their positions."""
        return _COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's interface
        """The reader of one query."""
        return SpoolStreamReader(dict(self.options))


class SpoolStreamReader(DataSourceStreamReader):
    """Plans and reads the batches of one job."""

    def __init__(self, options: dict[str, str]) -> None:
        self._job = options["job"]
        self._root = options["root"]
        self._pace = options["pace"]
        self._asking: socket.socket | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's interface
        """Before the first batch."""
        return Offset().as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's interface
        """Where the next batch ends; waits until it should begin."""
        if self._asking is None:
            self._asking = socket.socket(socket.AF_UNIX)
            self._asking.connect(self._pace)
        self._asking.sendall(json.dumps({"job": self._job, "start": start}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            more = self._asking.recv(65_536)
            if not more:
                raise ConnectionError(f"the host of job {self._job} is gone; it starts the job again once it is back")
            answer += more
        told: dict[str, Any] = json.loads(answer)
        if "trouble" in told:
            raise RuntimeError(told["trouble"])
        end: dict[str, Any] = told["end"]
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for the whole batch."""
        return [] if start == end else [Batch(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The items of a batch."""
        from bridge import PositionsGone  # noqa: PLC0415 - see above

        assert isinstance(partition, Batch)  # noqa: S101 - tells the type checker what Spark's interface cannot
        from engine.kernel.batch_rows import Span, arriving, is_recorded, written_rows  # noqa: PLC0415 - see above
        from engine.records.job_folder import job_folder  # noqa: PLC0415 - see above

        span = Span(Offset.of_json(partition.start), Offset.of_json(partition.end))
        root = Path(self._root)
        folder, begun = job_folder(root, self._job), False
        try:
            # What the job was told to pass over may lie in a batch that was planned before.
            items = arriving(root, folder.entry(span.end.entry), span, folder.gone())
            for rows in written_rows(span, items):
                begun = True
                yield rows
        except PositionsGone:
            # A job that is stopped leaves its spools, also when Spark has not yet committed what it has recorded; of a
            # batch that has a record nobody looks at the events again.
            if not is_recorded(folder, span):
                raise
            if not begun:
                yield from written_rows(span, ())
