"""Back-off grows with each failure in a row, up to its longest wait."""

import pytest

from bridge.machine import BackOff


def test_the_last_wait_repeats() -> None:
    """However often something fails, it is tried again."""
    back_off = BackOff((1.0, 5.0))
    assert [1.0, 5.0, 5.0, 5.0] == [back_off.after(failures) for failures in (1, 2, 3, 1_000)]
    assert 5.0 == back_off.longest


def test_nothing_is_waited_for_without_a_failure() -> None:
    """The first attempt begins at once."""
    assert 0.0 == BackOff((7.0,)).after(0)


def test_doubled_waits_end_at_the_longest() -> None:
    """The longest wait counts even if no doubling meets it."""
    assert (300.0, 600.0, 1_200.0, 2_400.0, 3_600.0) == BackOff.doubling(300.0, longest=3_600.0).waits
    assert (2.0,) == BackOff.doubling(2.0, longest=2.0).waits


@pytest.mark.parametrize("waits", [(), (1.0, -1.0)])
def test_waits_that_cannot_be_kept_are_refused(waits: tuple[float, ...]) -> None:
    """A back-off without a wait, or with one below 0, is an error where it is made."""
    with pytest.raises(ValueError, match="is no back-off; give at least one wait, and none below 0"):
        BackOff(waits)


@pytest.mark.parametrize("first", [0.0, 61.0])
def test_a_first_wait_that_cannot_double_up_to_the_longest_is_refused(first: float) -> None:
    """From 0 it would never grow, and above the longest it would have to shrink."""
    with pytest.raises(ValueError, match=f"the first wait is {first}; give one above 0, and at most 60.0"):
        BackOff.doubling(first, longest=60.0)
