"""Reconfigurations with real Spark and a real broker: at one consistent place, with states, and nobody else notices."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.answers.reconfigurations import ReconfigurationForm, ReconfigurationState
from braid_client.client import Client
from braid_client.errors import NotDone
from merge import BATCH_SECONDS
from tests.integration.hosting import numbers
from tests.integration.serving import Served, street

pytestmark = pytest.mark.spark
KEYS = ("k0", "k1", "k2")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that packs dataflows into one job."""
    yield from _served(tmp_path_factory, "packed", pace=0.5)


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose pace is so quick that every task has a job of its own."""
    yield from _served(tmp_path_factory, "bridged", pace=1.5 * BATCH_SECONDS)


def _served(factory: pytest.TempPathFactory, name: str, pace: float) -> Iterator[Served]:
    made = Served(factory.mktemp(name), pace=pace)
    try:
        made.start()
        yield made
    finally:
        made.close()


def marking(source: str, first: str = "old") -> dict[str, Any]:
    """A document whose first two tasks mark each event with their version; beside them a count goes on."""
    return {
        "version": 1,
        "name": "marks",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "first", "type": "annotate", "config": version("first", first)},
            {"id": "second", "type": "annotate", "config": version("second", first)},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "out", "type": "output"},
            {"id": "tally", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "first"},
            {"from": "first", "to": "second"},
            {"from": "second", "to": "out"},
            {"from": "first", "to": "count"},
            {"from": "count", "to": "tally"},
        ],
    }


def version(field: str, value: str) -> dict[str, Any]:
    return {"field": "k", "fields": {field: "string"}, "known": {key: {field: value} for key in KEYS}}


def test_one_job_switches_between_two_events(served: Served) -> None:
    """Every event meets both tasks old or both new, and the count beside them goes on."""
    _switch(served, "one", 300, waits=0)


@pytest.mark.full
def test_jobs_in_a_row_switch_at_one_place(bridged: Served) -> None:
    """The same, where each task is a job of its own and the marker travels."""
    _switch(bridged, "row", 300, waits=1)


def _switch(served: Served, name: str, many: int, *, waits: int) -> None:
    with served.admit(f"ann-{name}") as ann:
        _ = served.line
        ann.register_source(street(name))
        flow = ann.submit(marking(name))
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        served.publish(f"city/{name}", numbers(0, many))
        served.until_delivered(flow, "out", 1)
        number = reconfigure(ann, flow, first=version("first", "new"), second=version("second", "new"))
        served.publish(f"city/{name}", numbers(many, 2 * many))
        found = until_switched(served, ann, flow, number)
        assert waits == len(found["scope"]["waiting"])
        served.publish(f"city/{name}", numbers(2 * many, 3 * many))
        _hold_switched(served, flow, 3 * many)


def test_others_that_share_the_tasks_go_on_as_they_were(served: Served) -> None:
    """The dataflow gets copies with their states; the other's outputs are as without any reconfiguration."""
    with served.admit("ann") as ann, served.admit("bob") as bob:
        _ = served.line
        ann.register_source(street("shared", visibility="public"))
        mine, other = ann.submit(marking("ann:shared")), bob.submit(marking("ann:shared"))
        for client, flow in ((ann, mine), (bob, other)):
            served.until_state(client, flow.id, DataflowState.RUNNING)
        served.publish("city/shared", numbers(0, 300))
        served.until_delivered(mine, "out", 1)
        number = reconfigure(ann, mine, first=version("first", "new"), second=version("second", "new"))
        served.publish("city/shared", numbers(300, 600))
        until_switched(served, ann, mine, number)
        served.publish("city/shared", numbers(600, 900))
        _hold_switched(served, mine, 900)
        events = served.until_delivered(other, "out", 900)
        assert {("old", "old")} == {(each["first"], each["second"]) for each in events}
        assert list(range(900)) == [each["n"] for each in events]


@pytest.mark.full
def test_another_source_goes_on_where_the_first_one_ends(served: Served) -> None:
    """All that had come of the first is taken, though it waits, then all of the other; states below go on."""
    _swap(served, "swap")


@pytest.mark.slow
def test_jobs_begin_another_source_at_one_event(bridged: Served) -> None:
    """The same, where three jobs read the source and their host is killed meanwhile; and back again."""
    _swap(bridged, "swaps", part="engine.machines.process")


