"""The changes of states when a plan takes effect: states that are copied to forks, transformed or dropped.

They are staged and recorded with the batch that first runs the plan, so a repeated batch repeats them. A transformation
that raises leaves the state as it was, and the instance parks its events until its next change. Each shard changes its
own part of a state, and notes the key groups that could not be transformed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from engine.behaviour import AnyImplementation, implementation_of
from engine.kernel.portion import EVERYTHING, Portion
from engine.kernel.task_run import reason_of
from engine.plan import Entry, Slot
from engine.records.staged_state import NUMBERS, packed_value
from engine.records.state import InstanceStates
from engine.records.state_growth import Overlay
from engine.state_change import FormerTask, StateChange

_UNCHANGED = "why its state could not be transformed, in group "
"""The note of a key group whose transformation failed begins with this, before the group."""
_unpack = msgspec.msgpack.Decoder().decode


def in_effect(begun: Sequence[Entry]) -> Iterator[Entry]:
    """Those entries that take effect: the last one, and any before it that did not wait for something."""
    for entry in begun:
        plan = entry.plan
        waits = plan.at or plan.at_cut or (plan.switch is not None and plan.switch.awaits)
        if entry is begun[-1] or not waits:
            yield entry


def change_states(entries: Iterable[Entry], state: InstanceStates) -> None:
    """Stage the changes of states of the entries that take effect."""
    for entry in entries:
        slots = {slot.instance: slot for slot in entry.plan.slots}
        for change in entry.plan.changes:
            _change(change, slots[change.instance], entry.behaviours, state)


def untransformed(state: InstanceStates, instance: int, portion: Portion = EVERYTHING) -> str:
    """The reason why the state of an instance could not be transformed, in this shard; empty if it could."""
    failed = _untransformed_groups(state, instance)
    return next((why.decode() for group, why in failed.items() if portion.owns(instance, group)), "")


def _untransformed_groups(state: InstanceStates, instance: int) -> dict[int, bytes]:
    noted = state.of(instance).notes(_UNCHANGED)
    return {int(name.removeprefix(_UNCHANGED)): why for name, why in noted.items()}


def _change(change: StateChange, slot: Slot, places: Mapping[str, str], state: InstanceStates) -> None:
    staged = state.of(change.instance)
    content = _content(state, change.instance if change.source is None else change.source)
    numbers = content.pop(NUMBERS, {})
    if change.source is not None:
        staged.bring({NUMBERS: numbers, **content})
    if change.fresh:
        for items in content.values():
            staged.put_many(list(items), [None] * len(items))
        return
    if change.former is None:
        return
    for group in _untransformed_groups(state, change.instance).keys() & content.keys():
        # The state is still that of the task before the former one, to which the instance returns.
        staged.put_note(f"{_UNCHANGED}{group}", b"")
        del content[group]
    token = staged.mark()
    try:
        implementation = implementation_of(slot.type, places)
        for items in content.values():
            staged.put_many(list(items), list(_transformed(items, implementation, change.former, slot)))
    except Exception as error:  # noqa: BLE001 - a transformation may raise anything
        staged.rollback(token)
        for group in content:
            staged.put_note(f"{_UNCHANGED}{group}", f"its state cannot be transformed: {reason_of(error)}".encode())


def _transformed(
    items: Mapping[bytes, bytes | None], implementation: AnyImplementation, former: FormerTask, slot: Slot
) -> Iterator[bytes | None]:
    config = implementation.type.config
    new = config.model_validate_json(slot.config)
    transform: Callable[[tuple[Any, ...], Any], Any]
    if former.type != slot.type:
        if former.type not in implementation.continues:
            raise TypeError(f"the implementation of {slot.type!r} does not continue {former.type!r}; let it")
        transform = partial(implementation.continues[former.type], json.loads(former.config), new)
    elif implementation.transform is None:
        raise TypeError(f"the implementation of {slot.type!r} has no transform; give it one")
    else:
        transform = partial(implementation.transform, config.model_validate_json(former.config), new)
    for key, value in items.items():
        changed = None if value is None else transform(tuple(_unpack(key)), _unpack(value))
        yield None if changed is None else packed_value(changed)


def _content(state: InstanceStates, instance: int) -> dict[int, Overlay]:
    """The state of an instance by key group, with what is staged."""
    found: dict[int, Overlay] = {group: dict(items) for group, items in state.kept.get(instance, {}).items()}
    for group, overlay in state.of(instance).changes().items():
        found.setdefault(group, {}).update(overlay)
    return found
