"""The messages of a stream wait at the broker for the batch that they are for, and no longer."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.transport.mqtt_rounds import (
    FETCH_AHEAD,
    LEEWAY,
    LONGEST_FETCH_INTERVAL,
    MANY_MESSAGES,
    PART_AHEAD,
    SHORTEST_FETCH_INTERVAL,
    SMALLEST_WINDOW,
    Fetch,
    fetch_wait,
)

BLINK = 1e-6
NOW = 1_000.0
moments = st.floats(NOW - 10, NOW + 10)
fetches = st.builds(
    Fetch,
    begun=st.floats(NOW - 10, NOW),
    messages=st.integers(0, 2 * MANY_MESSAGES),
    acknowledged=st.floats(0, 10),
    most=st.integers(0, 2 * MANY_MESSAGES),
)


@given(moments, fetches)
def test_messages_wait_within_bounds(due: float, before: Fetch) -> None:
    """Two fetches begin the shortest interval apart, and no message waits for longer than the longest."""
    wait = fetch_wait(due, now=NOW, before=before)
    assert 0.0 <= wait <= LONGEST_FETCH_INTERVAL
    assert NOW + wait >= before.begun + SHORTEST_FETCH_INTERVAL - BLINK


@given(st.floats(0, LONGEST_FETCH_INTERVAL), st.floats(0, 0.1))
def test_a_fetch_is_just_before_the_batch(ahead: float, acknowledged: float) -> None:
    """Earlier if spooling takes long, and after the shortest interval if it is too late for that."""
    before = Fetch(begun=NOW - 1, messages=5, acknowledged=acknowledged, most=6)
    left = ahead - max(FETCH_AHEAD, PART_AHEAD * ahead, LEEWAY * acknowledged)
    wait = fetch_wait(NOW + ahead, now=NOW, before=before)
    assert abs(wait - (left if left > BLINK else SHORTEST_FETCH_INTERVAL)) < 2 * BLINK


@given(st.floats(NOW - 10, NOW))
def test_the_first_messages_after_a_quiet_while_are_fetched_together(due: float) -> None:
    """Those of the shortest interval."""
    assert SHORTEST_FETCH_INTERVAL == fetch_wait(
        due, now=NOW, before=Fetch(begun=NOW - 1, messages=1, acknowledged=0.01)
    )


@given(due=moments, messages=st.integers(SMALLEST_WINDOW, 10 * MANY_MESSAGES), many=st.booleans())
def test_many_messages_do_not_wait_for_a_batch(due: float, messages: int, *, many: bool) -> None:
    """After many, or as many as ever at once, a broker might hold back others until they are acknowledged."""
    before = Fetch(begun=NOW, messages=messages, most=messages + (many and messages >= MANY_MESSAGES))
    assert SHORTEST_FETCH_INTERVAL >= fetch_wait(due, now=NOW, before=before) - BLINK