def _swap(served: Served, name: str, part: str = "") -> None:
    with served.admit(f"ann-{name}") as ann:
        _ = served.line
        for source in (f"{name}-first", f"{name}-second"):
            ann.register_source(street(source))
        flow = ann.submit(swapping(f"{name}-first"))
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        served.publish(f"city/{name}-first", numbers(0, 150))
        first, second = (f"ann-{name}:{name}-{which}" for which in ("first", "second"))
        served.until(lambda: accepted(ann, first) == 150, "the first source's events")
        number = reconfigure(ann, flow, **{"in": {"source": f"{name}-second"}})
        if part:
            served.look()
            served.below_keeper(part).kill()
        # Its events can come from now on, and wait until the jobs have switched.
        served.until(lambda: accepted(ann, second) is not None, "the second source to be received")
        served.publish(f"city/{name}-second", numbers(150, 180))
        until_switched(served, ann, flow, number)
        # Nobody reads it any more.
        served.publish(f"city/{name}-first", numbers(0, 30))
        served.publish(f"city/{name}-second", numbers(180, 210))
        assert list(range(210)) == [each["n"] for each in served.until_delivered(flow, "out", 210)]
        assert 210 == len(served.until_delivered(flow, "slow-out", 210))
        counts = served.until_delivered(flow, "tally", 210)
        for key in KEYS:
            assert list(range(1, 71)) == [each["count"] for each in counts if each["k"] == key]
        if not part:
            return
        served.until(lambda: is_done(ann, flow, number), "all events from before to be gone")
        undone = ann.undo_reconfiguration(flow.id, number).id
        until_switched(served, ann, flow, undone)
        served.publish(f"city/{name}-first", numbers(210, 240))
        assert list(range(240)) == [each["n"] for each in served.until_delivered(flow, "out", 240)]


def accepted(client: Client, source: str) -> int | None:
    """The events that a host has accepted of a source; None while none receives it."""
    with suppress(NotDone):
        received = client.source(source).received
        return None if received is None else received.accepted
    return None


def swapping(source: str) -> dict[str, Any]:
    """A document with a slow task, a count and a copy of the events beside each other."""
    return {
        "version": 1,
        "name": "swaps",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "mark", "type": "annotate", "config": version("mark", "one")},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "slow", "type": "pi_viete", "config": {"iterations": 4_000}},
            {"id": "out", "type": "output"},
            {"id": "tally", "type": "output"},
            {"id": "slow-out", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "mark"},
            {"from": "mark", "to": "out"},
            {"from": "in", "to": "count"},
            {"from": "count", "to": "tally"},
            {"from": "in", "to": "slow"},
            {"from": "slow", "to": "slow-out"},
        ],
    }


@pytest.mark.full
def test_jobs_that_read_one_source_switch_at_one_event(bridged: Served) -> None:
    """Two tasks in jobs of their own, fed by one source, have the new config from the same event on."""
    with bridged.admit("ann-fan") as ann:
        _ = bridged.line
        ann.register_source(street("fan"))
        flow = ann.submit(fanning("fan"))
        bridged.until_state(ann, flow.id, DataflowState.RUNNING)
        bridged.publish("city/fan", numbers(0, 300))
        bridged.until_delivered(flow, "left-out", 1)
        number = reconfigure(ann, flow, left=version("left", "new"), right=version("right", "new"))
        bridged.publish("city/fan", numbers(300, 600))
        found = until_switched(bridged, ann, flow, number)
        assert 2 == len(found["scope"]["waiting"])
        bridged.publish("city/fan", numbers(600, 900))
        left, right = (
            {each["n"]: each[side] for each in bridged.until_delivered(flow, f"{side}-out", 900)}
            for side in ("left", "right")
        )
        assert left == right
        assert {"old", "new"} == set(left.values())
        assert 900 == len(left)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["", "manager"])
def test_a_job_beside_that_lags_keeps_two_reconfigurations_in_order(bridged: Served, part: str) -> None:
    """Once the first is done, no event is left that met it unapplied, so none meets the second and not the first.

    A manager that has just begun does not take it for done either.
    """
    with bridged.admit(f"ann-beside{part}") as ann:
        _ = bridged.line
        source = f"beside{part}"
        ann.register_source(street(source))
        flow = ann.submit(lagging(source))
        bridged.until_state(ann, flow.id, DataflowState.RUNNING)
        # So few that the job knows what an event costs before it gets many.
        bridged.publish(f"city/{source}", numbers(0, 20))
        bridged.until_delivered(flow, "right-out", 20)
        bridged.publish(f"city/{source}", numbers(20, BACKLOG))
        bridged.until_delivered(flow, "left-out", BACKLOG)
        first = reconfigure(ann, flow, left=version("left", "new"))
        until_switched(bridged, ann, flow, first)
        if part:
            bridged.kill()
            bridged.start()
        bridged.until(lambda: is_done(ann, flow, first), "the older events to be gone")
        second = reconfigure(ann, flow, right={"computed": {"old": None, "new": "pi"}})
        until_switched(bridged, ann, flow, second)
        bridged.publish(f"city/{source}", numbers(BACKLOG, BACKLOG + 20))
        left = [each["left"] for each in bridged.until_delivered(flow, "left-out", BACKLOG + 20)]
        right = [list(each) for each in bridged.until_delivered(flow, "right-out", BACKLOG + 20)]
        assert (["old", "new"], [["old"], ["new"]]) == ([left[0], left[-1]], [right[0], right[-1]])
        # All tasks make one of one, and keep their order.
        assert [] == [n for n in range(BACKLOG + 20) if (left[n], right[n]) == ("old", ["new"])]


