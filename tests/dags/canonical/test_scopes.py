"""Scopes: tasks that may be shared, and tasks confined to their dataflow."""

import pytest

from dags import Scope
from tests.notation import flow


def scopes(text: str, dataflow: str = "flow") -> dict[str, str | None]:
    """For each task of a line, the id of the task whose scope it has."""
    canonical = flow(text, dataflow)
    found = {name: canonical.tasks[place].key.scope for name, place in canonical.places.items()}
    assert {dataflow} >= {scope.dataflow for scope in found.values() if scope}
    return {name: scope and scope.task for name, scope in found.items()}


def test_deterministic_tasks_without_effect_are_shared() -> None:
    """With or without state."""
    text = "s:source > a:map > c:count > w:window > p:split..even > j:join.left > k:sink s > j.right"
    assert dict.fromkeys(("s", "a", "c", "w", "p", "j", "k")) == scopes(text)


@pytest.mark.parametrize("kind", ["random", "look", "write"])
def test_a_task_that_may_not_be_shared_confines_all_that_follow_it(kind: str) -> None:
    """Tasks above or beside it stay shared."""
    assert {"s": None, "a": None, "r": "r", "b": "r", "k": "r", "c": None, "l": None} == scopes(
        f"s:source > a:map > r:{kind} > b:map > k:sink a > c:map{{'add': 1}} > l:sink"
    )


def test_a_fresh_task_confines_all_that_follow_it() -> None:
    """Even a fresh source."""
    assert {"s": None, "a": "a", "b": "a", "k": "a"} == scopes("s:source > a!:map > b:map > k:sink")
    assert {"s": "s", "a": "s", "k": "s"} == scopes("s!:source > a:map > k:sink")


def test_a_sink_with_an_effect_is_confined_alone() -> None:
    """Nothing follows it."""
    assert {"s": None, "a": None, "f": "f"} == scopes("s:source > a:map > f:file")


def test_a_task_that_may_not_be_shared_below_another_has_its_own_scope() -> None:
    """So the two differ."""
    assert {"s": None, "a": "a", "b": "b", "k": "b"} == scopes("s:source > a:random > b:random > k:sink")


def test_a_task_below_several_scopes_has_its_own() -> None:
    """Below two confined tasks, or a shared and a confined one. Its descendants inherit its scope."""
    assert {"s": None, "a": "a", "b": "b", "j": "j", "k": "j"} == scopes(
        "s:source > a:random > j:join.left > k:sink s > b:random > j.right"
    )
    assert {"s": None, "a": "a", "j": "j", "k": "j"} == scopes("s:source > a:random > j:join.left > k:sink s > j.right")


def test_a_task_below_one_scope_by_several_ways_inherits_it() -> None:
    """Repeated scopes count once."""
    assert {"s": None, "r": "r", "a": "r", "b": "r", "j": "r", "k": "r"} == scopes(
        "s:source > r:random > a:map > j:join.left > k:sink r > b:map{'add': 1} > j.right"
    )


def test_a_scope_names_its_dataflow_and_task() -> None:
    """So no two dataflows have the same scope."""
    text = "s:source > a:random > k:sink"
    canonical = flow(text, dataflow="d1")
    assert Scope(dataflow="d1", task="a") == canonical.tasks[canonical.places["k"]].key.scope
    assert scopes(text, "d1") == scopes(text, "d2")
    keys = [{task.key for task in flow(text, dataflow=name).tasks} for name in ("d1", "d2")]
    assert 1 == len(keys[0] & keys[1])


def test_a_scope_does_not_change_the_signature() -> None:
    """Two tasks may compute the same and still run side by side."""
    canonical = flow("s:source > a!:map > k:sink s > b:map > l:sink")
    tasks = {name: canonical.tasks[place] for name, place in canonical.places.items()}
    for one, other in ("ab", "kl"):
        assert tasks[one].key.signature == tasks[other].key.signature
        assert tasks[one].text == tasks[other].text
        assert tasks[one].key != tasks[other].key
