"""The task library, a file per family; so far the descriptions that documents are checked against.

A description imports no implementation, so that checking a document stays light. `ENTRIES` is what Braid offers through
the entry point group `braid.task_types`, the same way as third parties do.
"""

from dags import AnyTaskType, Namespace
from engine.tasks.compute import NOOP, OPMW, PI_VIETE
from engine.tasks.ends import OUTPUT, SOURCE
from engine.tasks.filters import (
    BLOOM_FILTER,
    BLOOM_FILTER_TRAIN,
    MULTI_BLOOM_FILTER,
    MULTI_RANGE_FILTER,
    RANGE_FILTER,
    TRAINED_BLOOM_FILTER,
    WHERE,
)
from engine.tasks.join import (
    JOIN_BY_ID,
)
from engine.tasks.outside import (
    BLOB_DOWNLOAD,
    BLOB_UPLOAD,
    FILE_SINK,
    MQTT_PUBLISH,
    NULL_SINK,
    TABLE_INSERT,
    TABLE_RANGE_QUERY,
    ZIP_FILES,
)
from engine.tasks.parse import ANNOTATE, CSV_PARSE, CSV_TO_SENML, JSON_PARSE, SENML_PARSE, XML_PARSE
from engine.tasks.predictive import (
    ANNOTATE_CLASS,
    DECISION_TREE_CLASSIFY,
    DECISION_TREE_TRAIN,
    ERROR_ESTIMATE,
    LINEAR_REGRESSION_PREDICT,
    LINEAR_REGRESSION_TRAIN,
)
from engine.tasks.statistics import (
    ACCUMULATE,
    BLOCK_WINDOW_AVERAGE,
    COUNT,
    DISTINCT_APPROX_COUNT,
    INTERPOLATE,
    KALMAN_FILTER,
    SECOND_ORDER_MOMENT,
    SLIDING_LINEAR_REGRESSION,
)
from engine.tasks.visual import (
    LINE_PLOT,
    MULTI_LINE_PLOT,
)
from engine.tasks.windows import (
    TUMBLING_WINDOW,
)

TYPES: tuple[AnyTaskType, ...] = (
    ACCUMULATE,
    ANNOTATE,
    ANNOTATE_CLASS,
    BLOB_DOWNLOAD,
    BLOB_UPLOAD,
    BLOCK_WINDOW_AVERAGE,
    BLOOM_FILTER,
    BLOOM_FILTER_TRAIN,
    COUNT,
    CSV_PARSE,
    CSV_TO_SENML,
    DECISION_TREE_CLASSIFY,
    DECISION_TREE_TRAIN,
    DISTINCT_APPROX_COUNT,
    ERROR_ESTIMATE,
    FILE_SINK,
    INTERPOLATE,
    JOIN_BY_ID,
    JSON_PARSE,
    KALMAN_FILTER,
    LINE_PLOT,
    LINEAR_REGRESSION_PREDICT,
    LINEAR_REGRESSION_TRAIN,
    MQTT_PUBLISH,
    MULTI_BLOOM_FILTER,
    MULTI_LINE_PLOT,
    MULTI_RANGE_FILTER,
    NOOP,
    NULL_SINK,
    OUTPUT,
    PI_VIETE,
    RANGE_FILTER,
    SECOND_ORDER_MOMENT,
    SENML_PARSE,
    SLIDING_LINEAR_REGRESSION,
    SOURCE,
    TABLE_INSERT,
    TABLE_RANGE_QUERY,
    TRAINED_BLOOM_FILTER,
    TUMBLING_WINDOW,
    WHERE,
    XML_PARSE,
    ZIP_FILES,
)
ENTRIES: tuple[AnyTaskType | Namespace, ...] = (*TYPES, OPMW)
