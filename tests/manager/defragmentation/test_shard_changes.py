"""Changes of shards: when a job gets another number of shards."""

from manager.moves.watcher import SHARDS_HOLD, Wanted, due
from merge import JobId, Rescale

ONE, TWO = JobId(1), JobId(2)
SHARDS = {ONE: 1, TWO: 4}


def change(job: JobId, shards: int) -> Rescale:
    return Rescale(job, shards, {}, "why")


def looked(*looks: tuple[float, tuple[Rescale, ...]]) -> list[Rescale | None]:
    """What is changed at each look."""
    wanted: Wanted = {}
    made: list[Rescale | None] = []
    for now, found in looks:
        wanted, chosen = due(wanted, found, SHARDS, now)
        made.append(chosen)
    return made


def test_a_job_has_to_need_more_shards_for_a_while() -> None:
    """How many may change meanwhile; the newest number counts."""
    looks = looked((0.0, (change(ONE, 2),)), (SHARDS_HOLD / 2, (change(ONE, 3),)), (SHARDS_HOLD, (change(ONE, 4),)))
    assert [None, None, change(ONE, 4)] == looks


def test_the_wait_begins_anew_when_the_need_was_gone() -> None:
    """And when a job that needed more needs fewer."""
    assert [None, None, None] == looked((0.0, (change(ONE, 2),)), (30.0, ()), (SHARDS_HOLD, (change(ONE, 2),)))
    assert [None, None] == looked((0.0, (change(TWO, 5),)), (SHARDS_HOLD, (change(TWO, 3),)))


def test_one_job_changes_at_a_time() -> None:
    """The first that was found; the other one comes with the next look, and the first has to wait again."""
    both = (change(TWO, 8), change(ONE, 2))
    looks = looked((0.0, both), (SHARDS_HOLD, both), (SHARDS_HOLD + 15, both), (2 * SHARDS_HOLD, both))
    assert [None, change(TWO, 8), change(ONE, 2), None] == looks
