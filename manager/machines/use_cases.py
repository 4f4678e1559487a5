"""Use cases of machines, their classes and images: listed with hosts, admitted, drained, forgotten, set and removed."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import select
from sqlmodel import col

from braid_client.answers.base import Page
from braid_client.answers.jobs import CarriedHostAnswer, ImageAnswer, ImageForm, MachineAnswer
from braid_client.answers.machines import MachineClassAnswer, MachineClassForm, RentalAnswer, SupplyKind
from braid_client.answers.overview import OperationKind
from manager.kernel.draft import write_down
from manager.kernel.state import CommittedState, image_of
from manager.kernel.transitions import TransitionScope
from manager.machines.admission import departure, why_it_waits
from manager.machines.carriages import CommittedFleet, HostStanding, standings
from manager.machines.rentals import read_rentals
from manager.observations.figures import host_loads
from manager.observations.reports import HostSeen, MachineStatus
from manager.problem import Conflict, NotFound, StateNotReady, invalid
from manager.store.database import Store
from manager.store.machine_tables import MachineClassRow, RentalRow
from manager.store.tables import ImageRow
from manager.use_case import Base, Caller, Paging, by_name, moment, operators_only, paged
from merge import Image
from provisioning.figures import Rental, started_hours
from ring.fleet import MachineSeen
from ring.tokens import RING_SIZE, Ring


class Images(Base):
    """Images, which hosts are made from; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[ImageAnswer]:
        """The images, by name."""
        operators_only(caller)
        images, hosts = registered_images(self._store), self._seeing.hosts()
        return by_name(images, paging, lambda name: _image_answer(images[name], hosts))

    def put(self, caller: Caller, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; what is placed from then on goes by it."""
        operators_only(caller)
        row = ImageRow(name=name, **form.model_dump() | {"tags": sorted(form.tags)})
        begun = time.monotonic()
        # What runs stays where it is.
        with self._committer.changing(lambda _state, _now: (TransitionScope(), None)) as (session, draft, *_):
            made = image_of(session.merge(row))
            draft.moved, draft.state.images = True, draft.state.images.insert(name, made)
            write_down(session, draft, OperationKind.PUT_IMAGE, who=caller.who, subject=name, begun=begun)
        return _image_answer(made, self._seeing.hosts())

    def remove(self, caller: Caller, name: str) -> ImageAnswer:
        """Remove an image, as it was; its hosts run on, and offer nothing but tags of their own."""
        operators_only(caller)
        begun = time.monotonic()

        def decide(state: CommittedState, _now: datetime) -> tuple[TransitionScope, Image]:
            if name not in state.images:
                raise NotFound("image", name)
            return TransitionScope(), state.images[name]

        with self._committer.changing(decide) as (session, draft, image, _):
            session.delete(session.get_one(ImageRow, name))
            draft.moved, draft.state.images = True, draft.state.images.remove(name)
            write_down(session, draft, OperationKind.REMOVE_IMAGE, who=caller.who, subject=name, begun=begun)
        return _image_answer(image, self._seeing.hosts())


def registered_images(store: Store) -> dict[str, Image]:
    """The images by name, whichever manager leads."""
    with store.read() as session:
        return {row.name: image_of(row) for row in session.scalars(select(ImageRow))}


def _image_answer(image: Image, seen: Iterable[HostSeen]) -> ImageAnswer:
    hosts = tuple(sorted(host.host for host in seen if host.alive and host.image == image.name))
    return ImageAnswer(**asdict(image) | {"tags": tuple(sorted(image.tags)), "hosts": hosts})


_ALIKE = ("cores", "tags", "image", "supply", "command", "nice")
"""What all machines of a class have in common, so that it stays while there is one."""


class MachineClasses(Base):
    """Classes of machines that the service may start; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[MachineClassAnswer]:
        """The classes, by name."""
        operators_only(caller)
        with self._store.read() as session:
            rows = {row.name: row for row in session.scalars(select(MachineClassRow))}
            rentals = read_rentals(session, {})
        return by_name(rows, paging, lambda name: _class_answer(rows[name], rentals))

    def put(self, caller: Caller, name: str, form: MachineClassForm) -> MachineClassAnswer:
        """Store a class, or change it; what its machines are stays as long as there is one."""
        operators_only(caller)
        if form.image is not None and form.image not in registered_images(self._store):
            message, remedy = f"there is no image {form.image!r}", f"register it, with: braid images add {form.image}"
            raise invalid("/image", "unknown-image", message, remedy)
        if self._tools.replicas and form.supply is SupplyKind.PROCESS:
            message = "machines that keep copies of hosts are not started as processes here"
            raise invalid("/supply", "no-copies", message, "have a command start them elsewhere")
        row = MachineClassRow(name=name, **form.model_dump() | {"tags": sorted(form.tags)})
        with self._store.read() as session:
            before, rentals = session.get(MachineClassRow, name), read_rentals(session, {})
        if before is not None:
            there = ", ".join(_machines_of(name, rentals))
            if changed := [field for field in _ALIKE if getattr(before, field) != getattr(row, field)]:
                if there:
                    raise Conflict(
                        f"there are machines of class {name}: {there}; leave {', '.join(changed)} as it was, or set "
                        "another class and drain these"
                    )
            else:
                row.speed, row.started_in = before.speed, before.started_in
        answer = _class_answer(row, rentals)
        self._tools.carriages.put_class(row, who=caller.who)
        return answer

    def remove(self, caller: Caller, name: str) -> MachineClassAnswer:
        """Remove a class that no machine is of, as it was."""
        operators_only(caller)
        with self._store.read() as session:
            row, rentals = session.get(MachineClassRow, name), read_rentals(session, {})
        if row is None:
            raise NotFound("class of machines", name)
        if there := _machines_of(name, rentals):
            raise Conflict(
                f"there are machines of class {name}: {', '.join(there)}; set its `most` to 0, drain these, and remove "
                "it then"
            )
        self._tools.carriages.remove_class(name, who=caller.who)
        return _class_answer(row, rentals)


def _machines_of(name: str, rentals: Mapping[str, Rental]) -> list[str]:
    return sorted(machine for machine, rental in rentals.items() if rental.machine_class.name == name)


def _class_answer(row: MachineClassRow, rentals: Mapping[str, Rental]) -> MachineClassAnswer:
    known = row.model_dump() | {"machines": tuple(_machines_of(row.name, rentals))}
    if row.started_in is not None:
        known |= {"measured": True, "start_seconds": round(row.started_in, 3)}
    return MachineClassAnswer.model_validate(known)


class Rentals(Base):
    """The machines that the service started by itself; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[RentalAnswer]:
        """The rentals, newest first."""
        operators_only(caller)
        wanted = select(RentalRow).order_by(col(RentalRow.number).desc())
        if paging.after is not None:
            wanted = wanted.where(col(RentalRow.number) < paging.after_number)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.number, answer=_rental_answer)


def _rental_answer(row: RentalRow) -> RentalAnswer:
    hours = started_hours((time.time() if row.ended is None else row.ended) - row.ordered)
    times = {name: moment(at) for name in ("ordered", "ready", "ended") if (at := getattr(row, name)) is not None}
    return RentalAnswer(**row.model_dump() | times | {"hours": hours, "cost": round(hours * row.price, 6)})


class Machines(Base):
    """Machines; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[MachineAnswer]:
        """The machines, by name."""
        operators_only(caller)
        machines = {machine.name: machine for machine in self._all()}
        return by_name(machines, paging, machines.__getitem__)

    def admit(self, caller: Caller, machine: str, key: str | None = None) -> MachineAnswer:
        """Admit a machine that waits, if it has this key; idempotent."""
        operators_only(caller)
        before = self._machine(machine)
        if key not in {None, before.key}:
            raise Conflict(
                f"machine {machine} has the key {before.key}, and not {key}; compare it with the machine's log"
            )
        if before.waits:
            self._tools.carriages.admit(machine, before.key, who=caller.who, loads=self._loads())
        return self._machine(machine)

    def drain(self, caller: Caller, machine: str, *, draining: bool = True) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; idempotent."""
        operators_only(caller)
        self._machine(machine)
        self._tools.carriages.drain(machine, draining=draining, who=caller.who)
        return self._machine(machine)

    def undrain(self, caller: Caller, machine: str) -> MachineAnswer:
        """Let a machine take hosts again; idempotent."""
        return self.drain(caller, machine, draining=False)

    def forget(self, caller: Caller, machine: str) -> MachineAnswer:
        """Forget a machine that is gone for good, with the hosts that nobody needs; the machine as it was."""
        operators_only(caller)
        return self.leave(machine, who=caller.who)

    def leave(self, machine: str, *, who: str) -> MachineAnswer:
        """Forget a machine, as the service itself does with one that it added."""
        before = self._machine(machine)
        if self._seeing.misses_machines():
            raise StateNotReady("not all machines have been heard yet that may be alive; ask again in a moment", 5.0)
        admitted = self._tools.admission.admitted(self._seeing.machines(), self._tools.carriages.fleet())
        seen = {name: status.seen for name, status in admitted.items()}
        # As long as this is looked at, no job begins on any host.
        with self._committer.looking() as state:
            jobs: dict[str, list[str]] = {}
            for job, plan in state.plans.items():
                jobs.setdefault(plan.host, []).append(str(job))
            leaving = departure(machine, self._tools.carriages.fleet(), seen, jobs)
            if leaving.refusal:
                raise Conflict(leaving.refusal)
            self._tools.carriages.forget(machine, ending=leaving.ending, who=who)
        self._committer.notify()
        return before

    def _machine(self, name: str) -> MachineAnswer:
        if (answer := next((machine for machine in self._all() if machine.name == name), None)) is None:
            raise NotFound("machine", name)
        return answer

    def _all(self) -> list[MachineAnswer]:
        committed = self._tools.carriages.fleet()
        claims, admission = self._seeing.machines(), self._tools.admission
        admitted, waiting = admission.admitted(claims, committed), admission.waiting(claims, committed)
        machines = {name: status.seen for name, status in admitted.items()}
        safe = standings(committed, machines, replicas=self._tools.replicas)
        names, loads = waiting.keys() | machines.keys() | committed.known, self._loads()
        return [_machine_answer(name, committed, admitted, waiting, safe, loads) for name in sorted(names)]

    def _loads(self) -> dict[str, float]:
        with self._committer.looking() as state:
            jobs = [str(job) for job in state.plans]
        return host_loads(filter(None, map(self._seeing.job, jobs)), time.monotonic())


def _machine_answer(  # noqa: PLR0913, PLR0917 - what is committed, who is there, what is safe, and what there is to do
    name: str,
    committed: CommittedFleet,
    admitted: Mapping[str, MachineStatus],
    waiting: Mapping[str, MachineStatus],
    safe: tuple[HostStanding, ...],
    loads: Mapping[str, float],
) -> MachineAnswer:
    ring, machines = Ring(committed.tokens), {other: status.seen for other, status in admitted.items()}
    here = [standing for standing in safe if standing.carriage.machine == name]
    taken = [loads[standing.carriage.host] for standing in here if standing.carriage.host in loads]
    waits = waiting.get(name)
    nothing = MachineStatus(seen=MachineSeen(name=name, alive=False))
    status = admitted.get(name) or (waits if name not in committed.known else None) or nothing
    known, seen = status is not nothing, status.seen
    same = [other for other in machines.values() if other.name != name and seen.root and other.root == seen.root]
    return MachineAnswer(
        name=name,
        alive=seen.alive,
        waits="" if waits is None else why_it_waits(name, committed),
        key=(waits or status).key,
        draining=name in committed.draining,
        zone=seen.zone,
        shares_root_with=tuple(sorted(other.name for other in same)),
        takes_copies=seen.alive and bool(seen.at),
        at=seen.at,
        full=seen.full if seen.alive else "",
        cores=seen.cores if known else None,
        speed=seen.speed,
        share=ring.arc(name) / RING_SIZE if name in ring.tokens else None,
        load=sum(taken) if taken else None,
        tags=tuple(sorted(seen.tags)),
        image=seen.image,
        hosts=tuple(_carried(standing, ring, loads) for standing in here),
        keeps=tuple(standing.carriage.host for standing in safe if name in standing.carriage.kept_by),
    )


def _carried(standing: HostStanding, ring: Ring, loads: Mapping[str, float]) -> CarriedHostAnswer:
    carriage = standing.carriage
    others = {"name": carriage.host, "home": ring.owner(carriage.point), "load": loads.get(carriage.host)}
    known = asdict(carriage) | dict(standing) | others | {"kept_by": sorted(carriage.kept_by)}
    return CarriedHostAnswer.model_validate(known)
