"""The cores of a Spark application: those of the executors that it has at the moment."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cores_of(session: "SparkSession") -> int:
    """The number of tasks that run at once now; on a cluster it changes when workers join or leave."""
    context: Any = session.sparkContext
    # `defaultParallelism` is 2 at least, whatever is there.
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
