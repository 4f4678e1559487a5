"""The Spark query of a job: it is started, watched, stopped, and cancelled if it does not stop."""

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types

from engine.spark.batch_task import RESULT, answer
from engine.spark.named_workers import workers_named
from engine.spark.source import SOURCE_FORMAT, SpoolSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ENDING = 1.0
"""Seconds within which a long batch should end whose job is stopped."""


class JobQuery:
    """One query of a job; started when it is made."""

    def __init__(  # noqa: PLR0913 - where it runs, what, as whom, and with what beside it are six things
        self, session: "SparkSession", job: str, *, root: Path, checkpoint: Path, pace: str, workers: str = ""
    ) -> None:
        """`pace` is where Spark's processes ask what to run, `workers` the name of these processes."""
        self._job = job
        self._session = session
        self._stopping: threading.Thread | None = None
        with workers_named(session, workers):
            # Registered anew for each query: Spark writes to what is registered whenever one of its queries begins. Two
            # that begin at once can leave it in a state in which no task can be read any more until the JVM ends.
            session.dataSource.register(SpoolSource)
            batches = (
                session.readStream.format(SOURCE_FORMAT)
                .option("job", job)
                .option("root", str(root))
                .option("pace", pace)
                .load()
                .mapInArrow(partial(answer, str(root), job, pace), RESULT)
            )
        try:
            self._query = (
                batches.writeStream.format("noop")
                .queryName(job)
                # Without the scheme a cluster would take it for a folder of its own file system.
                .option("checkpointLocation", f"file://{checkpoint}")
                .trigger(processingTime="0 seconds")
                .start()
            )
        except Py4JJavaError as error:
            # It writes its checkpoint first, and the disk may be full.
            raise OSError(f"Spark cannot begin the query: {error.java_exception.toString()}") from error

    def is_active(self) -> bool:
        """Whether it still runs; asks the JVM."""
        return bool(self._query.isActive)

    def failure(self) -> str:
        """The reason that it runs no longer."""
        return str(self._query.exception() or "the query ended by itself")

    def stop(self, has_ended: threading.Event) -> None:
        """Begin to stop it, once its long batch has ended, or after a moment."""

        def stop() -> None:
            # Spark would abort it.
            has_ended.wait(_ENDING)
            self._query.stop()

        self._stopping = threading.Thread(target=stop, name=f"stops {self._job}", daemon=True)
        self._stopping.start()

    def is_stopping(self) -> bool:
        """Whether it was asked to stop, and has not stopped yet."""
        return self._stopping is not None and self._stopping.is_alive()

    def cancel(self) -> None:
        """Cancel the batch that keeps it from stopping."""
        # Spark groups the tasks of a query under the id of its run.
        self._session.sparkContext.cancelJobGroup(str(self._query.runId))
