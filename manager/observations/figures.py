"""Figures of jobs and tasks, from the counts that their hosts tell: how much in a second, how far behind, at what cost.

Counts begin anew with each start of a job, so only those of one start are compared. What a job had counted is kept for
a minute, a few moments of it, and whoever asks gets the means over that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from manager.observations.reports import Measured

_WINDOW = 60.0
"""Seconds over which a mean goes."""
SPACING = 5.0
"""Seconds between two moments that are kept; so long may a job that does nothing be silent too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """How a job does its work; made by `figures_of`. What is not known yet is None."""

    batch_seconds_p50: float | None = None
    batch_seconds_p99: float | None = None
    events_in_per_second: float | None = None
    events_out_per_second: float | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    latency_seconds_p50: float | None = None
    latency_seconds_p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFigures:
    """How late an output is; made by `output_figures`. What is not known is None."""

    latency_seconds_p50: float | None = None
    latency_seconds_p99: float | None = None


def remembered(before: Sequence[Measured], newest: Measured) -> tuple[Measured, ...]:
    """What is kept once a job has told more: the newest, and of its start the moments within the window before it."""
    kept = [each for each in before if each.run == newest.run and each.at <= newest.at]
    if not kept and newest.age is not None and newest.age <= _WINDOW:
        # Then it had done nothing.
        kept = [Measured(at=newest.at - newest.age, run=newest.run)]
    # One that is older says how it was when the window began.
    while len(kept) > 1 and kept[1].at <= newest.at - _WINDOW:
        del kept[0]
    if len(kept) > 1 and kept[-1].at - kept[-2].at < SPACING:
        del kept[-1]
    return (*kept, newest)


class Stretch(NamedTuple):
    """What a mean goes over; made by `stretch`."""

    base: Measured
    last: Measured
    seconds: float


def stretch(measured: Sequence[Measured], now: float) -> Stretch | None:
    """The two moments of a job between which its means are taken; None where only one is known."""
    if not measured:
        return None
    last, since = measured[-1], now - _WINDOW
    base = next((each for each in reversed(measured) if each.at <= since), measured[0])
    seconds = max(last.at, now - SPACING) - base.at
    return Stretch(base, last, seconds) if seconds > 0 else None


def per_second(measured: Sequence[Measured], grown: Callable[[Measured, Measured], float], now: float) -> float | None:
    """The mean of what grew from one moment to another; None where only one is known."""
    over = stretch(measured, now)
    return None if over is None else grown(over.base, over.last) / over.seconds


def figures_of(measured: Sequence[Measured], now: float) -> JobFigures:
    """How a job does its work, by what is kept of it."""
    if not measured:
        return JobFigures()
    last = measured[-1]
    # Of a job that says nothing any more batches and outputs are of another time.
    says = last.at > now - _WINDOW
    times, latencies = (last.batch_seconds, last.latency_seconds) if says else ({}, {})
    return JobFigures(
        batch_seconds_p50=times.get("p50"),
        batch_seconds_p99=times.get("p99"),
        events_in_per_second=_rounded(per_second(measured, _entered, now)),
        events_out_per_second=_rounded(per_second(measured, lambda base, last: last.left - base.left, now)),
        lag_events=sum(stream.lag_events for stream in last.streams.values()),
        lag_seconds=max((stream.lag_seconds for stream in last.streams.values()), default=0.0),
        latency_seconds_p50=latencies.get("p50"),
        latency_seconds_p99=latencies.get("p99"),
    )


def output_figures(measured: Sequence[Measured], dataflow: str, sink: str, now: float) -> OutputFigures:
    """How late a dataflow's output is, by what is kept of the job that delivers it."""
    if not measured or measured[-1].at <= now - _WINDOW:
        return OutputFigures()
    latencies = measured[-1].outputs.get(dataflow, {}).get(sink, {})
    return OutputFigures(latency_seconds_p50=latencies.get("p50"), latency_seconds_p99=latencies.get("p99"))


def stream_rate(measured: Sequence[Measured], stream: str, now: float) -> float | None:
    """How many events of a stream a job takes in a second; None where that is not known."""
    if not measured or stream not in measured[-1].streams:
        return None
    return per_second(measured, lambda base, last: _entered_by(base, last, stream), now)


def _entered(base: Measured, last: Measured) -> int:
    return sum(_entered_by(base, last, stream) for stream in last.streams)


def _entered_by(base: Measured, last: Measured, stream: str) -> int:
    before = base.streams.get(stream)
    return last.streams[stream].entered - (before.entered if before else 0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
