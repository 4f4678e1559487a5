"""The process that Spark forks its workers from, with what every worker needs loaded already.

Spark's own loads nothing before it forks, because it does not know which modules start threads, which do not survive a
fork. What is loaded here starts none but one of the memory allocator, which restarts it.
"""

import gc
import os

# Numeric libraries start a thread per core otherwise; and a core has a worker of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow as pa
import pyspark.worker  # noqa: F401 - to be there after the fork
from pyspark.daemon import manager

from engine.spark.batch_task import GARBAGE_GUARD

# Arrow looks for pandas, and loads it where it is installed, at its first array.
pa.array([0])

if __name__ == "__main__":
    # What is never looked at again stays shared between the workers.
    gc.collect()
    gc.freeze()
    GARBAGE_GUARD.begin()
    manager()
