"""Figures of jobs, from the counters that their hosts report."""

from hypothesis import given
from hypothesis import strategies as st

from manager.answers.jobs import JobFigures
from manager.observations.figures import (
    _WINDOW,
    SPACING,
    figures_of,
    output_latency,
    remembered,
    stream_rate,
)
from manager.observations.reports import Measured, StreamMeasured


def kept(*moments: Measured) -> tuple[Measured, ...]:
    """Return the samples that are kept of consecutive ones."""
    found: tuple[Measured, ...] = ()
    for each in moments:
        found = remembered(found, each)
    return found


def moment(at: float, entered: int, left: int = 0, *, run: int = 1, lag: int = 0) -> Measured:
    streams = {"s": StreamMeasured(entered=entered, lag_events=lag, lag_seconds=lag / 2)}
    late = {"p50": 0.5, "p99": 0.7}
    return Measured(
        at=at,
        run=run,
        streams=streams,
        left=left,
        batch_seconds={"p50": 0.1, "p99": 0.3},
        latency_seconds=late,
        outputs={"d": {"s": late, "silent": {}}},
    )


def test_a_job_without_reports_has_no_figures() -> None:
    """Nor has it rates before there are two samples."""
    assert JobFigures() == figures_of((), 5.0)
    first = figures_of(kept(moment(5.0, 100, 10, lag=3)), 5.0)
    assert (None, None, 3, 1.5, 0.1, 0.3) == (
        *(first.events_in_per_second, first.events_out_per_second, first.lag_events, first.lag_seconds),
        *(first.batch_seconds_p50, first.batch_seconds_p99),
    )


def test_rates_are_means_of_the_last_minute() -> None:
    """Earlier growth does not count, and a job that was silent for a minute has the rate zero."""
    moments = [moment(float(at), 1_000 * min(at, 30) + 10 * max(0, at - 30), at) for at in range(101)]
    figures = figures_of(kept(*moments), 100.0)
    assert (10.0, 1.0) == (figures.events_in_per_second, figures.events_out_per_second)
    later = figures_of(kept(*moments), 100.0 + _WINDOW)
    assert (0.0, 0.0, None) == (later.events_in_per_second, later.events_out_per_second, later.batch_seconds_p50)


def test_latencies_are_from_the_last_report() -> None:
    """Those of a job and of each output are unknown once the job was silent for a minute."""
    samples, known = kept(moment(5.0, 1)), {"p50": 0.5, "p99": 0.7}
    figures = figures_of(samples, 5.0)
    assert (0.5, 0.7) == (figures.latency_seconds_p50, figures.latency_seconds_p99)
    names = [("d", "s"), ("d", "silent"), ("d", "other"), ("other", "s")]
    assert [known, *[{}] * 3] == [output_latency(samples, *name, 5.0) for name in names]
    assert {} == output_latency((), "d", "s", 5.0)
    later = figures_of(samples, 5.0 + _WINDOW)
    assert (None, None) == (later.latency_seconds_p50, later.latency_seconds_p99)
    assert {} == output_latency(samples, "d", "s", 5.0 + _WINDOW)


def test_counters_of_a_restarted_job_start_again() -> None:
    """The fall of a counter is no negative growth."""
    figures = figures_of(kept(moment(0.0, 900), moment(1.0, 950), moment(2.0, 5, run=2), moment(4.0, 25, run=2)), 4.0)
    assert 10.0 == figures.events_in_per_second


def test_the_first_report_of_a_new_job_has_a_rate() -> None:
    """All its growth is since its start, if it started within the window; otherwise there is no rate yet."""
    began = [Measured(at=100.0, run=2, age=age, left=50) for age in (5.0, _WINDOW + 1.0)]
    for earlier in ((), kept(Measured(at=99.0, left=7))):
        figures = [figures_of(remembered(earlier, each), 100.0).events_out_per_second for each in began]
        assert [10.0, None] == figures


def test_streams_are_counted_separately() -> None:
    """A new stream counts from zero, a stream that is gone no longer counts, and the longest lag is the job's."""
    base = Measured(at=0.0, streams={"a": StreamMeasured(entered=5), "gone": StreamMeasured(entered=50)})
    streams = {
        "a": StreamMeasured(entered=25, lag_events=1, lag_seconds=0.5),
        "b": StreamMeasured(entered=10, lag_events=2, lag_seconds=2.5),
    }
    both = kept(base, Measured(at=10.0, streams=streams))
    figures = figures_of(both, 10.0)
    assert (3.0, 3, 2.5) == (figures.events_in_per_second, figures.lag_events, figures.lag_seconds)
    assert [2.0, 1.0, None] == [stream_rate(both, name, 10.0) for name in ("a", "b", "gone")]


@given(st.lists(st.floats(0.1, 20.0), min_size=1, max_size=60))
def test_few_samples_cover_the_whole_window(steps: list[float]) -> None:
    """The rate of a steady job is exact, even if it reports very often."""
    at, moments = 0.0, []
    for step in [0.0, *steps]:
        at += step
        moments.append(Measured(at=at, streams={"s": StreamMeasured(entered=round(at * 1_000_000))}))
    found = kept(*moments)
    assert moments[-1] == found[-1]
    assert found[0].at <= max(0.0, at - _WINDOW) + SPACING
    assert len(found) <= _WINDOW / SPACING * 2 + 3
    rate = stream_rate(found, "s", at)
    assert rate is None or abs(rate - 1_000_000) < 100
