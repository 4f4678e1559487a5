"""Provisions: which machine is ordered or stopped by a plan of all machines and alternates, or by the load alone.

The plan is made from an outlook. What is measured is the need of all jobs; its history says how the need will grow.
Machines that the service did not start stay as they are, and cost nothing here.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adaptation.forecast import forecast
from adaptation.service_figures import ServiceFigures, service_figures
from braid_client.answers.machines import SupplyKind
from manager.machines.carriages import CommittedFleet
from manager.machines.rentals import SuppliedClass, cheapest
from manager.settings import Autoscale, ProvisionAlgorithm
from manager.use_case import Tools
from merge.capacity import BEARABLE
from provisioning.deployment import Deployment, Outlook
from provisioning.figures import AVOIDED_SECONDS, MachineClass, Rental
from provisioning.provision import Provision, provision
from ring.fleet import MachineSeen
from ring.scale import FleetUse, ScaleAct, ScaleState, fits_without, scaled, too_few

INTERVAL = 300.0
"""Seconds of an interval of a plan."""
_STEPS = 12
"""The intervals that are foreseen."""
_HISTORY = 48
_PLANS_TO_SETTLE = 6
"""The plans in the time for which a change has to be wanted. One for 300 dataflows takes a second."""
_MOST_GROWTH = 4.0
"""How many times more or less than now is needed at most."""


class NeedHistory:
    """The need of all jobs over the last intervals."""

    def __init__(self) -> None:
        self._needs: deque[float] = deque(maxlen=_HISTORY)
        self._taken = -INTERVAL

    def growth(self, needed: float, now: float) -> tuple[float, ...]:
        """How many times as much as now is expected to be needed in each interval, this one first."""
        if now - self._taken >= INTERVAL:
            self._needs.append(needed)
            self._taken = now
        rates = forecast((*self._needs,), _STEPS).rates
        newest = self._needs[-1]
        later = (rate / newest if newest > 0 else 1.0 for rate in rates[:-1])
        return (1.0, *(min(_MOST_GROWTH, max(1 / _MOST_GROWTH, factor)) for factor in later))


def service_outlook(  # noqa: PLR0913 - all that is known, by name
    fleet: CommittedFleet,
    machines: Mapping[str, MachineSeen],
    figures: ServiceFigures,
    *,
    growth: Sequence[float],
    avoided_classes: frozenset[str],
    now: float,
) -> Outlook:
    """The outlook of a service. `now` is by the clock of rentals."""
    rented = [
        _as_seen(rental, machines.get(name), fleet.classes.get(rental.machine_class.name), now)
        for name, rental in sorted(fleet.rentals.items())
        if name not in fleet.draining
    ]
    # The cores of workers are those of the machine whose host has them.
    theirs = sum(one.machine_class.cores for one in rented if one.ready is not None and one.name not in machines)
    own = []
    for number, (name, machine) in enumerate(sorted(machines.items()), start=1):
        if machine.alive and name not in fleet.draining and name not in fleet.rentals:
            cores = max(1, int(machine.cores) - theirs)
            theirs = max(0, theirs - (int(machine.cores) - cores))
            own.append(Rental(number=-number, machine_class=_own(machine, cores), ready=0.0, name=name))
    rentals = (*own, *rented)
    # More is not borne for long, so the rest of a core counts as none.
    speeds = {rental.number: BEARABLE * rental.power / rental.machine_class.cores for rental in rentals}
    # Costs were measured on these machines, and count on the reference core.
    there = [rental for rental in rentals if rental.ready is not None]
    cores = sum(rental.machine_class.cores for rental in there)
    measured_at = sum(rental.power for rental in there) / cores if cores else 1.0
    now_rates = {name: rate * measured_at for name, rate in figures.rates.items()}
    rates = tuple({name: rate * factor for name, rate in now_rates.items()} for factor in growth)
    return Outlook(
        dataflow=figures.dataflow,
        goal=figures.goal,
        classes=tuple(fleet.classes[name] for name in sorted(fleet.classes)),
        deployment=Deployment(
            active=figures.active, rentals=rentals, rented=max((one.number for one in rentals), default=0) + 1
        ),
        now=now,
        step=0,
        interval=INTERVAL,
        omega=figures.goal.omega,
        mean_omega=figures.goal.omega,
        past_rates=(now_rates,),
        past_speeds=(speeds,),
        coming_rates=rates,
        coming_speeds=(speeds,) * len(rates),
        shared=True,
        permanent=frozenset(one.number for one in own),
        avoided_classes=avoided_classes,
    )


def _own(machine: MachineSeen, cores: int) -> MachineClass:
    return MachineClass(name="", cores=cores, speed=machine.speed or 1.0, price=0.0, tags=machine.tags)


def _as_seen(rental: Rental, machine: MachineSeen | None, kind: SuppliedClass | None, now: float) -> Rental:
    """A rental as it is reckoned with: one that came and is gone is waited for again, but no worker of a cluster."""
    if rental.ready is not None:
        return rental if machine is not None and machine.alive else replace(rental, ready=None)
    # Workers of Spark never report.
    is_silent = kind is not None and kind.supply is SupplyKind.COMMAND and machine is None and rental.ready_at <= now
    return replace(rental, ready=rental.ready_at) if is_silent else rental


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """A machine to order, or to drain and stop; made by `Provisioner`, `LoadRule` and the scaler."""

    act: ScaleAct
    machine: str = ""
    """The one to stop, or a name for the one to order if there is one already."""
    machine_class: str = ""
    """The class to order of."""
    why: str


class LoadRule:
    """Decides by the load alone, and remembers since when a machine is short or to spare."""

    def __init__(self) -> None:
        self._state = ScaleState()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is wanted."""
        return self._state.short_since is self._state.spare_since is None

    def forget(self) -> None:
        """Start anew: another manager has led meanwhile."""
        self._state = ScaleState()

    def due(self, fleet: CommittedFleet, use: FleetUse, needed: float, wall: float) -> FleetChange | None:  # noqa: ARG002 - as of `Provisioner`
        """The change that the load has called for long enough."""
        self._state, scale = scaled(self._state, use)
        if scale is None:
            return None
        kind = cheapest(fleet.classes, fleet.rentals.values()) if scale.act is ScaleAct.ADD else None
        return FleetChange(
            act=scale.act, machine=scale.machine, machine_class="" if kind is None else kind.name, why=scale.why
        )


