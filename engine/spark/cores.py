"""The cores of a Spark application: those of the executors that it has now, and what a batch takes of them."""

from typing import TYPE_CHECKING, Any

from engine.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOCAL_BATCH, _CLUSTER_BATCH = 0.06, 0.18
"""As measured on a computer with two cores, and on a standalone cluster there."""


def cores_of(session: "SparkSession") -> int:
    """The number of tasks that run at once now; on a cluster it changes when workers join or leave."""
    context: Any = session.sparkContext
    # `defaultParallelism` is 2 at least, whatever is there.
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def batch_cost_of(session: "SparkSession") -> float:
    """The seconds of CPU that a batch takes, whatever it holds; on a cluster its task goes to another JVM and back."""
    return _LOCAL_BATCH if is_local(session.sparkContext.master or "") else _CLUSTER_BATCH
