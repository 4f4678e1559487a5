"""How much power to start, to keep for another hour and to let go, over all predicted intervals: a linear program.

Machines are paid by started hours, so one that is started runs to the end of its hour, and one whose hour ends is let
go or kept for another. Hours that reach beyond the horizon count in part, as if what follows needed them. Each interval
is served at some level by some mix. The levels must be enough on average, and none below the goal less its tolerance.

Where a core works for one task alone, the program is continuous, so that it takes milliseconds for any number of
machines; what is due now is rounded to machines by who carries it out, and the rest is planned again at the next
interval. Where all tasks share all cores, the machines that come or go now are whole ones, and a switch has its cost.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortools.linear_solver.python import model_builder

from provisioning.deployment import Outlook
from provisioning.expectations import cheapest_power, coming_power, expected_performance, orderable, seen_performance
from provisioning.figures import HOUR, Active, MachineClass, needs
from provisioning.horizon.mixes import SWITCH_COST, Mix, changed_share

_MOST_ORDERED = 100
"""The most machines of a class that are ordered at once where tasks share cores."""
_SHORT = 20.0
"""How much dearer power that lacks is than power that is rented."""
_VALUE_SHORT = 10.0
"""How much dearer a hundredth of the power that is needed is than all value, if it lacks where tasks share cores."""
_MOST_SECONDS = 10.0
_SOLVED = {model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE}
_WHOLE_STEPS = 3
"""The intervals that have one mix each and whole machines where tasks share cores; later ones may have parts."""
_LEAST_SHARE = 0.05
"""The least part of an interval that counts as planned for a mix."""
_LEAST_PRICE = 1e-6
"""What a machine is reckoned to cost at least, so that one without use goes."""
_SPARE_OMEGA = 0.01
"""How far above the lowest level is aimed at, since levels are reached by whole cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RentalPlan:
    """What is due now."""

    mix: Mix
    """The mix that serves most of the next interval."""
    level: float
    """The relative throughput for the next interval."""
    starts: tuple[tuple[MachineClass, float], ...]
    """The power to start, as rated, and the class that has it at the lowest price."""
    kept: frozenset[int]
    """The numbers of the machines that go on."""
    spare: tuple[int, ...] = ()
    """Those that may go as the program reckons, the ones to keep first if more is needed than was reckoned."""
    candidates: tuple[Active, ...]
    """The alternates of all mixes that are no better than the best one of the next interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Machines that perform alike and whose hours end together, the faster ones first."""

    numbers: tuple[int, ...]
    machine_class: MachineClass
    is_permanent: bool
    """Whether it stays in any case."""
    ends: int
    """The interval at whose beginning the paid hour has ended."""
    power: tuple[float, ...]
    """The power of one of them at each interval."""


