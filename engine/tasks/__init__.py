"""The descriptions of the task library, a file per family. Their code is in `engine.implementations`.

A description imports no implementation, so that checking a document loads little. `ENTRIES` is Braid's entry in the
entry point group `braid.task_types`, which third parties use in the same way.
"""

from dags import AnyTaskType, Namespace
from engine.tasks.code import CODE_TYPES
from engine.tasks.compute import COMPUTE_TYPES, END_TYPES, OPMW, OPMW_JOIN
from engine.tasks.filters import BLOOM_TYPES, FILTER_TYPES
from engine.tasks.outside import OUTSIDE_TYPES
from engine.tasks.parse import PARSE_TYPES
from engine.tasks.predictive import PREDICTIVE_TYPES
from engine.tasks.projection import PROJECTION_TYPES
from engine.tasks.stream_statistics import STATISTICS_TYPES
from engine.tasks.visual import VISUAL_TYPES
from engine.tasks.windows import JOIN_TYPES, WINDOW_TYPES

TYPES: tuple[AnyTaskType, ...] = tuple(
    sorted(
        (
            *BLOOM_TYPES,
            *CODE_TYPES,
            *COMPUTE_TYPES,
            *END_TYPES,
            *FILTER_TYPES,
            *JOIN_TYPES,
            *OUTSIDE_TYPES,
            *PARSE_TYPES,
            *PREDICTIVE_TYPES,
            *PROJECTION_TYPES,
            *STATISTICS_TYPES,
            *VISUAL_TYPES,
            *WINDOW_TYPES,
        ),
        key=lambda kind: kind.name,
    )
)
ENTRIES: tuple[AnyTaskType | Namespace, ...] = (*TYPES, OPMW, OPMW_JOIN)
