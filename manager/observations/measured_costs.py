"""Costs and rates as measured by the jobs, for estimates of new and shared tasks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from engine.plan import Plan
from engine.supply import Rated, Supply, Timed
from manager.observations.figures import per_second, stream_rate
from manager.observations.reports import JobSeen, Measured
from manager.planner import Supplied
from merge import MeasuredCosts


def measured_costs(
    plans: Iterable[Plan],
    seen: Mapping[str, JobSeen],
    sources: Mapping[str, Supplied],
    now: float,
    *,
    only: Collection[int] | None = None,
) -> MeasuredCosts:
    """Return the costs measured in the jobs of these plans; `only` limits them to those of these instances.

    Rates are of sources, and never limited.
    """
    busy: dict[int, float] = {}
    selectivity: dict[int, Fraction] = {}
    rates: dict[str, float] = {}
    spent, taken = Counter[str](), Counter[str]()
    for plan in plans:
        job = seen.get(plan.job)
        measured = job.measured if job is not None else ()
        for slot in plan.slots if measured else ():
            did = measured[-1].instances.get(slot.instance)
            if did is None or not did.taken or (only is not None and slot.instance not in only):
                continue
            spent[slot.type] += did.cpu_ns
            taken[slot.type] += did.taken
            selectivity[slot.instance] = Fraction(did.emitted, did.taken)
            if (rate := _taken_per_second(measured, slot.instance, now)) is not None:
                busy[slot.instance] = did.cpu_ns / 1e9 / did.taken * rate
        for ingress in plan.ingress:
            if (rate := stream_rate(measured, ingress.stream, now)) is not None:
                # A job that has just started may measure less than an older reader of the same stream.
                rates[ingress.stream] = max(rate, rates.get(ingress.stream, 0.0))
    known = {name: rates.get(each.stream, _declared(each.supply)) for name, each in sources.items()}
    return MeasuredCosts(
        busy=busy,
        by_type={name: spent[name] / 1e9 / events for name, events in taken.items()},
        rates={name: rate for name, rate in known.items() if rate is not None},
        selectivity=selectivity,
    )


def _declared(supply: Supply) -> float | None:
    """The rate of a source that generates its events."""
    match supply:
        case Rated(per_second=rate):
            return rate
        case Timed(seconds=seconds):
            return 1 / seconds
        case _:
            return None


def _taken_per_second(measured: tuple[Measured, ...], instance: int, now: float) -> float | None:
    def grown(base: Measured, last: Measured) -> int:
        before = base.instances.get(instance)
        return last.instances[instance].taken - (before.taken if before else 0)

    return per_second(measured, grown, now)
