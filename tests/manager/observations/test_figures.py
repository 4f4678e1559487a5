"""Figures of jobs, from what their hosts counted."""

from hypothesis import given
from hypothesis import strategies as st

from manager.observations.figures import (
    _WINDOW,
    SPACING,
    JobFigures,
    OutputFigures,
    figures_of,
    output_figures,
    remembered,
    stream_rate,
)
from manager.observations.reports import Measured, StreamMeasured


def kept(*moments: Measured) -> tuple[Measured, ...]:
    """What is kept of moments that came one after the other."""
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


def test_of_a_job_of_which_nothing_was_heard_nothing_is_known() -> None:
    """And no rate before two moments are known."""
    assert JobFigures() == figures_of((), 5.0)
    first = figures_of(kept(moment(5.0, 100, 10, lag=3)), 5.0)
    assert (None, None, 3, 1.5, 0.1, 0.3) == (
        *(first.events_in_per_second, first.events_out_per_second, first.lag_events, first.lag_seconds),
        *(first.batch_seconds_p50, first.batch_seconds_p99),
    )


def test_rates_are_means_of_the_last_minute() -> None:
    """What a job did before does not count, and a job that has been silent for as long does nothing."""
    moments = [moment(float(at), 1_000 * min(at, 30) + 10 * max(0, at - 30), at) for at in range(101)]
    told = figures_of(kept(*moments), 100.0)
    assert (10.0, 1.0) == (told.events_in_per_second, told.events_out_per_second)
    later = figures_of(kept(*moments), 100.0 + _WINDOW)
    assert (0.0, 0.0, None) == (later.events_in_per_second, later.events_out_per_second, later.batch_seconds_p50)


def test_latencies_are_what_was_said_last() -> None:
    """A job's and each of its outputs'; of one that has been silent for a minute nothing is known any more."""
    said, known = kept(moment(5.0, 1)), OutputFigures(latency_seconds_p50=0.5, latency_seconds_p99=0.7)
    told = figures_of(said, 5.0)
    assert (0.5, 0.7) == (told.latency_seconds_p50, told.latency_seconds_p99)
    names = [("d", "s"), ("d", "silent"), ("d", "other"), ("other", "s")]
    assert [known, *[OutputFigures()] * 3] == [output_figures(said, *name, 5.0) for name in names]
    assert OutputFigures() == output_figures((), "d", "s", 5.0)
    later = figures_of(said, 5.0 + _WINDOW)
    assert (None, None) == (later.latency_seconds_p50, later.latency_seconds_p99)
    assert OutputFigures() == output_figures(said, "d", "s", 5.0 + _WINDOW)


def test_a_job_that_was_started_again_counts_anew() -> None:
    """What it had counted before is not taken for less than nothing."""
    told = figures_of(kept(moment(0.0, 900), moment(1.0, 950), moment(2.0, 5, run=2), moment(4.0, 25, run=2)), 4.0)
    assert 10.0 == told.events_in_per_second


def test_a_job_that_has_just_begun_has_done_all_that_it_counts_since() -> None:
    """Its first word gives a rate already; what began before the window tells none yet."""
    began = [Measured(at=100.0, run=2, age=age, left=50) for age in (5.0, _WINDOW + 1.0)]
    for earlier in ((), kept(Measured(at=99.0, left=7))):
        told = [figures_of(remembered(earlier, each), 100.0).events_out_per_second for each in began]
        assert [10.0, None] == told


def test_streams_count_by_themselves() -> None:
    """One that came since counts from nothing, one that is gone no more; of the lags the longest is the job's."""
    base = Measured(at=0.0, streams={"a": StreamMeasured(entered=5), "gone": StreamMeasured(entered=50)})
    streams = {
        "a": StreamMeasured(entered=25, lag_events=1, lag_seconds=0.5),
        "b": StreamMeasured(entered=10, lag_events=2, lag_seconds=2.5),
    }
    both = kept(base, Measured(at=10.0, streams=streams))
    told = figures_of(both, 10.0)
    assert (3.0, 3, 2.5) == (told.events_in_per_second, told.lag_events, told.lag_seconds)
    assert [2.0, 1.0, None] == [stream_rate(both, name, 10.0) for name in ("a", "b", "gone")]


@given(st.lists(st.floats(0.1, 20.0), min_size=1, max_size=60))
def test_few_moments_are_kept_and_a_rate_is_found_over_the_whole_window(steps: list[float]) -> None:
    """However often a job tells; where it takes as many in each second, that is what is told."""
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