def is_done(client: Client, flow: SubmitAnswer, number: str) -> bool:
    """Whether all events from before a reconfiguration are gone."""
    with suppress(NotDone):
        return client.reconfiguration(flow.id, number).state is ReconfigurationState.DONE
    return False


BACKLOG = 1_600
"""The events for which the slow task of `lagging` takes longer than a reconfiguration is watched."""


def lagging(source: str) -> dict[str, Any]:
    """A document with two tasks that mark each event with their versions, one of them below a slow task."""
    return {
        "version": 1,
        "name": "lags",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "left", "type": "annotate", "config": version("left", "old")},
            {"id": "slow", "type": "pi_viete", "config": {"iterations": 5_000}},
            {"id": "right", "type": "project", "config": {"computed": {"old": "pi"}}},
            {"id": "left-out", "type": "output"},
            {"id": "right-out", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "left"},
            {"from": "left", "to": "left-out"},
            {"from": "in", "to": "slow"},
            {"from": "slow", "to": "right"},
            {"from": "right", "to": "right-out"},
        ],
    }


@pytest.mark.slow
def test_kills_around_a_switch_leave_it_whole(bridged: Served) -> None:
    """Whatever dies while jobs switch, each event meets all old or all new, none is lost, and no count restarts."""
    with bridged.admit("ann-kill") as ann:
        _ = bridged.line
        ann.register_source(street("kill"))
        flow = ann.submit(marking("kill", "v0"))
        bridged.until_state(ann, flow.id, DataflowState.RUNNING)
        sent = 0
        names = ["v0"]
        for part in ("manager", "engine.machines.process", "pyspark.daemon", "java"):
            bridged.publish("city/kill", numbers(sent, sent + 60))
            sent += 60
            bridged.until_delivered(flow, "out", sent - 59)
            names.append(f"v{len(names)}")
            number = reconfigure(ann, flow, first=version("first", names[-1]), second=version("second", names[-1]))
            bridged.publish("city/kill", numbers(sent, sent + 60))
            sent += 60
            bridged.look()
            if part == "manager":
                bridged.kill()
                bridged.start()
            else:
                bridged.below_keeper(part).kill()
            found = until_over(bridged, ann, flow, number)
            assert found["state"] in {ReconfigurationState.SWITCHED, ReconfigurationState.DONE}
        bridged.publish("city/kill", numbers(sent, sent + 60))
        sent += 60
        events = bridged.until_delivered(flow, "out", sent)
        assert list(range(sent)) == [each["n"] for each in events]
        assert all(each["first"] == each["second"] for each in events)
        assert events[-1]["first"] == names[-1]
        counts = bridged.until_delivered(flow, "tally", sent)
        for key in KEYS:
            assert list(range(1, sent // 3 + 1)) == [each["count"] for each in counts if each["k"] == key]


@pytest.mark.full
def test_a_manager_that_dies_while_one_prepares_leaves_it_to_the_next(bridged: Served) -> None:
    """The next one prepares it anew, and goes on with what waits behind it; each event meets one version of both."""
    with bridged.admit("ann-heir") as ann:
        _ = bridged.line
        ann.register_source(street("heir"))
        flow = ann.submit(marking("heir"))
        bridged.until_state(ann, flow.id, DataflowState.RUNNING)
        bridged.publish("city/heir", numbers(0, 300))
        bridged.until_delivered(flow, "out", 1)
        bridged.look()
        # No job takes a plan up meanwhile, so it prepares until the manager is dead.
        host = bridged.below_keeper("engine.machines.process")
        host.suspend()
        form = ReconfigurationForm(
            tasks={task: {"config": version(task, "new")} for task in ("first", "second")},
        )
        made = ann.reconfigure(flow.id, form, idempotency_key="heir")
        later = {task: {"config": version(task, "newer")} for task in ("first", "second")}
        waits = ann.reconfigure(flow.id, ReconfigurationForm(tasks=later))
        assert (ReconfigurationState.PREPARING, ReconfigurationState.WAITING) == (made.state, waits.state)
        assert waits.queue is not None
        assert (made.id,) == waits.queue.behind
        bridged.kill()
        host.resume()
        bridged.start()
        assert made.id == ann.reconfigure(flow.id, form, idempotency_key="heir").id
        for number in (made.id, waits.id):
            until_switched(bridged, ann, flow, number)
        # It was not ready before the manager died.
        assert f"the reconfiguration {made.id}: interrupted" in bridged.log.read_text()
        bridged.publish("city/heir", numbers(300, 600))
        events = bridged.until_delivered(flow, "out", 600)
        assert list(range(600)) == [each["n"] for each in events]
        assert all(each["first"] == each["second"] for each in events)
        assert "newer" == events[-1]["first"]
        counts = bridged.until_delivered(flow, "tally", 600)
        for key in KEYS:
            assert list(range(1, 201)) == [each["count"] for each in counts if each["k"] == key]


@pytest.mark.full
def test_a_version_that_does_not_work_goes_back_by_itself(served: Served) -> None:
    """What it could not take is parked; after that all is as before, with the state."""
    with served.admit("ann-bad") as ann:
        _ = served.line
        ann.register_source(street("bad"))
        flow = ann.submit(sieving("bad"))
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        served.publish("city/bad", numbers(0, 30))
        served.until_delivered(flow, "out", 30)
        nowhere = {"known": None, "file": {"place": "nowhere"}, "sha256": "0" * 64}
        number = reconfigure(ann, flow, sieve=nowhere)
        until_switched(served, ann, flow, number)
        sent = 30
        while ann.reconfiguration(flow.id, number).state is not ReconfigurationState.REVERTED:
            assert sent < 3_000
            served.publish("city/bad", numbers(sent, sent + 30))
            sent += 30
            served.until_delivered(flow, "tally", sent)
        undoing = served.until(
            lambda: next((each for each in ann.reconfigurations(flow.id) if each.undoes == number), None),
            "the reconfiguration that undoes it",
        )
        until_switched(served, ann, flow, undoing.id)
        before = len(served.delivered(flow, "out"))
        served.publish("city/bad", numbers(sent, sent + 30))
        served.until_delivered(flow, "out", before + 30)


def fanning(source: str) -> dict[str, Any]:
    """A document with two tasks beside each other, which mark each event with their versions."""
    sides = ("left", "right")
    return {
        "version": 1,
        "name": "fans",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            *({"id": side, "type": "annotate", "config": version(side, "old")} for side in sides),
            *({"id": f"{side}-out", "type": "output"} for side in sides),
        ],
        "streams": [
            *({"from": "in", "to": side} for side in sides),
            *({"from": side, "to": f"{side}-out"} for side in sides),
        ],
    }


def sieving(source: str) -> dict[str, Any]:
    """A document with a set of known keys, and a count of all events beside it."""
    return {
        "version": 1,
        "name": "sieves",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "sieve", "type": "bloom_filter", "config": {"field": "k", "known": list(KEYS)}},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "out", "type": "output"},
            {"id": "tally", "type": "output"},
        ],
        "streams": [
            {"from": "in", "to": "sieve"},
            {"from": "sieve", "to": "out"},
            {"from": "in", "to": "count"},
            {"from": "count", "to": "tally"},
        ],
    }


