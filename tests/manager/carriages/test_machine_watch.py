"""The watch over machines: since when they are lost, and since when alive."""

from manager.machines.admission import RECONNECTED_WITHIN, MachineWatch
from manager.machines.carriages import MachinesSeen
from manager.observations.reports import MachineStatus
from manager.observations.sight import MACHINE_SILENT_AFTER, Sight
from ring.fleet import MachineSeen


def sight(connection: int = 1, **alive: bool) -> Sight:
    machines = {name: (MachineStatus(seen=MachineSeen(name=name, alive=is_alive)),) for name, is_alive in alive.items()}
    return Sight(complete=True, connection=connection, machines=machines)


def taken(watch: MachineWatch, seen: Sight, now: float, *named: str) -> MachinesSeen:
    return watch.take({name: found[0] for name, found in seen.machines.items()}, seen.connection, named, now)


def test_a_machine_is_lost_since_its_first_sight_without_life() -> None:
    """Later sights do not move that moment, and life ends it."""
    watch = MachineWatch()
    assert taken(watch, sight(a=True), 0.0).lost_since == {}
    assert taken(watch, sight(a=False), 1.0).lost_since == {"a": 1.0}
    assert taken(watch, sight(a=False), 5.0).lost_since == {"a": 1.0}
    assert taken(watch, sight(a=True), 6.0).lost_since == {}
    assert taken(watch, sight(a=False), 7.0).lost_since == {"a": 7.0}


def test_a_machine_is_alive_since_its_return() -> None:
    """A loss in between begins it anew."""
    watch = MachineWatch()
    assert taken(watch, sight(a=True), 0.0).alive_since == {"a": 0.0}
    assert taken(watch, sight(a=True), 1.0).alive_since == {"a": 0.0}
    assert taken(watch, sight(a=False), 2.0).alive_since == {}
    assert taken(watch, sight(a=True), 3.0).alive_since == {"a": 3.0}


def test_a_named_machine_that_was_never_heard_is_lost_after_a_while() -> None:
    """A new leader over a broker without messages gives it the time to report."""
    watch = MachineWatch()
    seen = taken(watch, sight(a=True), 5.0, "a", "gone")
    assert not seen.machines["gone"].alive
    assert seen.lost_since == {"gone": 5.0 + MACHINE_SILENT_AFTER}
    assert taken(watch, sight(a=True, gone=True), 6.0, "a", "gone").lost_since == {}


def test_nobody_is_lost_right_after_a_reconnection() -> None:
    """Machines lose the broker together with the manager, and need some time to come back."""
    watch = MachineWatch()
    taken(watch, sight(a=True, b=False), 0.0)
    seen = taken(watch, sight(connection=2, a=False, b=False), 100.0)
    assert seen.lost_since == dict.fromkeys("ab", 100.0 + RECONNECTED_WITHIN)
    assert taken(watch, sight(connection=2, a=True, b=False), 101.0).lost_since == {"b": 100.0 + RECONNECTED_WITHIN}
    late = taken(watch, sight(connection=2, a=False, b=False), 200.0)
    assert late.lost_since == {"a": 200.0, "b": 100.0 + RECONNECTED_WITHIN}
