"""The Spark application of a host: its session, set so that a batch costs little."""

import os
import re
import sys
from typing import Any

from pyspark.sql import SparkSession

from engine.spark.home import find_spark, jars_to_find_first
from engine.spark.java import find_java
from engine.spark.local_files import use_plain_files

_MOST_FAILURES = 8
"""How often one batch is tried before its job is started again; a task to blame is found in fewer."""
_JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    # Else it notes twenty times a second how it is, in a file for tools that nobody uses here.
    "-XX:-UsePerfData "
    # Many objects of each batch ask for a logger, and the usual way looks through the stack each time for whom that is.
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
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
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # A batch has few rows, however many events: to write code for them, and to find it again, costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nobody reads the plan of a batch, nor where in a program its parts were asked for.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.driver.extraJavaOptions": f"{_JVM} -Xss4m",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.task.maxFailures": str(_MOST_FAILURES),
    # A batch is one task, so that who waited longest is next. Fair pools choose by name where all are idle, and with
    # more jobs than cores the last ones in the alphabet would never have a turn.
    "spark.scheduler.mode": "FIFO",
}
_LOCAL_SETTINGS = {
    # Nobody on the network has to reach what runs here alone.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Only where files are this machine's own: the default manager starts some 40 processes for each batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Workers that are sent their code do not have the module before they have started.
    "spark.python.daemon.module": "engine.spark.worker_daemon",
}


def start_session(name: str, *, master: str | None = None) -> SparkSession:
    """Start the application; a local one with all cores where no master is named."""
    find_java(os.environ)
    find_spark(os.environ)
    master = retrying(master or "local")
    # Workers are started by name; the one found first may be another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    builder = builder.config("spark.driver.extraClassPath", jars_to_find_first(os.environ))
    for key, value in (_SETTINGS | (_LOCAL_SETTINGS if is_local(master) else {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if is_local(master):
        use_plain_files(session)
    _keep_no_history(session)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _keep_no_history(session: SparkSession) -> None:
    """Have Spark note nothing of each batch for its own pages, which are off; there is no setting for that."""
    context: Any = session.sparkContext
    scala = context._jsc.sc()  # noqa: SLF001 - PySpark has no other way to it
    pages = scala.statusStore(), session._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - nor to this
    for each in pages:
        scala.listenerBus().removeListener(each.listener().get())


def is_local(master: str) -> bool:
    """Whether a master means this machine alone, with the code and the files that are here."""
    return master.startswith("local")


def retrying(master: str) -> str:
    """A master under which a batch that failed is tried again, which a local one does only when it is told to.

    >>> retrying("local"), retrying("local[2]"), retrying("local[2,4]"), retrying("spark://there:7077")
    ('local[*,8]', 'local[2,8]', 'local[2,4]', 'spark://there:7077')
    """
    if match := re.fullmatch(r"local(?:\[(\d+|\*)\])?", master):
        return f"local[{match[1] or '*'},{_MOST_FAILURES}]"
    return master
