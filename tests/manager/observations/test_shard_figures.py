"""The figures of shards, from the counters of two moments."""

from manager.answers.jobs import ShardFigures
from manager.observations.figures import group_events, shard_figures
from manager.observations.reports import Measured

BEFORE = Measured(at=0.0, shards={0: 10**9}, groups={1: 100, 2: 100})
AFTER = Measured(at=10.0, shards={0: 6 * 10**9, 1: 2 * 10**9}, groups={1: 180, 2: 110, 7: 10})


def test_each_shard_has_its_cores_and_a_hot_group_is_named() -> None:
    """Group 1 has eight tenths of the events; a shard would have half if they were even."""
    expected = ShardFigures(shard_cores=(0.5, 0.2), hot_group=1, hot_group_part=0.8)
    assert expected == shard_figures((BEFORE, AFTER), 2, 10.0)
    assert (0, 80, 10, 0, 0, 0, 0, 10) == group_events((BEFORE, AFTER), 10.0)[:8]


def test_a_group_with_an_even_share_is_not_hot() -> None:
    """Two that share all events are one for each shard."""
    after = Measured(at=10.0, shards={0: 10**9, 1: 10**9}, groups={1: 150, 2: 150})
    assert ShardFigures(shard_cores=(0.0, 0.1)) == shard_figures((BEFORE, after), 2, 10.0)


def test_of_one_shard_nothing_is_shown() -> None:
    """Nor before there are two moments, or of a host that reports nothing."""
    assert ShardFigures() == shard_figures((BEFORE, AFTER), 1, 10.0) == shard_figures((AFTER,), 2, 10.0)
    assert ShardFigures() == shard_figures((Measured(), Measured(at=10.0)), 2, 10.0)
    assert () == group_events((Measured(), Measured(at=10.0)), 10.0)
