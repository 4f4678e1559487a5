"""The division of a job's work over the shards of its batches: which events and which states belong to which shard."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dags.divisibility import DividedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDivision:
    """The shards of one stream's events; made by `engine.plan_division.divided`."""

    by: DividedBy
    key: tuple[str, ...] = ()
    """The fields of the key, if it is divided by key."""
    shard: int = 0
    """The shard of all its events, if it is not divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The shards of a plan's events and states; made by `engine.plan_division.divided`, kept with the plan's entry."""

    shards: int = 1
    """The number of tasks in a batch."""
    groups: tuple[int, ...] = ()
    """The shard of each key group; empty if there is one shard."""
    streams: Mapping[str, StreamDivision] = field(default_factory=dict)
    """The division of each stream that enters."""
    keyed: frozenset[int] = frozenset()
    """The instances whose state is divided by key group."""
    whole: Mapping[int, int] = field(default_factory=dict)
    """The shard of each other instance."""

    def owner(self, instance: int, group: int) -> int:
        """The shard that has a key group of an instance's state."""
        return self.whole.get(instance, self.groups[group]) if self.groups else 0

    def moves_nothing(self, later: "Division") -> bool:
        """Whether every state that this division knows has the same shard in a later one, if it is there still."""
        if self is later:
            return True
        stay = all(later.whole.get(each, shard) == shard for each, shard in self.whole.items())
        return (
            self.groups == later.groups
            and stay
            and self.keyed.isdisjoint(later.whole)
            and later.keyed.isdisjoint(self.whole)
        )


UNDIVIDED = Division()
"""The division of a job with one task for each batch."""
