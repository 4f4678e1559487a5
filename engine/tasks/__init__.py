"""The task library, a file per family; so far the descriptions that documents are checked against.

A description imports no implementation, so that checking a document stays light. `TYPES` is what Braid offers through
the entry point group `braid.task_types`, the same way as third parties do.
"""

from dags import AnyTaskType
from engine.tasks.compute import PI_VIETE
from engine.tasks.ends import OUTPUT, SOURCE
from engine.tasks.filters import RANGE_FILTER
from engine.tasks.statistics import BLOCK_WINDOW_AVERAGE, COUNT

TYPES: tuple[AnyTaskType, ...] = (BLOCK_WINDOW_AVERAGE, COUNT, OUTPUT, PI_VIETE, RANGE_FILTER, SOURCE)
