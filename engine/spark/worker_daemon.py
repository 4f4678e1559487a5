"""The process that Spark forks its workers from, with the modules that every worker needs loaded already.

Spark's own daemon loads nothing before it forks: modules may start threads, which do not survive a fork. The modules
here start only one of the memory allocator, which restarts it.
"""

import gc
import os

# Otherwise numeric libraries start a thread per core, but each core has its own worker.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow as pa
import pyspark.worker  # noqa: F401 - loaded before the fork
from pyspark.daemon import manager

import engine.tasks  # noqa: F401 - whatever a job does, its worker needs the types
from engine.spark.batch_task import GARBAGE_GUARD

# With its first array Arrow loads pandas, if that is installed.
pa.array([0])

if __name__ == "__main__":
    # Objects that no collection scans stay shared between the workers.
    gc.collect()
    gc.freeze()
    GARBAGE_GUARD.begin()
    manager()
