"""Dataflows: their documents, task types, stream schemas and canonical form.

Everything here is pure: bytes and records in, records or problems out. Nothing knows Spark, MQTT, SQL or HTTP.
Start with `dags.canonical.canonicalise`, which turns a tenant's document into a `Dataflow` or raises `InvalidDocument`.
"""

from dags.config import Config, NamesSource, Outside, Place, Secret
from dags.dataflow import Dataflow, Input, JsonField, Key, Scope, Task, config_in, fields_in
from dags.document import Document
from dags.problems import InvalidDocument, Problem
from dags.reconfiguration import fate, fits
from dags.schema import ANY, NUMBER, Kind, Schema, Source, Visibility, meet
from dags.task_type import (
    AnyTaskType,
    Catalogue,
    Continuation,
    Effect,
    Emission,
    FieldFates,
    Namespace,
    Ports,
    Read,
    Resized,
    Schemas,
    State,
    StateFate,
    TaskType,
    Unsuitable,
    passes_on,
)
