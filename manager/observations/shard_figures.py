"""The load of a job's shards and key groups in the last minute, computed from the counters that its host reports."""

from collections.abc import Sequence
from dataclasses import dataclass

from dags.divisibility import GROUPS
from manager.observations.figures import stretch
from manager.observations.reports import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFigures:
    """The load of a job's shards; made by `shard_figures`."""

    shard_cores: tuple[float, ...] = ()
    """The cores that the tasks of each shard take; empty if not known."""
    hot_group: int | None = None
    """The key group with more events than a shard would have if all had as many, if there is one."""
    hot_group_part: float | None = None
    """Its part of the events that are divided by key."""


def shard_figures(measured: Sequence[Measured], shards: int, now: float) -> ShardFigures:
    """The load of so many shards."""
    over = stretch(measured, now)
    if shards == 1 or over is None or not over.last.shards:
        return ShardFigures()
    taken = (over.last.shards.get(each, 0) - over.base.shards.get(each, 0) for each in range(shards))
    cores = tuple(round(each / over.seconds / 1e9, 3) for each in taken)
    events = group_events(measured, now)
    most = max(events, default=0)
    if most * shards <= sum(events):
        return ShardFigures(shard_cores=cores)
    return ShardFigures(shard_cores=cores, hot_group=events.index(most), hot_group_part=round(most / sum(events), 3))


def group_events(measured: Sequence[Measured], now: float) -> tuple[int, ...]:
    """The events of each key group; empty if not known."""
    over = stretch(measured, now)
    if over is None or not over.last.groups:
        return ()
    return tuple(over.last.groups.get(each, 0) - over.base.groups.get(each, 0) for each in range(GROUPS))
