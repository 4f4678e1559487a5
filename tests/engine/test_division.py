"""The division of key groups over shards."""

from collections import Counter
from collections.abc import Callable
from zlib import crc32

import pytest

from dags.dataflow import GROUPS, evenly
from engine.records.state import packed_key


@pytest.mark.parametrize("shards", [2, 3, 4, 8])
@pytest.mark.parametrize("many", [16, 100])
@pytest.mark.parametrize(
    "named", [str, int, "k{}".format, "sensor-{}".format, "sensor-{:03d}".format], ids=["str", "int", "k", "-", "-000"]
)
def test_numbered_keys_are_spread_over_the_shards(named: Callable[[int], object], many: int, shards: int) -> None:
    """Every shard has some, and none has twice its share."""
    groups = evenly(shards)
    has = Counter(groups[crc32(packed_key((named(number),))) % GROUPS] for number in range(many))
    assert shards == len(has)
    assert max(has.values()) <= 2 * many / shards
