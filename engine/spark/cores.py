"""The cores of a Spark application: those of the executors that it has now."""

import math
from typing import TYPE_CHECKING, Any

from engine.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SLOTS_PER_CORE = "spark.braid.slotsPerCore"
"""The setting by which the operator of a cluster says how many of its workers' cores in name are one core."""


def cores_of(session: "SparkSession") -> int:
    """The cores of this machine, or of a cluster's workers, which changes when workers join or leave."""
    context: Any = session.sparkContext
    if is_local(context.master or ""):
        return int(context.defaultParallelism)
    # `defaultParallelism` is 2 at least, whatever is there.
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    slots = int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    return math.ceil(slots / int(context.getConf().get(_SLOTS_PER_CORE, "16")))
