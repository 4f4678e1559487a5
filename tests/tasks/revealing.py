"""A package of a third party: a task that needs a secret, and says how long it is."""

from collections.abc import Mapping

import pyarrow as pa

from dags import Config, Secret, TaskType
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.state import Staged


class RevealConfig(Config):
    """What it needs."""

    password: Secret


def _reveal(config: RevealConfig) -> Behaviour:
    length = len(config.password.revealed)

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        return {"out": PortEmission(pa.record_batch({"length": pa.array([length] * len(events), pa.int64())}))}

    return behave


reveal = Implementation(type=TaskType(name="reveal", config=RevealConfig), make=_reveal)
"""Knows a secret."""
