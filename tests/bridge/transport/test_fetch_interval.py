"""The fetch interval of a stream is short enough for its readers."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bridge.transport.fetch_interval import (
    _AHEAD,
    _FETCHES_PER_PACE,
    _LONGEST,
    LEEWAY,
    PAYING,
    SHORTEST_FETCH_INTERVAL,
    Fetch,
    grouped_for,
)

BLINK = 1e-6
paces = st.integers(1, 6_000).map(lambda hundredths: hundredths / 100)
moments = st.floats(1.7e9, 1.8e9)
fetches = st.builds(Fetch, took=st.floats(0, 1), messages=st.integers(0, 1_000), acknowledged=st.floats(0, 10))


@given(paces, moments, fetches)
def test_it_is_never_longer_than_a_quarter_of_a_pace(pace: float, now: float, before: Fetch) -> None:
    """Nor than a quarter of a second; and a short pace has the shortest interval, whatever the last fetch was like."""
    found = grouped_for(pace, now=now, before=before)
    assert 0 <= found <= max(SHORTEST_FETCH_INTERVAL, min(_LONGEST, pace / _FETCHES_PER_PACE)) + BLINK
    if pace <= SHORTEST_FETCH_INTERVAL * _FETCHES_PER_PACE:
        assert max(0.0, SHORTEST_FETCH_INTERVAL - before.took) == found


@given(
    paces.filter(lambda pace: pace > SHORTEST_FETCH_INTERVAL * _FETCHES_PER_PACE),
    st.integers(10**7, 10**8),
    st.floats(0, 0.9),
    st.floats(0, 1),
)
def test_messages_before_a_batch_are_fetched_for_it(pace: float, tick: int, part: float, share: float) -> None:
    """One of the fetches of a steady stream begins just before each tick, and earlier if spooling takes long."""
    # So that all of the leeway lies between two fetches, of which there are five in a pace just beyond the longest.
    slow = share * min(_LONGEST, pace / _FETCHES_PER_PACE) * _FETCHES_PER_PACE / (_FETCHES_PER_PACE + 1) / LEEWAY
    due, few = tick * pace, Fetch(took=0.01, messages=PAYING.start, acknowledged=slow)
    ahead = max(_AHEAD, LEEWAY * slow)
    now, fetched = due - pace + part * (pace - ahead), []
    while now < due:
        # A message comes just after the fetch before.
        now += grouped_for(pace, now=now, before=few) + BLINK
        fetched.append(now)
    assert any(math.isclose(due - ahead, each, rel_tol=0, abs_tol=1e-4) for each in fetched)
    assert len(fetched) <= math.ceil(pace / min(_LONGEST, pace / _FETCHES_PER_PACE) + BLINK) + 2


@given(paces, moments, st.integers(0, 1_000).filter(lambda messages: messages not in PAYING))
def test_it_is_short_if_waiting_saves_nothing_or_holds_back(pace: float, now: float, messages: int) -> None:
    """This holds after a single message, and after so many that a broker might wait for their acknowledgement."""
    assert grouped_for(pace, now=now, before=Fetch(messages=messages)) == SHORTEST_FETCH_INTERVAL
