"""The lag of a job."""

from hypothesis import given
from hypothesis import strategies as st

from engine.job.query import JobLag, Lag


def test_events_wait_since_they_were_seen() -> None:
    """Each event waits since the beat at which the end of the spool was first beyond it."""
    lag = JobLag(lambda _stream, _position: None)
    lags = [
        lag.note({"s": end}, {"s": position}, now)["s"]
        for now, end, position in [(0.0, 5, 5), (1.0, 7, 5), (2.0, 9, 5), (3.0, 9, 7), (4.0, 9, 8), (5.0, 9, 9)]
    ]
    assert [Lag(0, 0.0), Lag(2, 0.0), Lag(4, 1.0), Lag(2, 1.0), Lag(1, 2.0), Lag(0, 0.0)] == lags


def test_events_from_before_the_start_are_looked_up_once() -> None:
    """If that fails they wait from now on; a stream that is left is forgotten."""
    asked: list[tuple[str, int]] = []

    def came(stream: str, position: int) -> float | None:
        asked.append((stream, position))
        return {"a": 40.0}.get(stream)

    lag = JobLag(came)
    lags = [lag.note({"a": 3, "b": 3, "c": 3}, {"a": 1, "b": 1, "c": 3}, now) for now in (100.0, 101.0)]
    assert {"a": Lag(2, 61.0), "b": Lag(2, 1.0), "c": Lag(0, 0.0)} == lags[-1]
    assert [("a", 1), ("b", 1)] == asked
    assert ["c"] == list(lag.note({"c": 4}, {"c": 3}, 102.0))
    lag.note({"a": 3}, {"a": 1}, 103.0)
    assert [("a", 1), ("b", 1), ("a", 1)] == asked


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_a_job_that_has_read_everything_is_not_behind(beats: list[tuple[int, int]]) -> None:
    """The lag of any other is the time since its oldest waiting event was first noted."""
    lag = JobLag(lambda _stream, _position: None)
    end = position = 0
    noted: list[int] = []
    for now, (came, done) in enumerate(beats):
        end, position = end + came, min(position + done, end + came)
        noted.append(end)
        oldest = next((at for at, reached in enumerate(noted) if reached > position), now)
        assert Lag(end - position, float(now - oldest)) == lag.note({"s": end}, {"s": position}, float(now))["s"]
