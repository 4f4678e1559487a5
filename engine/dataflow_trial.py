"""A trial of a whole dataflow: its plan runs in the kernel on a few events, in one batch, without Spark or a host.

The manager starts this module as a process of its own and kills it at its bounds. The order comes on standard input.
Each line of standard output is JSON: the instance that begins to run, then the result, or a text if the trial itself
failed. The process reads the spools that the order names, and it cannot write files.

Besides the dataflow's tasks the plan has taps, which pass on what enters a task: the kernel gathers these events just
as for the task itself.
"""

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import TypeAdapter

from bridge.output_messages import event_texts
from bridge.raw_events import parsed, rows_in
from bridge.spools.log import LOG, ItemKind, Placed, SpoolDamaged, items_in, log_files, packed
from engine.behaviour import EventName, TaskWatch, Unwatched, behaviours_of
from engine.kernel.batch import Arrived, run_batch
from engine.offset import Offset
from engine.plan import Bridged, Entry, Ingress, Plan, Port
from engine.port_events import shortened
from engine.records.record import Dead, Record
from engine.records.state import InstanceStates

_LINES_OF_TRACEBACK = 20
_NICE = 3
_MOST_READ = 16_000_000
"""Bytes of payload that are read of one spool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStream:
    """The events of a stream that enters a trial: pasted ones, else the newest of a spool."""

    pasted: tuple[str, ...] | None = None
    """Each as JSON."""
    folder: str | None = None
    """The folder of the spool."""
    since: int = 0
    """Only events spooled at this time or later, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrder:
    """All that a trial depends on; made by the manager."""

    plan: Plan
    behaviours: Mapping[str, str]
    """The implementation of each task type, as `module:attribute`."""
    streams: Mapping[str, TrialStream]
    newest: int
    """The most events that are read of a spool."""
    now: int
    """The time at which pasted events arrive, in milliseconds."""
    shown: int
    """The most events that are shown of each stream, and of each reason for rejections."""
    most_bytes: int
    """The most that all shown events have together."""
    taps: frozenset[int] = frozenset()
    """The slots of the plan that no task of the dataflow has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvents:
    """How many events there were, and the last of them as JSON."""

    count: int
    newest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEvents:
    """Events that a task, or a source, rejected for one reason."""

    instance: int
    port: str
    reason: str
    events: ShownEvents


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of a trial."""

    taken: Mapping[int, int] = field(default_factory=dict)
    """The events that each instance took."""
    left: Mapping[int, Mapping[str, ShownEvents]] = field(default_factory=dict)
    """The events that left each forwarded port."""
    rejected: tuple[RejectedEvents, ...] = ()
    rejections: Mapping[int, int] = field(default_factory=dict)
    """The events that each instance rejected, of which only the newest are kept."""


TRIAL_ORDER = TypeAdapter(TrialOrder)
TRIAL_RESULT = TypeAdapter(TrialResult)
_UNWATCHED = Unwatched()


def run_trial(order: TrialOrder, watch: TaskWatch = _UNWATCHED) -> TrialResult:
    """Run a trial in this process."""
    entry = Entry(number=1, plan=order.plan, starts={}, behaviours=order.behaviours)
    arrived: list[Arrived] = []
    unfit: list[_Unfit] = []
    # A stream may enter more than once, and its events are read once.
    for ingress in {entering.stream: entering for entering in order.plan.ingress}.values():
        stream = order.streams.get(ingress.stream, TrialStream())
        if stream.pasted is not None:
            arrived += _pasted(ingress, stream.pasted, order.now, unfit)
        elif stream.folder is not None:
            placed = newest_items(Path(stream.folder), order.newest, stream.since)
            arrived += [Arrived(ingress.stream, at, item.count, item.stamp, item.payload) for at, item in placed]
    # What arrived of a stream is in order.
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    for item in arrived:
        starts.setdefault(item.stream, item.first)
        ends[item.stream] = item.first + item.count
    behaviours = behaviours_of(order.plan.active, order.behaviours, watch)
    state = InstanceStates()
    record = run_batch(
        1, entry, Offset(entry=1, at=starts), Offset(entry=1, at=ends), arrived, state, behaviours, attempt=watch
    )
    return _result(order, record, unfit)


class _Unfit(NamedTuple):
    """A pasted event that does not fit the schema of its source."""

    instance: int
    port: str
    reason: str
    event: str


def _pasted(ingress: Ingress, texts: Sequence[str], now: int, unfit: list[_Unfit]) -> Iterator[Arrived]:
    """Yield those events that fit the schema of their source."""
    assert not isinstance(ingress.supply, Bridged)  # noqa: S101 - the manager makes plans of sources alone
    reasons: dict[int, str] = {}
    events: list[Any] = []
    places: list[int] = []
    for at, text in enumerate(texts):
        try:
            events.append(parsed(text.encode()))
            places.append(at)
        except ValueError as error:
            reasons[at] = str(error)

    def note(place: int, error: ValueError) -> None:
        reasons.setdefault(places[place], str(error))

    rows = rows_in(events, ingress.supply.schema, on_unfit=note)
    unfit += [_Unfit(ingress.instance, ingress.port, reason, texts[at]) for at, reason in sorted(reasons.items())]
    if len(rows):
        yield Arrived(ingress.stream, 0, len(rows), now, packed(rows))


