"""A package of a third party: a task that hands on what it takes, but for some events. Tests install it themselves."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pyarrow as pa

from dags import Config, TaskType
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.plan import Limits
from engine.records.state import Staged

_LONG = 3_600.0
_MUCH = Limits().memory + 1


class FallConfig(Config):
    """At which events it falls, and how."""

    how: Literal["raise", "kill", "hang", "hog", "wait"]
    at: tuple[int, ...] = ()
    """The numbers of these events; none for all."""
    until: str = ""
    """A file; where it exists the task falls no more. While it waits, a file beside it has the id of its process."""


def _fall(config: FallConfig) -> Behaviour:
    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        if not (config.until and Path(config.until).exists()):
            for number in events.column("n").to_pylist():
                if not config.at or number in config.at:
                    _do(config.how, number, Path(config.until))
        return {"out": PortEmission(events)}

    return behave


def _do(how: str, number: int, until: Path) -> None:
    if how == "raise":
        raise ValueError(f"{number} is not to its taste")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "wait":
        until.with_suffix(".waits").write_text(str(os.getpid()))
        while not until.exists():
            time.sleep(0.01)
    elif how == "hog":
        bytearray(_MUCH)
    else:
        time.sleep(_LONG)


fall = Implementation(type=TaskType(name="fall", config=FallConfig), make=_fall)
"""Raises, kills its worker, hangs, waits or takes more memory than there is for it at some events."""
