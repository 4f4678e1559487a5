"""The steps of an interval."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from manager.savings.ledger import (
    HOUR,
    KEPT,
    LONGEST_STEP,
    MINUTE,
    MOST_POINTS,
    NO_SHARE,
    points,
    steps,
)
from manager.savings.settlement import CpuEstimate, MeteredShare, Whole

NOW = 490_000 * HOUR + 1_234.5


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@given(
    st.floats(0.0, 500.0 * 24 * HOUR),
    st.floats(1.0, 500.0 * 24 * HOUR),
    st.none() | st.integers(MINUTE, LONGEST_STEP),
)
def test_steps_cover_the_interval(back: float, length: float, step: int | None) -> None:
    """They are whole minutes that are kept, or whole hours, and at least as long as requested."""
    begin = NOW - back
    end = min(begin + length, NOW)
    found = steps(at(begin), at(end), step, NOW)
    within = found.interval
    assert within.since <= begin <= end <= within.until
    assert 0 == within.since % found.step == within.until % found.step == found.step % within.span
    assert found.step >= (step or MINUTE)
    assert within.span == HOUR or (within.span == MINUTE and within.since >= NOW - KEPT + MINUTE)
    assert step is not None or found.count <= MOST_POINTS + 1


def test_the_default_step_gives_a_readable_chart() -> None:
    """The last hour has steps of a minute, and a month has steps of six hours."""
    assert (MINUTE, 61) == ((last := steps(None, None, None, NOW)).step, last.count)
    month = steps(at(NOW - 30 * 24 * HOUR), None, None, NOW)
    assert (6 * HOUR, 121) == (month.step, month.count)


def test_unmetered_steps_have_points() -> None:
    """There is one point per step, in order; metered minutes are added up, and unmetered ones have no values."""
    wanted = steps(at(NOW - 600), at(NOW), 5 * MINUTE, NOW)
    begin = wanted.interval.since
    whole = Whole(seconds=60.0, cpu={"jvm": 60 * 10**9}, launched=CpuEstimate(low=1, likely=180 * 10**9, high=3))
    share = MeteredShare(cpu=30 * 10**9, alone=CpuEstimate(likely=60 * 10**9), saving=CpuEstimate())
    metered = [(begin, whole), (begin + MINUTE, whole)]
    found = points(wanted, metered, [(begin, share)], whole_too=True, price_per_core_hour=None)
    assert [begin + number * 300 for number in range(wanted.count)] == [int(each.at.timestamp()) for each in found]
    first, *rest = found
    assert first.measured is not None
    assert first.alone_launched is not None
    assert first.share is not None
    assert (120.0, 1.0, 3.0, 0.25) == (
        first.metered_seconds,
        first.measured.cores,
        first.alone_launched.likely,
        first.share.cores,
    )
    assert {(0.0, None, None)} == {(each.metered_seconds, each.measured, each.share) for each in rest}
    (own, *_) = points(wanted, metered, [], whole_too=False, price_per_core_hour=None)
    assert (None, None, None) == (own.measured, own.alone_launched, own.alone_packed)
    assert own.share is not None
    assert NO_SHARE.cpu == own.share.cpu_ns