def newest_items(folder: Path, most: int, since: int) -> list[Placed]:
    """The newest events of a spool, oldest first: so many at most, and none from before a time in milliseconds.

    The owner of the spool may remove files meanwhile. What cannot be read ends the search.
    """
    kept: list[Placed] = []
    left, bytes_left = most, _MOST_READ
    try:
        for file in reversed(log_files(folder / LOG)):
            for placed in reversed([*items_in(file)]):
                if placed.item.kind is not ItemKind.DATA:
                    continue
                bytes_left -= len(placed.item.payload)
                if placed.item.stamp < since or not left or bytes_left < 0:
                    return kept[::-1]
                kept.append(placed.since(placed.end - left) if placed.item.count > left else placed)
                left -= kept[-1].item.count
    except (OSError, SpoolDamaged):
        # Also where nothing has read the source yet, so that there is no spool.
        pass
    return kept[::-1]


def _result(order: TrialOrder, record: Record, unfit: Sequence[_Unfit]) -> TrialResult:
    shown = _Shown(order.shown, order.most_bytes)
    left: dict[int, dict[str, ShownEvents]] = {}
    for emitted in record.emitted:
        if emitted.events is not None:
            of_instance = left.setdefault(emitted.origin.instance, {})
            of_instance[emitted.origin.port] = shown.of_rows([emitted.events])
    rejections = {instance: meter.dead for instance, meter in record.meters.items() if meter.dead}
    rejected = [*_rejected(record.dead, shown), *_rejected_as_unfit(unfit, shown)]
    for letters in (record.dead, unfit):
        for letter in letters:
            if letter.instance not in record.meters:
                count = letter.events.num_rows if isinstance(letter, Dead) else 1
                rejections[letter.instance] = rejections.get(letter.instance, 0) + count
    return TrialResult(
        taken={at: meter.taken for at, meter in record.meters.items() if at not in order.taps},
        left=left,
        rejected=tuple(rejected),
        rejections=rejections,
    )


def _rejected(dead: Iterable[Dead], shown: "_Shown") -> Iterator[RejectedEvents]:
    by_reason: dict[tuple[Port, str], list[pa.RecordBatch]] = {}
    for letter in dead:
        by_reason.setdefault((Port(letter.instance, letter.port), letter.reason), []).append(letter.events)
    for (port, reason), batches in by_reason.items():
        yield RejectedEvents(instance=port.instance, port=port.port, reason=reason, events=shown.of_rows(batches))


def _rejected_as_unfit(unfit: Iterable[_Unfit], shown: "_Shown") -> Iterator[RejectedEvents]:
    by_reason: dict[tuple[Port, str], list[str]] = {}
    for event in unfit:
        by_reason.setdefault((Port(event.instance, event.port), event.reason), []).append(event.event)
    for (port, reason), texts in by_reason.items():
        events = shown.of_texts(len(texts), texts)
        yield RejectedEvents(instance=port.instance, port=port.port, reason=reason, events=events)


class _Shown:
    """Chooses what is shown within the bounds of an answer."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._bytes_left = most_bytes

    def of_rows(self, batches: Sequence[pa.RecordBatch]) -> ShownEvents:
        """The last of some events."""
        count = sum(rows.num_rows for rows in batches)
        last: list[pa.RecordBatch] = []
        left = self._most
        for rows in reversed(batches):
            if not left:
                break
            last.append(rows.slice(max(0, rows.num_rows - left)))
            left -= last[-1].num_rows
        return self.of_texts(count, [text.decode() for rows in reversed(last) for text in event_texts(rows)])

    def of_texts(self, count: int, texts: Sequence[str]) -> ShownEvents:
        """The last of some events that are JSON already."""
        newest: list[str] = []
        for text in reversed(texts[-self._most :]):
            short = shortened(text)
            self._bytes_left -= len(short.encode())
            if self._bytes_left < 0:
                break
            newest.append(short)
        return ShownEvents(count=count, newest=tuple(reversed(newest)))


class _Reporting(TaskWatch):
    """Says which instance runs."""

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._say = say

    def running(self, instance: int, event: EventName | None = None) -> None:
        """Say that an instance begins to run."""
        if event is None:
            self._say(str(instance).encode())


def _confine(cpu_seconds: int, memory: int, seconds: int) -> None:
    """Bound this process for good. It can write to what is open already, and to nothing else."""
    # For a manager that dies before it.
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for none in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(none, (0, 0))
    os.nice(_NICE)
    pa.set_cpu_count(1)


def main() -> None:
    """Run the trial that is ordered on standard input, within bounds of CPU, memory in bytes, and time in seconds."""
    _confine(*map(int, sys.argv[1:]))
    # What a task prints must not be taken for a line of the trial.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as output:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

        def say(line: bytes) -> None:
            written = memoryview(line + b"\n")
            while written:
                written = written[output.write(written) :]

        try:
            result = TRIAL_RESULT.dump_json(
                run_trial(TRIAL_ORDER.validate_json(sys.stdin.buffer.read()), _Reporting(say))
            )
        except Exception:  # noqa: BLE001 - the manager's log has it
            result = json.dumps(traceback.format_exc(limit=-_LINES_OF_TRACEBACK)).encode()
        say(result)


if __name__ == "__main__":
    main()
