"""Changes of paces: when a job gets another pace."""

from manager.moves.watcher import PACE_HOLDS, Steady, steady
from merge import JobId, Repace

ONE, TWO = JobId(1), JobId(2)


def change(job: JobId, pace: float) -> Repace:
    return Repace(job, pace, "why")


def looked(*looks: tuple[float, tuple[Repace, ...]]) -> list[Repace | None]:
    """What is changed at each look, where a pace of 1 s is usual."""
    known: Steady = {}
    made: list[Repace | None] = []
    for now, found in looks:
        known, chosen = steady(known, found, 1.0, now)
        made.append(chosen)
    return made


def test_a_job_is_slowed_down_once_the_same_pace_has_been_right_for_a_while() -> None:
    """Another pace begins its own wait."""
    looks = looked((0.0, (change(ONE, 3.0),)), (30.0, (change(ONE, 5.0),)), (PACE_HOLDS, (change(ONE, 5.0),)))
    assert [None, None, None] == looks
    looks = looked((0.0, (change(ONE, 5.0),)), (PACE_HOLDS, (change(ONE, 5.0),)))
    assert [None, change(ONE, 5.0)] == looks


def test_a_job_is_quick_again_at_once() -> None:
    """Somebody waits."""
    assert [change(ONE, 1.0)] == looked((0.0, (change(ONE, 1.0),)))


def test_one_job_changes_at_a_time() -> None:
    """The next one comes with the next look."""
    both = (change(ONE, 5.0), change(TWO, 3.0))
    looks = looked((0.0, both), (PACE_HOLDS, both), (PACE_HOLDS + 15, both))
    assert [None, change(ONE, 5.0), change(TWO, 3.0)] == looks


def test_what_is_only_said_is_said_once() -> None:
    """A preview changes nothing, so the same is found again; once it was not found, it is said anew."""
    wanted = (change(ONE, 5.0),)
    times = (0.0, PACE_HOLDS, 2 * PACE_HOLDS, 3 * PACE_HOLDS)
    assert [None, wanted[0], None, None] == looked(*((at, wanted) for at in times))
    gone = looked((0.0, wanted), (60.0, wanted), (75.0, ()), (90.0, wanted), (150.0, wanted))
    assert [None, wanted[0], None, None, wanted[0]] == gone
