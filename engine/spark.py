"""The Spark application of a host: its session, set so that a batch costs little."""

import os
import re
import sys

from pyspark.sql import SparkSession

from engine.java import find_java
from engine.local_files import use_plain_files
from engine.spark_home import find_spark, jars_to_find_first

FAILURES = 8
"""How often one batch is tried before its job is started again; a task to blame is found in fewer."""
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
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.task.maxFailures": str(FAILURES),
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
    "spark.python.daemon.module": "engine.worker_daemon",
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
    session.sparkContext.setLogLevel("ERROR")
    return session


def is_local(master: str) -> bool:
    """Whether a master means this machine alone, with the code and the files that are here."""
    return master.startswith("local")


def retrying(master: str) -> str:
    """A master under which a batch that failed is tried again, which a local one does only when it is told to.

    >>> retrying("local"), retrying("local[2]"), retrying("local[2,4]"), retrying("spark://there:7077")
    ('local[*,8]', 'local[2,8]', 'local[2,4]', 'spark://there:7077')
    """
    if match := re.fullmatch(r"local(?:\[(\d+|\*)\])?", master):
        return f"local[{match[1] or '*'},{FAILURES}]"
    return master
