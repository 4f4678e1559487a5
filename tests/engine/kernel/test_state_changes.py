"""The first batch of a plan that changes states: copied to forks, transformed or dropped, and once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Config, Continuation, Schema, State, TaskType
from engine.behaviour import Behaviour, Implementation, behaviours_of, each_event
from engine.kernel.plans import in_effect
from engine.plan import Entry, FormerTask, Forward, Port, Slot, StateChange, Switch
from engine.records.record import Record
from engine.records.state import Staged
from tests.engine.kernels import PLACES, Machine, arrived, entry, left, slot


class LastConfig(Config):
    """How many values are kept."""

    size: int = 3


def _made(config: LastConfig) -> Behaviour:
    def keep(_port: str, event: Mapping[str, Any], state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
        kept = [*(state.get(("kept", event["k"])) or []), event["b"]][-config.size :]
        state.put(("kept", event["k"]), kept)
        yield "out", {"kept": json.dumps(kept)}

    return each_event(keep, lambda _schema: {"out": pa.schema({"kept": pa.string()})})


def _transform(_old: LastConfig, new: LastConfig, _key: tuple[Any, ...], value: list[int]) -> list[int] | None:
    if new.size < 0:
        raise ValueError("no size")
    return value[-new.size :] if new.size else None


LAST = Implementation(
    type=TaskType(
        name="last", config=LastConfig, state=State.STREAM, output_schema=lambda _config, _inputs: {"out": Schema.of()}
    ),
    make=_made,
    transform=_transform,
)


class SumConfig(Config):
    """Nothing to configure."""


def _sum(_config: SumConfig) -> Behaviour:
    def add(_port: str, event: Mapping[str, Any], state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
        size, total = state.get(("sum",)) or state.get(("kept", event["k"])) or [0, 0]
        yield "out", {"kept": json.dumps([size, total, event["b"]])}
        state.put(("sum",), [size, total + event["b"]])

    return each_event(add, lambda _schema: {"out": pa.schema({"kept": pa.string()})})


def _summed(old: Mapping[str, Any], _new: SumConfig, _key: tuple[Any, ...], values: list[int]) -> list[int]:
    return [old["size"], sum(values)]


SUM = Implementation(
    type=TaskType(
        name="sum",
        config=SumConfig,
        state=State.STREAM,
        output_schema=lambda _config, _inputs: {"out": Schema.of()},
        continues=(Continuation("last"),),
    ),
    make=_sum,
    continues={"last": _summed},
)
HERE = {**PLACES, "last": f"{__name__}:LAST", "sum": f"{__name__}:SUM"}


def last(instance: int, size: int) -> Slot:
    return slot(instance, "last", 1, size=size)


def plan(
    slots: Sequence[Slot],
    number: int,
    *,
    changes: Sequence[StateChange] = (),
    switch: Switch | None = None,
    forwards: Sequence[Forward] = (),
) -> Entry:
    made = entry(slots, number=number, forwards=forwards)
    return replace(made, plan=replace(made.plan, changes=tuple(changes), switch=switch), behaviours=HERE)


class Job(Machine):
    """A job whose entries begin one after the other."""

    def begin(self, following: Entry) -> Record:
        self.become(following)
        self.made = behaviours_of(following.plan.active, HERE)
        return self.run(begun=[following])


def job(slots: Sequence[Slot], forwards: Sequence[Forward] = ()) -> Job:
    made = Job(entry=plan(slots, 1, forwards=forwards))
    made.begin(made.entry)
    return made


def kept(record: Record, instance: int) -> list[list[int]]:
    return [json.loads(each["kept"]) for each in left(record, instance)]


def rows(*values: int) -> list[dict[str, Any]]:
    return [{"a": 0.0, "b": value, "k": "k"} for value in values]


def former(size: int) -> FormerTask:
    return FormerTask(type="last", config=json.dumps({"size": size}))


@given(values=st.lists(st.integers(0, 9), max_size=8), more=st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_a_transformed_state_goes_on_under_the_new_config(values: list[int], more: list[int]) -> None:
    """What is kept is the newest of what was kept, as if it had been kept so; the transformation happens once."""
    out = Forward(instance=2)
    running = job([last(2, 4)], [out])
    running.run([arrived(rows(*values))])
    running.begin(plan([last(2, 2)], 2, changes=[StateChange(instance=2, former=former(4))], forwards=[out]))
    found = [each for event in more for each in kept(running.run([arrived(rows(event))]), 2)]
    history = values[-4:][-2:]
    for event, each in zip(more, found, strict=True):
        history = [*history, event][-2:]
        assert history == each


def test_a_fork_begins_with_the_state_and_the_numbers_of_its_origin() -> None:
    """It goes on by its own config; the origin is not touched."""
    running = job([last(2, 3)], [Forward(instance=2)])
    running.run([arrived(rows(1, 2))])
    record = running.begin(
        plan(
            [last(2, 3), last(3, 1)],
            2,
            changes=[StateChange(instance=3, source=2, former=former(3))],
            forwards=[Forward(instance=2), Forward(instance=3)],
        )
    )
    assert {Port(2, "out"): 2, Port(3, "out"): 2} == dict(record.opened)
    both = running.run([arrived(rows(3))])
    assert ([[1, 2, 3]], [[3]]) == (kept(both, 2), kept(both, 3))
    assert {2} == {each.first for each in both.emitted}


def test_a_fork_takes_the_state_of_an_origin_that_leaves() -> None:
    """The origin has no slot any more in the plan in which the fork begins."""
    running = job([last(2, 3)], [Forward(instance=2)])
    running.run([arrived(rows(1, 2))])
    running.begin(plan([last(3, 3)], 2, changes=[StateChange(instance=3, source=2)], forwards=[Forward(instance=3)]))
    assert [[1, 2, 3]] == kept(running.run([arrived(rows(3))]), 3)


@pytest.mark.parametrize("source", [None, 2])
def test_a_fresh_state_begins_empty_and_numbers_go_on(source: int | None) -> None:
    """A fork's numbers go on too, so that nobody who reads them sees a gap."""
    own = 2 if source is None else 3
    running = job([last(2, 3)], [Forward(instance=2)])
    running.run([arrived(rows(1, 2))])
    running.begin(
        plan(
            [last(own, 3)],
            2,
            changes=[StateChange(instance=own, source=source, fresh=True)],
            forwards=[Forward(instance=own)],
        )
    )
    record = running.run([arrived(rows(3))])
    assert [[3]] == kept(record, own)
    assert [2] == [each.first for each in record.emitted]


