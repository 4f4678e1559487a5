"""How far a job is behind."""

from hypothesis import given
from hypothesis import strategies as st

from engine.job.lag import JobLag, Lag


def test_what_waits_has_waited_since_it_was_there() -> None:
    """Each event since the beat at which the spool was seen to reach beyond it."""
    lagging = JobLag(lambda _stream, _position: None)
    told = [
        lagging.note({"s": end}, {"s": position}, now)["s"]
        for now, end, position in [(0.0, 5, 5), (1.0, 7, 5), (2.0, 9, 5), (3.0, 9, 7), (4.0, 9, 8), (5.0, 9, 9)]
    ]
    assert [Lag(0, 0.0), Lag(2, 0.0), Lag(4, 1.0), Lag(2, 1.0), Lag(1, 2.0), Lag(0, 0.0)] == told


def test_what_waited_before_the_start_is_looked_up_once() -> None:
    """In each stream by itself; one that cannot be told waits from now on, and one that is left is forgotten."""
    asked: list[tuple[str, int]] = []

    def came(stream: str, position: int) -> float | None:
        asked.append((stream, position))
        return {"a": 40.0}.get(stream)

    lagging = JobLag(came)
    told = [lagging.note({"a": 3, "b": 3, "c": 3}, {"a": 1, "b": 1, "c": 3}, now) for now in (100.0, 101.0)]
    assert {"a": Lag(2, 61.0), "b": Lag(2, 1.0), "c": Lag(0, 0.0)} == told[-1]
    assert [("a", 1), ("b", 1)] == asked
    assert ["c"] == list(lagging.note({"c": 4}, {"c": 3}, 102.0))
    lagging.note({"a": 3}, {"a": 1}, 103.0)
    assert [("a", 1), ("b", 1), ("a", 1)] == asked


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_who_has_worked_off_everything_is_not_behind(beats: list[tuple[int, int]]) -> None:
    """And who has not waits for no longer than it is since that was noted first."""
    lagging = JobLag(lambda _stream, _position: None)
    end = position = 0
    noted: list[int] = []
    for now, (came, done) in enumerate(beats):
        end, position = end + came, min(position + done, end + came)
        noted.append(end)
        oldest = next((at for at, reached in enumerate(noted) if reached > position), now)
        assert Lag(end - position, float(now - oldest)) == lagging.note({"s": end}, {"s": position}, float(now))["s"]
