"""Named workers: Python processes of Spark that only what was begun under the same name shares.

Spark lends a Python process, once it is idle, to whatever was begun with the same environment.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "BRAID_WORKERS"
_lock = threading.Lock()


@contextmanager
def workers_named(session: "SparkSession", name: str) -> Iterator[None]:
    """Have the functions that are given to Spark meanwhile run in the workers of a name; many share the empty one."""
    context: Any = session.sparkContext
    # Another thread's functions must not come in under this name.
    with _lock:
        if name:
            context.environment[_NAME] = name
        try:
            yield
        finally:
            context.environment.pop(_NAME, None)