class RentalProgram:
    """The program of one moment."""

    def __init__(self, outlook: Outlook, choice: Sequence[Mix], steps: int) -> None:
        self.outlook, self._choice, self._steps = outlook, choice, steps
        self._hour = max(1, round(HOUR / outlook.interval))
        self._sigma = outlook.goal.sigma(outlook.dataflow)
        self._groups = tuple(_grouped(outlook, steps))
        self._model = model_builder.Model()  # type: ignore[no-untyped-call] # it has no types
        self._profit: list[model_builder.LinearExprT] = []
        self._supply: list[tuple[frozenset[str], list[model_builder.LinearExprT], list[model_builder.LinearExprT]]] = []
        """For the tags of each class or group, its power and its cores at each interval."""
        self.lowest = outlook.goal.omega - outlook.goal.tolerance + _SPARE_OMEGA
        """The lowest level for an interval."""
        self._counts: defaultdict[str, list[list[model_builder.LinearExprT]]]
        """Of each class how many machines there are at each interval, in parts."""
        self._counts = defaultdict(lambda: [[] for _ in range(steps)])
        self.performance = expected_performance(outlook)
        self._grain = min(one.speed for one in outlook.classes) * self.performance
        self._fastest = max(one.speed for one in outlook.classes) * self.performance
        self._grains = [
            sorted(
                min(self._grain, group.power[step] / group.machine_class.cores)
                for group in self._groups
                for _ in range(group.machine_class.cores * len(group.numbers))
            )
            for step in range(steps)
        ]

    def solved(self) -> RentalPlan:
        """The plan of the highest profit."""
        shared = self.outlook.shared
        offers = orderable(self.outlook) if shared else cheapest_power(self.outlook.classes)
        starts = [(one, self._started(one)) for one in offers]
        keeps = [self._kept(group) for group in self._groups]
        level, picks = self._served()
        if shared:
            self._bound()
        # In money where value is worth little, so that no figure is too large for the solver.
        self._model.maximize(model_builder.LinearExpr.sum(self._profit) * (1.0 / max(1.0, self._sigma)))
        solver = model_builder.Solver("SCIP" if shared else "GLOP")
        solver.set_time_limit_in_seconds(_MOST_SECONDS)
        if solver.solve(self._model) not in _SOLVED:
            return self._as_it_is()
        kept: list[int] = []
        spare: list[int] = []
        for group, keep in zip(self._groups, keeps, strict=True):
            count = len(group.numbers) if keep is None else round(solver.value(keep))
            kept += group.numbers[:count]
            spare += group.numbers[count:]
        due = tuple((one, power) for one, begun in starts if (power := solver.value(begun)) > 1e-6)  # noqa: PLR2004
        shares: dict[int, float] = {}
        for at, picked in picks:
            shares[at] = shares.get(at, 0.0) + solver.value(picked)
        mix = self._choice[max(shares, key=shares.__getitem__)]
        best = max(self._choice[at].gamma for at, share in shares.items() if share > _LEAST_SHARE)
        return RentalPlan(
            mix=mix,
            level=solver.value(level),
            starts=due,
            kept=frozenset(kept),
            spare=tuple(spare),
            candidates=tuple(one.active for one in self._choice if one.gamma <= best),
        )

    def _as_it_is(self) -> RentalPlan:
        """What is done should the solver fail: all machines stay."""
        numbers = frozenset(rental.number for rental in self.outlook.deployment.rentals)
        least = min(self._choice, key=lambda mix: mix.cores)
        return RentalPlan(mix=least, level=self.outlook.goal.omega, starts=(), kept=numbers, candidates=(least.active,))

    def _started(self, machine_class: MachineClass) -> model_builder.Variable:
        """Variables for the power that is started at each interval; the one that is decided now."""
        started = [self._model.new_num_var(0, float("inf"), "") for _ in range(self._steps)]
        if self.outlook.shared:
            for begun in started[:_WHOLE_STEPS]:
                self._model.add(begun == machine_class.power * self._model.new_int_var(0, _MOST_ORDERED, ""))
            for step, counts in enumerate(self._counts[machine_class.name]):
                there = started[max(0, step + 1 - self._hour) : step + 1]
                counts.append(model_builder.LinearExpr.sum(there) * (1.0 / machine_class.power))
        price = self._sigma * max(machine_class.price, _LEAST_PRICE) / machine_class.power
        performance = self._performance(machine_class)
        power: list[model_builder.LinearExprT] = []
        cores: list[model_builder.LinearExprT] = []
        for step in range(self._steps):
            self._profit.append(-price * self._hours(step) * started[step])
            working = (self._working(machine_class, step - begun) * started[begun] for begun in range(step + 1))
            rated = model_builder.LinearExpr.sum(list(working))
            power.append(performance * rated)
            cores.append(rated * (1.0 / machine_class.speed))
        self._supply.append((machine_class.tags, power, cores))
        return started[0]

    def _kept(self, group: _Group) -> model_builder.Variable | None:
        """Variables for the hours that a group may be kept for; the one that is decided now, if there is one."""
        count: model_builder.Variable | float = float(len(group.numbers))
        now: model_builder.Variable | None = None
        boundary = group.ends
        power: list[model_builder.LinearExprT] = []
        cores: list[model_builder.LinearExprT] = []
        for step in range(self._steps):
            if step == boundary and not group.is_permanent:
                whole = self.outlook.shared and step == 0
                make = self._model.new_int_var if whole else self._model.new_num_var
                kept = make(0, len(group.numbers), "")
                if not isinstance(count, float):
                    self._model.add(kept <= count)
                price = max(group.machine_class.price, _LEAST_PRICE)
                self._profit.append(-self._sigma * price * self._hours(step) * kept)
                now = kept if step == 0 else now
                count, boundary = kept, boundary + self._hour
            power.append(group.power[step] * count)
            cores.append(group.machine_class.cores * count)
            if not group.is_permanent:
                self._counts[group.machine_class.name][step].append(1.0 * count)
        self._supply.append((group.machine_class.tags, power, cores))
        return now

    def _served(self) -> tuple[model_builder.LinearExprT, list[tuple[int, model_builder.Variable]]]:
        """The level and the mixes that are decided now; each interval gets a mix, a level, and the power for them."""
        goal, dataflow, shared = self.outlook.goal, self.outlook.dataflow, self.outlook.shared
        per_step = self.outlook.interval / (goal.hours * HOUR)
        levels = (self.lowest, 1.0)
        special = {task.tags for task in dataflow.tasks if task.tags}
        machine = max(one.price for one in self.outlook.classes)
        dearest = max(one.price / one.power for one in self.outlook.classes) / self._hour
        running = [changed_share(dataflow, self.outlook.deployment.active, mix.active) for mix in self._choice]
        reached: list[model_builder.LinearExprT] = []
        before: list[model_builder.Variable] = []
        first: list[tuple[int, model_builder.Variable]] = []
        for step in range(self._steps):
            rates = self.outlook.coming_rates[min(step, len(self.outlook.coming_rates) - 1)]
            options = [
                (at, level, need, self._model.new_num_var(0, 1, ""))
                for at, need in enumerate(needs(dataflow, mix.active, rates) for mix in self._choice)
                for level in levels
            ]
            self._model.add(model_builder.LinearExpr.sum([picked for *_, picked in options]) == 1)
            reached.append(model_builder.LinearExpr.sum([level * picked for _, level, _, picked in options]))
            self._profit += [per_step * self._choice[at].gamma * picked for at, _, _, picked in options]
            if not step:
                first = [(at, picked) for at, _, _, picked in options]
            if shared:
                make = self._model.new_int_var if step < _WHOLE_STEPS else self._model.new_num_var
                shares = [make(0, 1, "") for _ in self._choice]
                for at, share in enumerate(shares):
                    levels_of = [picked for one, *_, picked in options if one == at]
                    self._model.add(model_builder.LinearExpr.sum(levels_of) == share)
                self._profit += self._switched(shares, before, running, per_step)
                before = shares
            for tags in (frozenset[str](), *special):
                short = self._model.new_num_var(0, float("inf"), "")
                least = min((sum(need) for *_, need, _ in options), default=0.0)
                # A hundredth of what is needed is worth more than a machine and all value, or starts would be put off.
                lost = (self._sigma * machine + _VALUE_SHORT * per_step) / max(0.01 * least, 1e-4) if shared else 0.0
                self._profit.append(-(self._sigma * dearest * _SHORT + lost) * short)
                wanted = [self._wanted(need, level, tags, step) for _, level, need, _ in options]
                there = [(power[step], cores[step]) for offered, power, cores in self._supply if tags <= offered]
                # Where tasks share cores, power is all that is wanted.
                for supply, demand in zip(zip(*there, strict=True), zip(*wanted, strict=True), strict=not shared):
                    demanded = [amount * picked for amount, (*_, picked) in zip(demand, options, strict=True)]
                    self._model.add(
                        model_builder.LinearExpr.sum([*supply, short]) >= model_builder.LinearExpr.sum(demanded)
                    )
        # What the intervals before were short of on average is made up for.
        past = min(self.outlook.step, self._steps)
        enough = goal.omega * (self._steps + past) - self.outlook.mean_omega * past
        self._model.add(model_builder.LinearExpr.sum(reached) >= min(float(self._steps), enough))
        return reached[0], first

    def _switched(
        self,
        shares: Sequence[model_builder.Variable],
        before: Sequence[model_builder.Variable],
        running: Sequence[float],
        per_step: float,
    ) -> Iterator[model_builder.LinearExprT]:
        """What it costs to come to the mixes of an interval from those before it, or from what runs."""
        cost = SWITCH_COST * per_step
        if not before:
            yield from (-cost * changed * share for changed, share in zip(running, shares, strict=True))
        for share, was in zip(shares, before, strict=bool(before)):
            come = self._model.new_num_var(0, 1, "")
            self._model.add(come >= share - was)
            yield -cost * come

    def _bound(self) -> None:
        """Hold how many machines of a class there are to be, and may be."""
        for one in self.outlook.classes:
            for counts in self._counts[one.name]:
                if counts and one.most is not None:
                    self._model.add(model_builder.LinearExpr.sum(counts) <= one.most)
                if counts and one.least:
                    self._model.add(model_builder.LinearExpr.sum(counts) >= one.least)

    def _performance(self, machine_class: MachineClass) -> float:
        """What part of its rated power a new machine of a class may be expected to do."""
        if not self.outlook.shared:
            return self.performance
        return seen_performance(self.outlook).get(machine_class.name, self.performance)

    def _wanted(self, need: Sequence[float], level: float, tags: frozenset[str], step: int) -> tuple[float, ...]:
        """The power for a level, and the cores if a core works for one task alone.

        Tasks that need less than such a core leave some of its power idle. They take the slowest cores.
        """
        tasks = self.outlook.dataflow.tasks
        needs = sorted(cores * level for cores, task in zip(need, tasks, strict=True) if not tags or task.tags == tags)
        if self.outlook.shared:
            return (sum(needs),)
        grains = iter(self._grains[step])
        power = sum(max(need, next(grains, self._grain)) for need in needs)
        return power, sum(max(1.0, need / self._fastest) for need in needs)

    def _hours(self, step: int) -> float:
        """How much of an hour that begins at an interval lies within the horizon."""
        return min(1.0, (self._steps - step) / self._hour)

    def _working(self, machine_class: MachineClass, age: int) -> float:
        """The part of an interval in which a machine works that was started so many intervals before."""
        if age >= self._hour:
            return 0.0
        worked = (age + 1) * self.outlook.interval - machine_class.start_seconds
        return max(0.0, min(1.0, worked / self.outlook.interval))


def _grouped(outlook: Outlook, steps: int) -> Iterator[_Group]:
    groups: defaultdict[tuple[str, bool, int, int], list[tuple[float, int, tuple[float, ...], MachineClass]]]
    groups = defaultdict(list)
    for rental in outlook.deployment.rentals:
        power = coming_power(outlook, rental, steps)
        ends = round(rental.paid_left(outlook.now) / outlook.interval)
        mean = sum(power) / len(power)
        # Alike is what differs by less than a tenth of the rated power.
        alike = round(10 * mean / rental.machine_class.power)
        key = rental.machine_class.name, rental.number in outlook.permanent, ends, alike
        groups[key].append((-mean, rental.number, power, rental.machine_class))
    for (_, is_permanent, ends, _), group in groups.items():
        columns = zip(*(power for _, _, power, _ in group), strict=True)
        yield _Group(
            numbers=tuple(number for _, number, _, _ in sorted(group, key=lambda one: one[:2])),
            machine_class=group[0][3],
            is_permanent=is_permanent,
            ends=ends,
            power=tuple(sum(column) / len(group) for column in columns),
        )
