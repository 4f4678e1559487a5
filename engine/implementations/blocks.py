"""Blocks: a fixed number of successive events of a key."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engine.implementations.keys import Keyed
from engine.records.state import Staged


class Block(NamedTuple):
    """A complete block; made by `blocks`."""

    end: int
    """The index of the event that completes it."""
    columns: list[list[Any]]
    """The values of its events, field by field."""


def blocks(groups: Keyed, columns: Sequence[Sequence[Any]], window: int, state: Staged) -> list[Block]:
    """The blocks that a batch completes, in the order of the events that complete them.

    `columns` are the values of the batch's events, in a form that state can keep. Incomplete blocks stay in the state
    under their keys, as a list for each field.
    """
    found: list[Block] = []
    for key, places in each_key(groups):
        found += _of_key(key, places, columns, window, state)
    return sorted(found, key=lambda block: block.end)


def each_key(groups: Keyed) -> Iterator[tuple[tuple[Any, ...], list[int]]]:
    """Each key with the indexes of its events, in order."""
    order, bounds = groups.order.tolist(), groups.bounds.tolist()
    for key, first, end in zip(groups.keys, bounds[:-1], bounds[1:], strict=True):
        yield key, order[first:end]


def _of_key(
    key: tuple[Any, ...], places: list[int], columns: Sequence[Sequence[Any]], window: int, state: Staged
) -> Iterator[Block]:
    before = state.get(key)
    kept: list[list[Any]] = before or [[] for _ in columns]
    first = 0
    while first < len(places):
        # A block kept under a longer window may be complete already; the next event ends it.
        piece = places[first : first + max(window - len(kept[0]), 1)]
        for values, column in zip(kept, columns, strict=True):
            values += [column[place] for place in piece]
        first += len(piece)
        if len(kept[0]) >= window:
            yield Block(piece[-1], kept)
            kept = [[] for _ in columns]
    if kept[0]:
        state.put(key, kept)
    elif before is not None:
        state.delete(key)
