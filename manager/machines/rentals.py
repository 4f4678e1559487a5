"""Classes of machines and rentals as they are stored, and the class that a machine is started of."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType

from sqlalchemy import select
from sqlmodel import Session, col

from braid_client.answers.machines import SupplyKind
from manager.store.machine_tables import MachineClassRow, RentalRow
from provisioning.figures import MachineClass, Rental

_LATEST = 20
"""The machines of a class that its measured figures are the means of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedClass(MachineClass):
    """A machine class, with how its machines are started and stopped."""

    supply: SupplyKind = SupplyKind.PROCESS
    command: str = ""
    nice: int = 0
    measured: bool = False
    """Whether the speed is that of machines, and not only taken to be that of the reference core."""


def class_of(row: MachineClassRow) -> SuppliedClass:
    """The class of a row, by its measured figures as far as there are any."""
    return SuppliedClass(
        name=row.name,
        cores=row.cores,
        memory_gb=row.memory_gb,
        price=row.price,
        speed=row.speed or 1.0,
        tags=frozenset(row.tags),
        image=row.image or "",
        start_seconds=row.start_seconds if row.started_in is None else row.started_in,
        least=row.least,
        most=row.most,
        supply=SupplyKind(row.supply),
        command=row.command,
        nice=row.nice,
        measured=row.speed is not None,
    )


def read_classes(session: Session) -> dict[str, SuppliedClass]:
    """The classes by name."""
    return {row.name: class_of(row) for row in session.scalars(select(MachineClassRow))}


def read_rentals(session: Session, classes: Mapping[str, SuppliedClass]) -> dict[str, Rental]:
    """The rentals that have not ended, by machine."""
    rows = session.scalars(select(RentalRow).where(col(RentalRow.ended).is_(None)))
    return {row.machine: _rental_of(row, classes) for row in rows}


def _rental_of(row: RentalRow, classes: Mapping[str, SuppliedClass]) -> Rental:
    known: MachineClass | None = classes.get(row.machine_class)
    kind = known or MachineClass(name=row.machine_class, cores=row.cores, price=row.price)
    return Rental(
        number=row.number or 0,
        machine_class=replace(kind, price=row.price),
        since=row.ordered,
        name=row.machine,
        why=row.why,
        ready=row.ready,
        speed=row.speed,
    )


def measure(session: Session, name: str) -> None:
    """Measure a class by its latest machines: how fast their cores are, and how long they took to start."""
    row = session.get(MachineClassRow, name)
    if row is None:
        return
    came = select(RentalRow).where(col(RentalRow.machine_class) == name, col(RentalRow.ready).is_not(None))
    latest = session.scalars(came.order_by(col(RentalRow.number).desc()).limit(_LATEST)).all()
    starts = [rental.ready - rental.ordered for rental in latest if rental.ready is not None]
    speeds = [rental.speed for rental in latest if rental.speed is not None]
    row.started_in = fmean(starts) if starts else row.started_in
    row.speed = fmean(speeds) if speeds else row.speed


def rented(rentals: Iterable[Rental]) -> "Counter[str]":
    """The machines of each class that are rented."""
    return Counter(rental.machine_class.name for rental in rentals)


def cheapest(
    classes: Mapping[str, SuppliedClass],
    rentals: Iterable[Rental],
    need: frozenset[str] = frozenset(),
    images: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> SuppliedClass | None:
    """The class with these tags that costs least for its power, of which there may be one more; None if there is none.

    `images` are the tags of each image.

    >>> small = SuppliedClass(name="small", cores=1, price=0.1)
    >>> large = SuppliedClass(name="large", cores=8, price=0.6, tags=frozenset({"gpu"}), most=1)
    >>> classes = {"small": small, "large": large}
    >>> cheapest(classes, []).name, cheapest(classes, [Rental(number=1, machine_class=large)]).name
    ('large', 'small')
    >>> cheapest(classes, [], frozenset({"fpga"}))
    """
    there = rented(rentals)
    fitting = [
        kind
        for kind in classes.values()
        if need <= kind.tags.union(images.get(kind.image, ())) and (kind.most is None or there[kind.name] < kind.most)
    ]
    return min(fitting, key=lambda kind: (kind.price / kind.power, kind.start_seconds, kind.name), default=None)
