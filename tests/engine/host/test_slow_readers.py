"""Slow readers: a job that alone holds up a stream of others is stopped, and no other."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from engine.host.consumers import HELD_UP, SlowReaders, holding_up
from engine.job.health import JobHealth


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100)))
def test_only_a_reader_far_behind_all_others_holds_a_stream_up(positions: Mapping[str, int]) -> None:
    """At most one is, and all others would lag less than half as far."""
    found = holding_up(100, positions)
    others = [100 - at for name, at in positions.items() if name != found]
    if found is not None:
        assert others
        assert 100 - positions[found] > 2 * max(others)
    elif len(positions) > 1:
        first, second, *_ = sorted((100 - at for at in positions.values()), reverse=True)
        assert first <= 2 * second


class Stopped(JobHealth):
    """A job whose costliest task was failed, or was not."""

    def __init__(self) -> None:
        super().__init__(None)
        self.streams: list[str] = []

    def stop_costliest(self, stream: str, now: float) -> None:  # noqa: ARG002 - the signature of what it stands for
        self.streams.append(stream)


def test_it_is_stopped_once_it_has_held_the_stream_up_for_a_while() -> None:
    """By its name; a full spool that soon has room again stops nobody."""
    positions, full = {"slow": 5, "quick": 99}, {"street": 100}
    readers = SlowReaders(lambda: full, lambda _stream: positions)
    slow, quick = Stopped(), Stopped()

    def beat(at: float) -> None:
        readers.stop({"slow": slow, "quick": quick}, at)

    beat(0.0)
    full.clear()
    beat(1.0)
    full["street"] = 100
    beat(2.0)
    beat(1.0 + HELD_UP)
    assert ([], []) == (slow.streams, quick.streams)
    beat(2.0 + HELD_UP)
    assert (["street"], []) == (slow.streams, quick.streams)
    beat(3.0 + HELD_UP)
    assert 1 == len(slow.streams)
