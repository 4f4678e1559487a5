"""Measurements of a running peer: cores, memory, latency and outputs at one rate of events after another.

The CPU time is that of the peer's processes; those of broker, generator, subscriber and of this process do not count.
Memory is the sum of proportional set sizes (PSS), which counts a page that processes share once.
"""

import json
import math
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.peers.dataflows import PeerDataflow
from benchmarks.peers.due import SENSORS_PER_TOPIC, Arrival, DueOutputs, compared, due_outputs, due_within, quantile
from benchmarks.peers.processes import asked_process
from benchmarks.peers.subscriber import noted_in
from bridge.transport.address import Address
from engine.host.cpu_meter import Tree, spent_between
from manager.savings.counters import BROKER

_SAMPLE = 50
"""Dataflows whose outputs are compared one by one; of all others they are counted."""
_ANSWERING = 30.0
"""Seconds within which generator and subscriber answer, even on a busy machine."""
_MARK = b'"sensor"'
"""Stands once in each output of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A peer that runs; made by the module of each system."""

    system: str
    broker: Address
    outputs: str
    """The topics of its outputs, with a wildcard."""
    dataflow_of: Mapping[str, int]
    """The number of the dataflow of each of them."""
    look: Callable[[], Tree]
    """Looks at the CPU time of its processes, and of the broker."""
    notes: Mapping[str, Any]
    """What else is to be said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long things take, in seconds."""

    first: float
    """A warm-up after the start, at the first rate."""
    warm: float
    """A warm-up at each rate."""
    window: float
    drain: float
    """At most, after each window, until the outputs that are due have come."""


Row = dict[str, Any]


class _Load:
    """Events into a running peer, and outputs out of it; made by `measured`."""

    def __init__(self, running: Running, dataflows: Sequence[PeerDataflow], folder: Path, held: ExitStack) -> None:
        self._dataflows = dataflows
        self._dataflow_of = running.dataflow_of
        every = math.ceil(len(dataflows) / _SAMPLE)
        self._sample: dict[int, list[Arrival]] = {dataflow.number: [] for dataflow in dataflows[::every]}
        self._moments = folder / "moments"
        self._sent = 0
        self._at, self._counts = array("d"), array("q")
        python, notes = [sys.executable, "-m"], folder / "notes"
        self.subscriber = held.enter_context(
            asked_process(
                [*python, "benchmarks.peers.subscriber", running.broker.url, running.outputs, notes],
                "the subscriber",
                folder / "subscriber.log",
            )
        )
        self.subscriber.line(_ANSWERING)
        self._notes = held.enter_context(notes.open("rb"))
        self.generator = held.enter_context(
            asked_process(
                [*python, "benchmarks.peers.generator", running.broker.url, self._moments],
                "the generator",
                folder / "generator.log",
            )
        )

    def begin(self, rate: float, seconds: float) -> None:
        """Send for some seconds from now on."""
        self.generator.tell(f"{rate} {seconds}")

    def end(self, patience: float) -> bool:
        """Wait until all is sent, and all outputs that are due have come; False if they have not after a while."""
        self._sent = int(self.generator.line(2 * patience + _ANSWERING))
        due = sum(len(causes) for outputs in self._due() for causes in outputs.causes)
        deadline = time.monotonic() + patience
        while True:
            self._take_in()
            if sum(self._counts) >= due:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(1.0)

    def figures(self, window: tuple[float, float]) -> Row:
        """Latencies, and outputs beside those due, of the events of a window."""
        seconds, sent_at = window[1] - window[0], self._sent_at()
        at = np.frombuffer(self._at, np.float64)
        came = np.frombuffer(self._counts, np.int64)[(at >= window[0]) & (at < window[1])]
        by_number = {dataflow.number: dataflow for dataflow in self._dataflows}
        comparisons = [
            compared(due_outputs(by_number[number], self._sent), arrivals, sent_at, window)
            for number, arrivals in self._sample.items()
        ]
        latencies = [latency for comparison in comparisons for latency in comparison.latencies]
        return {
            "sent_per_s": round(float(np.count_nonzero((sent_at >= window[0]) & (sent_at < window[1]))) / seconds, 1),
            "p50_s": quantile(latencies, 0.5),
            "p99_s": quantile(latencies, 0.99),
            "outputs_per_s": round(float(came.sum()) / seconds, 2),
            "due_per_s": round(due_within(self._due(), sent_at, window) / seconds, 2),
            "missing": latencies.count(float("inf")),
            "compared": sum(comparison.outputs for comparison in comparisons),
            "wrong": sum(comparison.wrong for comparison in comparisons),
        }

    def _due(self) -> Iterator[DueOutputs]:
        return (due_outputs(dataflow, self._sent) for dataflow in self._dataflows)

    def _sent_at(self) -> npt.NDArray[np.float64]:
        return np.fromfile(self._moments, np.float64)[: self._sent]

    def _take_in(self) -> None:
        """Take in what the subscriber has noted by now."""
        self.subscriber.tell("")
        size = int(self.subscriber.line(_ANSWERING))
        for at, topic, payload in noted_in(self._notes, size):
            number = self._dataflow_of.get(topic)
            if number is None:
                continue
            self._at.append(at)
            self._counts.append(payload.count(_MARK))
            if number in self._sample:
                self._sample[number] += _arrivals(at, payload)


