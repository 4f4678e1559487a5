"""By what tasks that hang together are divided, in small examples: a task is above another that it feeds."""

import pytest

from dags.dataflow import DividedBy, Divisibility, TaskKeeping, divisibility
from tests.catalogue import OWN, CountConfig, FieldsConfig, MapConfig, NoConfig, type_of

WHOLE = Divisibility(DividedBy.NOTHING)


def keeping(
    *parents: int, key: tuple[str, ...] | None = None, sets: tuple[str, ...] | None = (), is_whole: bool = False
) -> TaskKeeping:
    return TaskKeeping(parents=parents, is_whole=is_whole, key=key, sets=sets)


SOURCE, COUNT = keeping(), keeping(1, key=("place",))


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        pytest.param([SOURCE, keeping(0)], Divisibility(DividedBy.POSITION), id="no state"),
        pytest.param([SOURCE, keeping(0), COUNT], Divisibility(DividedBy.KEY, ("place",)), id="one key"),
        pytest.param([SOURCE, keeping(0), COUNT, None], WHOLE, id="an unknown task"),
        pytest.param([SOURCE, keeping(0), COUNT, keeping(2, is_whole=True)], WHOLE, id="a task that needs all"),
        pytest.param([SOURCE, keeping(0), COUNT, keeping(0, key=("room",))], WHOLE, id="two keys"),
        pytest.param([SOURCE, keeping(0), keeping(1, key=())], WHOLE, id="a key of no fields"),
        pytest.param([SOURCE, keeping(0, sets=("place",)), COUNT], WHOLE, id="the key is set above"),
        pytest.param([SOURCE, keeping(0, sets=None), COUNT], WHOLE, id="any field may be set above"),
        pytest.param(
            [SOURCE, keeping(0, sets=("value",)), COUNT, keeping(2, sets=("place",))],
            Divisibility(DividedBy.KEY, ("place",)),
            id="another field is set above, and the key below",
        ),
        pytest.param([keeping(sets=("place",)), keeping(0), COUNT], WHOLE, id="the key is set further above"),
        pytest.param(
            [SOURCE, keeping(0), keeping(1, 7, key=("place",))], Divisibility(DividedBy.KEY, ("place",)), id="elsewhere"
        ),
    ],
)
def test_tasks_are_divided(tasks: list[TaskKeeping | None], expected: Divisibility) -> None:
    """By position without state, by the one key that comes unchanged from above, and else not at all."""
    assert expected == divisibility(dict(enumerate(tasks)))


def test_what_a_task_keeps_follows_from_its_type_and_config() -> None:
    """State of the whole stream and effects outside need all events; keys and set fields are those of the config."""
    set_ = next(kind for kind in OWN if kind.name == "set")
    assert [
        keeping(1, 2, sets=None),
        keeping(key=("room",), sets=None),
        keeping(sets=None, is_whole=True),
        keeping(sets=None, is_whole=True),
        keeping(sets=("a", "b")),
    ] == [
        TaskKeeping.of(type_of("map", {}), MapConfig(), [1, 2]),
        TaskKeeping.of(type_of("count", {}), CountConfig(by="room"), []),
        TaskKeeping.of(type_of("join", {}), NoConfig(), []),
        TaskKeeping.of(type_of("write", {}), NoConfig(), []),
        TaskKeeping.of(set_, FieldsConfig(fields=("a", "b")), []),
    ]