class Provisioner:
    """Decides by the plan of all machines and alternates, and remembers what it needs for the next look."""

    def __init__(
        self, tools: Tools, algorithm: ProvisionAlgorithm, *, autoscale: Autoscale, settled_after: float
    ) -> None:
        self._board = tools.adaptations
        self._algorithm = algorithm
        self._autoscale = autoscale
        self._settled_after = settled_after
        self._history = NeedHistory()
        self._looked_at = -math.inf
        self._wanted: dict[tuple[ScaleAct, str], float] = {}
        """Since when each change has been wanted without a break."""
        self._missed: dict[str, float] = {}
        """When a machine of a class was given up."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is wanted."""
        return not self._wanted

    def forget(self) -> None:
        """Start anew: another manager has led meanwhile, or there are no classes."""
        self._wanted.clear()
        self._board.planned, self._board.core_price = {}, None

    def due(self, fleet: CommittedFleet, use: FleetUse, needed: float, wall: float) -> FleetChange | None:
        """The change that has been wanted for long enough; alternates are left to who switches them."""
        now = use.fleet.now
        if not fleet.classes:
            self.forget()
            return None
        if now - self._looked_at < self._settled_after / _PLANS_TO_SETTLE:
            return None
        self._looked_at = now
        if few := too_few(use):
            kind = cheapest(fleet.classes, fleet.rentals.values())
            changes = [] if kind is None else [FleetChange(act=ScaleAct.ADD, machine_class=kind.name, why=few)]
        else:
            changes = self._planned(fleet, use, needed, wall)
        keys = [(change.act, change.machine or change.machine_class) for change in changes]
        self._wanted = {key: self._wanted.get(key, now) for key in keys}
        for change, key in zip(changes, keys, strict=True):
            if now - self._wanted[key] >= self._settled_after:
                return change
        return None

    def _planned(self, fleet: CommittedFleet, use: FleetUse, needed: float, wall: float) -> list[FleetChange]:
        provided = self._board.provided
        figures = service_figures(provided, max(0.0, needed - sum(one.cores for one in provided)))
        avoided_classes = frozenset(name for name, at in self._missed.items() if wall - at < AVOIDED_SECONDS)
        outlook = service_outlook(
            fleet,
            use.fleet.machines,
            figures,
            growth=self._history.growth(needed, use.fleet.now),
            avoided_classes=avoided_classes,
            now=wall,
        )
        made = provision(outlook, self._algorithm)
        if self._autoscale is Autoscale.ON:
            self._board.planned = figures.selections(made.active)
            prices = [kind.price / kind.power for kind in fleet.classes.values()]
            self._board.core_price = min(prices, default=None)
        return [*self._stops(made, use, wall), *_starts(made)]

    def _stops(self, made: Provision, use: FleetUse, wall: float) -> list[FleetChange]:
        stops = []
        for stop in made.stops:
            given_up = stop.rental.is_given_up(wall)
            if given_up:
                self._missed[stop.rental.machine_class.name] = wall
            if given_up or fits_without(stop.rental.name, use, most=1.0):
                stops.append(FleetChange(act=ScaleAct.REMOVE, machine=stop.rental.name, why=stop.why))
        return stops


def _starts(made: Provision) -> list[FleetChange]:
    after = f"then all machines cost {made.price:g} an hour, and {made.omega:.0%} is worked off"
    return [
        FleetChange(act=ScaleAct.ADD, machine_class=start.machine_class.name, why=f"{start.why}; {after}")
        for start in made.starts
    ]