def _hold_switched(served: Served, flow: SubmitAnswer, many: int) -> None:
    """Nothing is lost or doubled; the versions of all events are old, then new; the count never begins anew."""
    events = served.until_delivered(flow, "out", many)
    assert list(range(many)) == [each["n"] for each in events]
    assert {("old", "old"), ("new", "new")} == {(each["first"], each["second"]) for each in events}
    versions = [each["first"] for each in events]
    assert sorted(versions, reverse=True) == versions
    counts = served.until_delivered(flow, "tally", many)
    for key in KEYS:
        assert list(range(1, many // 3 + 1)) == [each["count"] for each in counts if each["k"] == key]


def reconfigure(client: Client, flow: SubmitAnswer, **configs: dict[str, Any]) -> str:
    """Give tasks other configs; the number of the reconfiguration."""
    form = ReconfigurationForm(tasks={task: {"config": config} for task, config in configs.items()})
    return client.reconfigure(flow.id, form).id


def until_over(served: Served, client: Client, flow: SubmitAnswer, number: str) -> dict[str, Any]:
    """Wait until a reconfiguration has switched, or is given up, whatever the service does meanwhile."""
    going = {ReconfigurationState.WAITING, ReconfigurationState.PREPARING, ReconfigurationState.SWITCHING}

    def found() -> dict[str, Any] | None:
        with suppress(NotDone):
            answer = client.reconfiguration(flow.id, number)
            return None if answer.state in going else answer.model_dump(mode="json")
        return None

    return served.until(found, "the reconfiguration to be over")


def until_switched(served: Served, client: Client, flow: SubmitAnswer, number: str) -> dict[str, Any]:
    """Wait until a reconfiguration has switched."""
    found = until_over(served, client, flow, number)
    assert found["state"] in {ReconfigurationState.SWITCHED, ReconfigurationState.DONE}, found
    return found