def test_another_type_goes_on_from_the_state_that_it_continues() -> None:
    """It is given the other type's config and values; what it makes of them is its state, and the numbers go on."""
    running = job([last(2, 3)], [Forward(instance=2)])
    running.run([arrived(rows(1, 2))])
    change = StateChange(instance=2, former=former(3))
    running.begin(plan([slot(2, "sum", 1)], 2, changes=[change], forwards=[Forward(instance=2)]))
    record = running.run([arrived(rows(4))])
    assert [[3, 3, 4]] == kept(record, 2)
    assert {2} == {each.first for each in record.emitted}


def test_a_type_that_does_not_continue_another_parks_events() -> None:
    """As where a transformation fails: the state stays for the change back."""
    running = job([slot(2, "sum", 1)], [Forward(instance=2)])
    running.run([arrived(rows(1, 2))])
    change = StateChange(instance=2, former=FormerTask(type="sum"))
    running.begin(plan([last(2, 3)], 2, changes=[change], forwards=[Forward(instance=2)]))
    record = running.run([arrived(rows(3))])
    (dead,) = record.dead
    assert dead.reason.endswith("the implementation of 'last' does not continue 'sum'; let it")


@pytest.mark.parametrize("continues", [{}, {"last": _summed, "other": _summed}])
def test_a_type_and_its_implementation_agree_on_what_it_continues(continues: dict[str, Any]) -> None:
    """Else a plan would promise what no worker can do."""
    with pytest.raises(ValueError, match="name it in both"):
        replace(SUM, continues=continues)


def test_a_transformation_that_fails_parks_events_until_the_config_is_back() -> None:
    """The old state stays; the batch goes on for others; the next change returns to it."""
    running = job([last(2, 3), last(4, 3)], [Forward(instance=2), Forward(instance=4)])
    running.run([arrived(rows(1, 2))])
    out = [Forward(instance=2), Forward(instance=4)]
    running.begin(plan([last(2, -1), last(4, 3)], 2, changes=[StateChange(instance=2, former=former(3))], forwards=out))
    record = running.run([arrived(rows(3))])
    assert ["its state cannot be transformed: ValueError: no size"] == [each.reason for each in record.dead]
    assert [[1, 2, 3]] == kept(record, 4)
    running.begin(plan([last(2, 3), last(4, 3)], 3, changes=[StateChange(instance=2, former=former(-1))], forwards=out))
    assert [[1, 2, 4]] == kept(running.run([arrived(rows(4))]), 2)


def test_the_marker_of_a_switch_comes_before_what_the_new_plan_emits() -> None:
    """It is numbered like an event, at the place of the switch; it is no cut."""
    running = job([last(2, 3)], [Forward(instance=2)])
    running.run([arrived(rows(1))])
    switch = Switch(marker="switch-7", announces=(Port(2, "out"),))
    following = plan([last(2, 1)], 2, switch=switch, forwards=[Forward(instance=2)])
    running.become(following)
    running.made = behaviours_of(following.plan.active, HERE)
    record = running.run([arrived(rows(2))], begun=[following])
    assert [("switch-7", 1), ("", 2)] == [(each.marker, each.first) for each in record.emitted]
    assert () == record.cuts


def test_of_skipped_entries_those_that_waited_have_no_effect() -> None:
    """A plan that was to wait for a marker, and was withdrawn before it came, changes nothing; one at once does."""
    waited = plan([last(2, 1)], 2, switch=Switch(marker="switch-1", awaits=("s",)))
    at_once, newest = plan([last(2, 2)], 3), plan([last(2, 3)], 4)
    assert [at_once, newest] == list(in_effect([waited, at_once, newest]))
    assert [waited] == list(in_effect([waited]))


def test_a_repeated_batch_changes_states_in_the_same_way() -> None:
    """Two workers that run it from the same state make the same record."""
    records = []
    for _ in range(2):
        running = job([last(2, 3)], [Forward(instance=2)])
        running.run([arrived(rows(1, 2, 3))])
        records.append(
            running.begin(
                plan(
                    [last(2, 2), last(3, 1)],
                    2,
                    changes=[StateChange(instance=2, former=former(3)), StateChange(instance=3, source=2)],
                    forwards=[Forward(instance=2), Forward(instance=3)],
                )
            )
        )
    assert records[0].changes == records[1].changes
    assert records[0].opened == records[1].opened
