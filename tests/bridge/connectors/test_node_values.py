"""Events of the changes of nodes."""

from datetime import UTC, datetime, timedelta

from bridge.connectors.node_values import NodeChange, NodeValues, microseconds

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def change(field: str, value: float | None, seconds: float = 0, status: str = "") -> NodeChange:
    return NodeChange(field=field, value=value, at=NOON + timedelta(seconds=seconds), status=status)


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def test_an_event_has_the_state_of_all_nodes_once_all_have_one() -> None:
    """Changes that come together are one event, with the newest time."""
    values = NodeValues(("t", "p"), whole=True)
    assert [] == values.events([change("t", 1)])
    assert values.is_waiting
    assert [{"t": 1, "p": 5, "at": at(1), "status": None}] == values.events([change("p", 5, 1)])
    assert [{"t": 2, "p": 5, "at": at(2), "status": None}] == values.events([change("t", 2, 2)])
    assert [{"t": 3, "p": 6, "at": at(4), "status": None}] == values.events([change("p", 6, 4), change("t", 3, 3)])
    assert microseconds(NOON) + 4_000_000 == values.newest


def test_a_node_without_a_value_is_waited_for_no_longer() -> None:
    """Then it is left out until it has one."""
    values = NodeValues(("t", "p"), whole=True)
    assert [] == values.events([change("t", 1)])
    assert [{"t": 1, "at": at(0), "status": None}] == values.waiting()
    assert ([], False) == (values.waiting(), values.is_waiting)


def test_each_change_of_a_node_that_changed_several_times_is_an_event() -> None:
    """In the order of their times, whatever the order in which they were told."""
    values = NodeValues(("t", "p"), whole=False)
    changes = [change("t", 3, 3), change("t", 1, 1), change("p", 5, 1), change("t", 2, 2)]
    assert [
        {"t": 1, "p": 5, "at": at(1), "status": None},
        {"t": 2, "at": at(2), "status": None},
        {"t": 3, "at": at(3), "status": None},
    ] == values.events(changes)


def test_a_value_that_is_not_good_is_named() -> None:
    """Until it is good again."""
    values = NodeValues(("t", "p"), whole=True)
    assert [{"t": None, "p": 1, "at": at(0), "status": "t BadSensorFailure"}] == values.events(
        [change("t", None, 0, "BadSensorFailure"), change("p", 1)]
    )
    assert "t BadSensorFailure, p Uncertain" == values.events([change("p", 2, 1, "Uncertain")])[0]["status"]
    assert [{"t": 4, "p": 2, "at": at(2), "status": "p Uncertain"}] == values.events([change("t", 4, 2)])


def test_what_was_taken_before_is_told_again_without_an_event() -> None:
    """A node that changed meanwhile makes one, with the values of all."""
    since = microseconds(NOON)
    values = NodeValues(("t", "p"), whole=True, since=since)
    assert [] == values.events([change("t", 1, -5), change("p", 5, 0)])
    assert ([], since) == (values.waiting(), values.newest)
    assert [{"t": 1, "p": 6, "at": at(-1), "status": None}] == values.events([change("p", 6, -1)])
    again = NodeValues(("t", "p"), whole=True, since=since)
    assert [{"t": 1, "p": 6, "at": at(3), "status": None}] == again.events([change("t", 1, -5), change("p", 6, 3)])
