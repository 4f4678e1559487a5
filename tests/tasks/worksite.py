"""One task that acts outside, in a kernel, whose worker may die between its effects and its record."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dags import Kind
from engine.behaviour import Behaviour, TaskWatch, Unwatched, behaviours_of, installed_behaviours
from engine.event_streams import Arrived
from engine.kernel.batch import run_batch
from engine.offset import Offset
from engine.outside import REACHABLE, HostOutside, Vault
from engine.plan import Edge, Entry, Forward, Plan
from engine.records.record import Record
from engine.records.state import InstanceStates
from tests.engine.kernels import arrived, dead, enters, events, left, slot

OWNER = "ann"
_PLACES = installed_behaviours()
_UNWATCHED = Unwatched()


class Worksite:
    """A plan of a stream and one task in a root; batch after batch it takes what it is given."""

    def __init__(self, root: Path, type_: str, fields: Mapping[str, Kind], /, **config: Any) -> None:
        self.root = root
        self._fields = fields
        owned = {name: _owned(value) for name, value in config.items()}
        plan = Plan(
            job="j",
            host="h",
            version=1,
            slots=(slot(2, type_, Edge(parent=1), **owned),),
            ingress=(enters("s", 1, fields),),
            forwards=(Forward(instance=2),),
        )
        self._entry = Entry(number=1, plan=plan, starts={})
        self._state = InstanceStates()
        self._position = 0
        self._arrived: list[Arrived] = []
        self.made = self.behaviours()

    def behaviours(self) -> dict[int, Behaviour]:
        """What another worker would make."""
        outside = HostOutside(self.root)
        return behaviours_of(self._entry.plan.slots, _PLACES, outside=outside)

    def arrive(self, rows: Sequence[Mapping[str, Any]], *items: int) -> None:
        """Have events come, in spool items of these sizes, or in one."""
        at = 0
        for count in items or (len(rows),):
            batch = events(rows[at : at + count], self._fields)
            self._arrived.append(arrived(batch, first=self._position, stamp=self._position))
            self._position += count
            at += count

    def die(self, watch: TaskWatch = _UNWATCHED) -> Record:
        """Run the batch of what has come, and lose its record."""
        record = self._run(watch)
        self._state.discard()
        return record

    def run(self, rows: Sequence[Mapping[str, Any]] = (), watch: TaskWatch = _UNWATCHED) -> list[dict[str, Any]]:
        """Run the batch of what has come for good; what leaves the task."""
        return left(self.batch(rows, watch), 2)

    def batch(self, rows: Sequence[Mapping[str, Any]] = (), watch: TaskWatch = _UNWATCHED) -> Record:
        """Run the batch of what has come for good; its record."""
        if rows:
            self.arrive(rows)
        record = self._run(watch)
        self._state.settle(record)
        self._arrived = []
        return record

    def parked(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Why events are parked."""
        return [reason for _, _, reason, _ in dead(self.batch(rows))]

    def _run(self, watch: TaskWatch) -> Record:
        batch = self._state.version + 1
        return run_batch(
            batch,
            self._entry,
            Offset(entry=0 if batch == 0 else 1),
            Offset(entry=1),
            self._arrived,
            self._state,
            self.made,
            attempt=watch,
            deployment=HostOutside(self.root).deployment,
        )


def keep_secret(root: Path, name: str, secret: str) -> dict[str, str]:
    """Keep a secret of the owner's; how a config names it."""
    Vault(root).put(OWNER, name, secret)
    return {"secret": name}


def allow(root: Path, *names: str) -> None:
    """Have an operator list where tasks may connect to."""
    (root / REACHABLE).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _owned(value: Any) -> Any:
    """As a plan has it."""
    return {**value, "owner": OWNER} if isinstance(value, dict) and value.keys() & {"secret", "place"} else value
