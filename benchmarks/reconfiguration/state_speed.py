"""The speed at which the state of a task is transformed at a switch."""

import json
import time

from benchmarks.engine_plans import slot
from engine.behaviour import installed_behaviours
from engine.kernel.plans import change_states
from engine.offset import Offset
from engine.plan import Entry, FormerTask, Plan, StateChange
from engine.records.record import Record
from engine.records.state import InstanceStates, packed_key, packed_value

_KEYS = 100_000
_WINDOWS = (10, 5)


def state_speed(_size: int) -> dict[str, float]:
    """Megabytes a second, of a hundred thousand users whose last ten amounts become the last five."""
    before = json.dumps({"window": _WINDOWS[0]})
    states = InstanceStates()
    keys = [packed_key((user,)) for user in range(_KEYS)]
    values = [packed_value([user + amount / 8 for amount in range(_WINDOWS[0])]) for user in range(_KEYS)]
    states.of(1).put_many(keys, values)
    states.settle(Record(batch=0, start=Offset(), end=Offset(), changes=states.changes()))
    inference = slot(1, "bench:inference", 2, {"window": _WINDOWS[1]})
    change = StateChange(instance=1, former=FormerTask(type=inference.type, config=before))
    plan = Plan(job="state", host="bench", version=2, slots=(inference,), changes=(change,))
    entry = Entry(number=2, plan=plan, starts={}, behaviours=installed_behaviours())
    begun = time.perf_counter()
    change_states([entry], states)
    took = time.perf_counter() - begun
    size = (sum(map(len, keys)) + sum(map(len, values))) / 1e6
    return {
        "keys": _KEYS,
        "mb": round(size, 1),
        "seconds": round(took, 2),
        "mb_per_s": round(size / took, 1),
    }
