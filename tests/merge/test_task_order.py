"""The order of running tasks: each after its parents, whichever started first."""

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dags import Input, Key
from merge import Instance, RunningTask
from merge.tasks import downwards
from tests.catalogue import CATALOGUE

MAP = CATALOGUE.find("map")


def task(instance: int, parents: list[int]) -> RunningTask:
    assert MAP is not None
    return RunningTask(
        instance=Instance(instance),
        key=Key(b"%d" % instance, None),
        text=b"",
        type=MAP,
        inputs=tuple(Input("in", parent, "out") for parent in parents),
        since=datetime(2026, 3, 1, tzinfo=UTC),
    )


@given(st.lists(st.lists(st.integers(0, 20), max_size=3), max_size=8), st.integers(0, 2**32))
def test_every_task_comes_after_its_parents(wanted: list[list[int]], seed: int) -> None:
    """However they are numbered; parents that are not among them do not matter, and the given order neither."""
    draw = Random(seed)
    numbers = draw.sample(range(100), len(wanted))
    parents = [[numbers[each % at] if at and each % 3 else 1_000 for each in those] for at, those in enumerate(wanted)]
    tasks = [task(number, above) for number, above in zip(numbers, parents, strict=True)]
    found = downwards(draw.sample(tasks, len(tasks)))
    assert sorted(numbers) == sorted(each.instance for each in found)
    seen: set[int] = {1_000}
    for each in found:
        assert {edge.parent for edge in each.inputs} <= seen
        seen.add(each.instance)
    assert found == downwards(tasks)


def test_numbers_that_are_an_order_are_kept() -> None:
    """Tasks that nothing was inserted between come by their numbers."""
    tasks = [task(1, []), task(2, [1]), task(3, []), task(4, [3, 1])]
    assert tasks == list(downwards(reversed(tasks)))