def _arrivals(at: float, payload: bytes) -> Iterator[Arrival]:
    """The outputs of a message: Braid's have several."""
    content = json.loads(payload)
    for event in content.get("events", [content]):
        sensor = int(event["sensor"].removeprefix("s"))
        if sensor not in range(SENSORS_PER_TOPIC):
            raise ValueError(f"there is no sensor {sensor}")
        yield Arrival(at=at, sensor=sensor, mean=event["value"])


def measured(
    running: Running,
    dataflows: Sequence[PeerDataflow],
    rates: Sequence[float],
    times: Times,
    folder: Path,
) -> Iterator[Row]:
    """A row for each rate, until something stays behind that would burden the next one."""
    folder.mkdir(parents=True)
    with ExitStack() as held:
        load = _Load(running, dataflows, folder, held)
        load.begin(rates[0], times.first)
        time.sleep(times.first)
        all_came = load.end(times.drain)
        for rate in rates:
            row = {"system": running.system, "dataflows": len(dataflows), "events_per_s": rate, **running.notes}
            if not all_came:
                row["behind_before"] = True
            window, used = _window(running, load, rate, times)
            all_came = load.end(times.drain)
            yield {**row, **used, **load.figures(window), "all_came": all_came}
            if not all_came:
                return


def share_of_due(row: Row) -> float:
    """The outputs of a window beside those due."""
    return float(row["outputs_per_s"] / row["due_per_s"]) if row["due_per_s"] else 1.0


def _window(running: Running, load: _Load, rate: float, times: Times) -> tuple[tuple[float, float], Row]:
    """A window amid events at a rate: its two moments, and the cores and memory in it."""
    helpers = (load.generator.process, load.subscriber.process, psutil.Process())
    load.begin(rate, times.warm + times.window)
    time.sleep(times.warm)
    machine, others, looked, begun = _machine(), [_cpu(process) for process in helpers], running.look(), time.time()
    time.sleep(times.window)
    ended, tree = time.time(), running.look()
    seconds = ended - begun
    used = [(_cpu(process) - before) / seconds for process, before in zip(helpers, others, strict=True)]
    cores = {part: spent / seconds for part, spent in spent_between(looked, tree).items()}
    whole = (_machine() - machine) / seconds
    own = {part: round(spent, 4) for part, spent in sorted(cores.items()) if part != BROKER}
    return (begun, ended), {
        "cores": round(sum(own.values()), 4),
        "cores_by_part": own,
        "mb_pss": round(_memory(tree) / 1e6),
        "processes": sum(entry.part != BROKER for entry in tree.values()),
        "cores_beside": {
            "broker": round(cores.get(BROKER, 0.0), 4),
            "generator": round(used[0], 4),
            "subscriber": round(used[1], 4),
            "other_work": round(max(0.0, whole - sum(cores.values()) - sum(used)), 4),
        },
    }


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _machine() -> float:
    """The CPU seconds of the whole machine so far."""
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0) + getattr(times, "softirq", 0.0))


def _memory(tree: Tree) -> int:
    """Bytes of a peer's processes, without the broker."""
    total = 0
    for (pid, _), entry in tree.items():
        if entry.part != BROKER:
            with suppress(psutil.NoSuchProcess):
                total += psutil.Process(pid).memory_full_info().pss
    return total
