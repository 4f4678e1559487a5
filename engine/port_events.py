"""The newest events at the ports of instances that somebody looks at, as a job gives them to its host and a manager.

A manager asks the host of a job for a few seconds at a time, so a look ends by itself. Until then the host says with
each batch which instances are looked at, workers report a few events of each of their ports, and the host publishes at
its next beat what is new. What a look costs and holds is bounded, whatever the events are. Instances that nobody looks
at cost nothing.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pydantic import TypeAdapter

from bridge.output_messages import event_texts

MOST_SHOWN_EVENTS = 10
"""The events that are kept of each port."""
LONGEST_SHOWN = 4_000
"""Characters of an event that is shown; a longer one is cut."""
MOST_INSTANCES = 16
"""Instances of a job that are looked at at once."""
_MOST_READ = 300_000
"""Bytes of events that are made into text in one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """A request to a host: keep the newest events at the ports of an instance of a job for some seconds."""

    job: str
    instance: int
    seconds: float


class SampledPort(NamedTuple):
    """A port of an instance."""

    instance: int
    port: str
    is_input: bool


class PortSample(NamedTuple):
    """The events at a port in one batch."""

    at: SampledPort
    count: int  # type: ignore[assignment]  # hides the tuple's method, which is not used
    newest: tuple[str, ...]
    """The last of them, each as JSON."""


class SeenEvent(NamedTuple):
    """An event, and when the batch that had it ended, in milliseconds."""

    at: int
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """The events that were seen at a port since somebody has looked."""

    port: str
    is_input: bool
    count: int
    newest: tuple[SeenEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenInstance:
    """An instance that somebody looks at, once a batch of its job has run."""

    instance: int
    ports: tuple[SeenPort, ...]


_LOOK = TypeAdapter(LookRequest)
written_look: Callable[[LookRequest], bytes] = _LOOK.dump_json
read_look: Callable[[bytes], LookRequest] = _LOOK.validate_json
"""Raises ValueError, as all that read here do."""
read_samples: Callable[[object], tuple[PortSample, ...]] = TypeAdapter(tuple[PortSample, ...]).validate_python
read_seen: Callable[[bytes], SeenInstance] = TypeAdapter(SeenInstance).validate_json


class PortSampling:
    """The sampling of some instances in one batch. What it holds until the end are slices of the events themselves.

    >>> sampling = PortSampling([7])
    >>> for instance in (7, 8):
    ...     sampling.note(instance, "in", pa.record_batch({"t": [*range(30)]}), is_input=True)
    >>> [(sample.at, sample.count, sample.newest[-2:]) for sample in sampling.samples()]
    [(SampledPort(instance=7, port='in', is_input=True), 30, ('{"t":28}', '{"t":29}'))]
    """

    def __init__(self, instances: Collection[int]) -> None:
        self.instances = frozenset(instances)
        self._counts: dict[SampledPort, int] = {}
        self._newest: dict[SampledPort, list[pa.RecordBatch]] = {}

    def note(self, instance: int, port: str, rows: pa.RecordBatch, *, is_input: bool) -> None:
        """Note events at a port, if its instance is looked at."""
        if instance not in self.instances or not len(rows):
            return
        at = SampledPort(instance, port, is_input)
        self._counts[at] = self._counts.get(at, 0) + len(rows)
        newest = self._newest.setdefault(at, [])
        newest.append(rows.slice(max(0, len(rows) - MOST_SHOWN_EVENTS)))
        while sum(map(len, newest[1:])) >= MOST_SHOWN_EVENTS:
            del newest[0]

    def samples(self) -> Iterator[PortSample]:
        """Yield what was noted, with the last events of each port as far as there is room for them."""
        room = _MOST_READ // max(1, len(self._counts))
        for at, count in self._counts.items():
            yield PortSample(at, count, tuple(islice(_texts(self._newest[at], room), MOST_SHOWN_EVENTS))[::-1])


def _texts(batches: Sequence[pa.RecordBatch], room: int) -> Iterator[str]:
    """Events as JSON, the newest first, as far as there is room; of the first one that has none only its size."""
    # Names of fields may be longer than their values.
    named = batches[0].schema.serialize().size
    for batch in reversed(batches):
        is_small = batch.nbytes + named * len(batch) <= room
        for rows in [batch] if is_small else [batch.slice(at, 1) for at in reversed(range(len(batch)))]:
            if (size := rows.nbytes + named * len(rows)) > room:
                yield f"… (an event of {size:,} bytes)"
                return
            room -= size
            yield from reversed(_written(rows))


def _written(rows: pa.RecordBatch) -> list[str]:
    try:
        return [shortened(text.decode()) for text in event_texts(rows)]
    except Exception as error:  # noqa: BLE001 - a task may emit anything, and its batch is recorded already
        if len(rows) > 1:
            return [text for at in range(len(rows)) for text in _written(rows.slice(at, 1))]
        return [f"… (an event that is no JSON: {type(error).__name__})"]


def shortened(text: str) -> str:
    """An event as it is shown: a very long one is cut, and ends in an ellipsis."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
