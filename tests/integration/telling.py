"""A package of a third party: a task that tells where it runs, and can be made to wait. Tests install it themselves."""

import ctypes
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

import engine
from dags import Config, TaskType
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.records.state import Staged

_PATIENCE = 120.0


class TellConfig(Config):
    """What it waits for before it gives a batch that is not empty."""

    until: str = ""
    """A file that has to exist."""
    stuck: bool = False
    """Never come back from a function of C, and let no other thread of the process run."""


def _tell(config: TellConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if events.num_rows and config.stuck:
            ctypes.PyDLL(None).sleep(int(_PATIENCE))
        if events.num_rows and config.until:
            _await(Path(config.until))
        columns = {
            "n": events.column("n"),
            "worker": pa.array([str(Path.cwd().parents[1])] * events.num_rows, pa.string()),
            "code": pa.array([engine.__file__] * events.num_rows, pa.string()),
            "process": pa.array([os.getpid()] * events.num_rows, pa.int64()),
        }
        return {"out": PortEmission(pa.record_batch(columns))}

    return behave


def _await(path: Path) -> None:
    pause = threading.Event()
    for _ in range(int(_PATIENCE / 0.05)):
        if path.exists():
            return
        pause.wait(0.05)
    raise TimeoutError(f"{path} never came")


tell = Implementation(type=TaskType(name="tell", config=TellConfig), make=_tell)
"""Tells for each event which worker, code and process took it."""
