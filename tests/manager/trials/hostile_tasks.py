"""Implementations that misbehave, for the process of a trial, which finds them by the place in an order."""

import os
from collections.abc import Mapping
from tempfile import TemporaryFile

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.state import Staged
from engine.tasks.compute import NOOP


def _endless(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        while len(rows):
            pass
        return {"out": PortEmission(rows)}

    return behave


def _sleeping(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows):
            os.read(os.pipe()[0], 1)
        return {"out": PortEmission(rows)}

    return behave


def _huge(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        for _ in range(len(rows)):
            bytes(4_000_000_000)
        return {"out": PortEmission(rows)}

    return behave


def _flooding(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        many = rows.take(np.repeat(np.arange(len(rows)), 500_000))
        return {"out": PortEmission(many, np.repeat(np.arange(len(rows)), 500_000))}

    return behave


def _writing(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        print(rows)  # noqa: T201 - it must not be taken for a line of the trial
        if len(rows):
            TemporaryFile().close()
        return {"out": PortEmission(rows)}

    return behave


def _looking(_config: object) -> Behaviour:
    def behave(_port: str, rows: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if len(rows):
            raise ValueError(os.environ["BRAID_KEY"])
        return {"out": PortEmission(rows)}

    return behave


endless = Implementation(type=NOOP, make=_endless)
sleeping = Implementation(type=NOOP, make=_sleeping)
huge = Implementation(type=NOOP, make=_huge)
writing = Implementation(type=NOOP, make=_writing)
looking = Implementation(type=NOOP, make=_looking)
flooding = Implementation(type=NOOP, make=_flooding)
