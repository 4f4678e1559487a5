"""The Spark source: asks the host where each batch ends, and reads the spools up to there.

Spark makes a reader in a process for planning, and another wherever a batch is read. So a reader connects only when it
has to, and the modules that only reading needs are imported there: every job has a process that plans.
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
"""The columns of `engine/kernel/batch_rows.py`, as a schema of Spark."""


@dataclass
class BatchShard(InputPartition):
    """The span that one shard of a batch reads; its first row holds both for the kernel."""

    start: dict[str, Any]
    end: dict[str, Any]
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
    """Plans and reads the batches of one job."""

    def __init__(self, options: dict[str, str]) -> None:
        self._job = options["job"]
        self._root = options["root"]
        self._pace = options["pace"]
        self._connection: socket.socket | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's interface
        """The offset before the first batch."""
        return Offset().as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's interface
        """The end of the next batch; waits until that batch should begin."""
        if self._connection is None:
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.connect(self._pace)
        self._connection.sendall(json.dumps({"job": self._job, "start": start}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            more = self._connection.recv(65_536)
            if not more:
                raise ConnectionError(f"the host of job {self._job} is gone; it starts the job again once it is back")
            line += more
        answer: dict[str, Any] = json.loads(line)
        if "trouble" in answer:
            raise RuntimeError(answer["trouble"])
        end: dict[str, Any] = answer["end"]
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A task for each shard of the batch."""
        return [] if start == end else [BatchShard(start, end, shard) for shard in range(end["shards"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The items of a batch that may have events of a shard."""
        from bridge import PositionsGone  # noqa: PLC0415 - see above

        assert isinstance(partition, BatchShard)  # noqa: S101 - for the type checker; Spark's interface is general
        from engine.kernel.batch_rows import Span, arriving, is_recorded, written_rows  # noqa: PLC0415 - see above
        from engine.kernel.portion import Portion  # noqa: PLC0415 - see above
        from engine.records.job_folder import job_folder  # noqa: PLC0415 - see above

        span = Span(Offset.of_json(partition.start), Offset.of_json(partition.end))
        root = Path(self._root)
        folder, begun = job_folder(root, self._job), False
        try:
            # A batch may have been planned over events that the job has to pass over by now.
            entry = folder.entry(span.end.entry)
            portion = Portion(division=entry.division, shard=partition.shard)
            items = arriving(root, entry, span, folder.gone(), portion)
            for rows in written_rows(span, items, partition.shard):
                begun = True
                yield rows
        except PositionsGone:
            # A job that is stopped leaves its spools, even if Spark has not committed all that it has recorded. A batch
            # that has a record does not need its events again.
            if not is_recorded(folder, span):
                raise
            if not begun:
                yield from written_rows(span, (), partition.shard)
