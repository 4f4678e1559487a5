"""Rates, lags and latencies of jobs and tasks, computed from the counters that their hosts report.

Counters start again with each start of a job, so only those of one start are compared. Samples of the last minute are
kept, and the figures are means over that minute.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from manager.observations.reports import Measured

_WINDOW = 60.0
"""Seconds that a mean covers."""
SPACING = 5.0
"""Seconds between two samples that are kept. An idle job is silent for as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """The performance of a job; made by `figures_of`. None means not known yet."""

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
    """The latency of an output; made by `output_figures`. None means not known."""

    latency_seconds_p50: float | None = None
    latency_seconds_p99: float | None = None


def remembered(before: Sequence[Measured], newest: Measured) -> tuple[Measured, ...]:
    """Add the newest sample and drop those before the window, or of an earlier start."""
    kept = [each for each in before if each.run == newest.run and each.at <= newest.at]
    if not kept and newest.age is not None and newest.age <= _WINDOW:
        # At its start the job had done nothing.
        kept = [Measured(at=newest.at - newest.age, run=newest.run)]
    # One older sample stays: it holds the counters at the beginning of the window.
    while len(kept) > 1 and kept[1].at <= newest.at - _WINDOW:
        del kept[0]
    if len(kept) > 1 and kept[-1].at - kept[-2].at < SPACING:
        del kept[-1]
    return (*kept, newest)


class Stretch(NamedTuple):
    """The two samples that a mean is taken between; made by `stretch`."""

    base: Measured
    last: Measured
    seconds: float


def stretch(measured: Sequence[Measured], now: float) -> Stretch | None:
    """Choose the two samples to take means between; None if there is only one."""
    if not measured:
        return None
    last, since = measured[-1], now - _WINDOW
    base = next((each for each in reversed(measured) if each.at <= since), measured[0])
    seconds = max(last.at, now - SPACING) - base.at
    return Stretch(base, last, seconds) if seconds > 0 else None


def per_second(measured: Sequence[Measured], grown: Callable[[Measured, Measured], float], now: float) -> float | None:
    """The mean growth per second between two samples; None if there is only one."""
    over = stretch(measured, now)
    return None if over is None else grown(over.base, over.last) / over.seconds


def figures_of(measured: Sequence[Measured], now: float) -> JobFigures:
    """The performance of a job, computed from its samples."""
    if not measured:
        return JobFigures()
    last = measured[-1]
    # Once a job is silent, its percentiles are out of date.
    recent = last.at > now - _WINDOW
    times, latencies = (last.batch_seconds, last.latency_seconds) if recent else ({}, {})
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
    """The latency of a dataflow's output, computed from the samples of the job that delivers it."""
    if not measured or measured[-1].at <= now - _WINDOW:
        return OutputFigures()
    latencies = measured[-1].outputs.get(dataflow, {}).get(sink, {})
    return OutputFigures(latency_seconds_p50=latencies.get("p50"), latency_seconds_p99=latencies.get("p99"))


def stream_rate(measured: Sequence[Measured], stream: str, now: float) -> float | None:
    """The events of a stream that a job takes per second; None if not known."""
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
