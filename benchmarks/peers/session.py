"""A session: one system with its dataflows, measured at one rate after another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import TypeAlias

import psutil

from benchmarks.peers.braid import running_braid
from benchmarks.peers.dataflows import PeerDataflow, drawn_dataflows
from benchmarks.peers.fed_by_lines import running_flink, running_spark
from benchmarks.peers.measurement import Row, Running, Times, measured, share_of_due
from benchmarks.peers.node_red import running_node_red
from braid_client import NotDone
from bridge.broker import BrokerDown
from bridge.transport.mqtt_client import NotConnected
from engine.spark.programs import NoJava
from workloads.service import RunFailed

_ENOUGH = 0.5
"""The share of what is due without which a system is not measured at higher rates."""
PEERS_CACHE = Path(__file__).parents[2] / ".cache" / "peers"
"""Where peers are installed."""
PEER_TROUBLE = (RunFailed, NotConnected, NotDone, BrokerDown, NoJava, OSError, psutil.Error)
"""Errors of a system that say why it was not measured."""


def session_rows(system: str, size: int, rates: Sequence[float], times: Times, folder: Path) -> Iterator[Row]:
    """One system with so many dataflows, at one rate after another; trouble becomes a row.

    It is started anew where it has stayed behind, and not measured at higher rates if half of what was due was missing.
    """
    dataflows, left, starts = drawn_dataflows(size), list(rates), 0
    try:
        while left:
            starts += 1
            place = folder / str(starts)
            with _SYSTEMS[system](dataflows, place) as running:
                for row in measured(running, dataflows, left, times, place / "load"):
                    yield row
                    left = left[1:]
                    if share_of_due(row) < _ENOUGH:
                        about = f"at {row['events_per_s']:g} events a second half of what was due did not come in time"
                        yield from ({**named_row(system, size, rate), "why_not": about} for rate in left)
                        left = []
                        break
    except PEER_TROUBLE as error:
        about = f"{type(error).__name__}: {error}"
        yield from ({**named_row(system, size, rate), "why_not": about} for rate in left)


def named_row(system: str, size: int, rate: float) -> Row:
    """What every row begins with."""
    return {"system": system, "dataflows": size, "events_per_s": rate}


@cache
def _notify(what: str) -> None:
    """Say what is waited for, for the first time."""
    print(f"# {what}", flush=True)


_Start: TypeAlias = Callable[[Sequence[PeerDataflow], Path], AbstractContextManager[Running]]
"""Starts a system with dataflows and a folder for its files."""
_SYSTEMS: Mapping[str, _Start] = {
    "braid": lambda dataflows, _: running_braid(dataflows, _notify),
    "node-red": lambda dataflows, folder: running_node_red(dataflows, PEERS_CACHE, folder, _notify),
    "pyflink": lambda dataflows, folder: running_flink(dataflows, PEERS_CACHE, folder),
    "pyspark": running_spark,
}
