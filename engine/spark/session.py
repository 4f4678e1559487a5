"""The Spark session of a host, configured so that a batch costs little."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.spark.class_archive import recording_classes, using_archive
from engine.spark.forked_python import forking_python
from engine.spark.home import find_spark, jars_to_find_first
from engine.spark.java import find_java
from engine.spark.local_files import use_plain_files

_MOST_FAILURES = 8
"""The number of tries of a batch before its job is started again; a task to blame is found in fewer."""
LOCAL_SLOTS = 1_000
"""The shards of long batches that may run at once on one machine."""
_LOCAL_CORES = "spark.default.parallelism"
"""The setting that keeps how many cores a local session has; without it a query would have a task for each slot."""
_JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    # Otherwise it writes its state to a file twenty times a second, for tools that nobody uses here.
    "-XX:-UsePerfData "
    # Many objects of each batch ask for a logger, and by default each time the stack is searched for the caller.
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
)
_DRIVER_JVM = (
    "-Xss4m "
    # The heap is as small as what lives in it allows: batches leave little behind.
    "-Xms16m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # A row is passed on once it is written, and not only with others.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "64",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # A batch has few rows, however many events: generated code, and the search for it, would cost more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nobody reads the plan of a batch, or the places in the program that it comes from.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.task.maxFailures": str(_MOST_FAILURES),
    # The long batch that waited longest for a slot is next. Fair pools choose by name if all are idle: with more jobs
    # than slots, the last ones in the alphabet would never have a turn.
    "spark.scheduler.mode": "FIFO",
}
_LOCAL_SETTINGS = {
    # Nothing on the network has to reach a local application.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # It looks at dozens of figures of the JVM to tell another part of the same JVM that it lives.
    "spark.executor.heartbeatInterval": "60s",
    # Otherwise as many as there are slots.
    "spark.rpc.netty.dispatcher.numThreads": "2",
    # Only for files on this machine: the default manager starts some 40 processes for each batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Only on this machine: workers that are sent their code do not have the module before they have started.
    "spark.python.daemon.module": "engine.spark.worker_daemon",
}


def start_session(name: str, *, master: str | None = None, recording: Path | None = None) -> SparkSession:
    """Start the application; without a master, a local one with all cores.

    `recording` is where the JVM writes the names of the classes that it loads.
    """
    find_java(os.environ)
    find_spark(os.environ)
    master, cores = slotted_master(master or "local")
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        # It loads its modules while the JVM starts.
        python = forking_python(python)
    builder = SparkSession.builder.appName(name).master(master)
    builder = builder.config("spark.driver.extraClassPath", jars_to_find_first(os.environ))
    classes = using_archive(os.environ) if recording is None else recording_classes(recording)
    builder = builder.config("spark.driver.extraJavaOptions", f"{_JVM} {_DRIVER_JVM} {classes}".strip())
    local = _LOCAL_SETTINGS | {_LOCAL_CORES: str(cores)} if is_local(master) else {}
    for key, value in (_SETTINGS | local).items():
        builder = builder.config(key, value)
    # Each thread of the JVM would have memory of its own to allocate from.
    with _environment(PYSPARK_PYTHON=python, MALLOC_ARENA_MAX="2"):
        session = builder.getOrCreate()
    if is_local(master):
        use_plain_files(session)
    _keep_no_history(session)
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Start processes with some variables, which this one does not keep."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _keep_no_history(session: SparkSession) -> None:
    """Have Spark keep nothing of each batch for its web pages, which are off; there is no setting for that."""
    context: Any = session.sparkContext
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    pages = scala.statusStore(), session._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - or to this
    for each in pages:
        scala.listenerBus().removeListener(each.listener().get())


def is_local(master: str) -> bool:
    """Whether a master runs on this machine alone, with its code and files."""
    return master.startswith("local")


def slotted_master(master: str) -> tuple[str, int | None]:
    """A master with slots for many long batches, and the cores that its name says; None for those of a cluster.

    A local one also has to say how often a task is retried. What it calls cores are threads, and a thread that waits
    for the next batch takes no CPU.

    >>> slotted_master("local[2]"), slotted_master("spark://there:7077")
    (('local[1000,8]', 2), ('spark://there:7077', None))
    """
    if match := re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master):
        cores = match[1] if match[1] not in {None, "*"} else os.cpu_count()
        return f"local[{LOCAL_SLOTS},{_MOST_FAILURES}]", int(cores or 1)
    return master, None
