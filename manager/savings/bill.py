"""Billed: a bill's lines and sums as they are answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from manager.answers import BillAmount, BillLine, BillWhole
from manager.savings.bill_amounts import MILLION, Amounts, Line, amounts, at_most, by_tenant
from manager.savings.counter_growth import SECOND
from manager.savings.ledger import HOUR, Took, Whole


# With slots nothing could be remembered.
@dataclass(frozen=True, kw_only=True)
class Billed:
    """What was metered in some hours, about to be answered; made by the use case."""

    whole: Whole
    everybody: Mapping[Line, Took]
    """What every dataflow took, also where fewer are shown: all read the same amounts."""
    shown: Mapping[Line, Took]
    names: Mapping[str, str]
    price_per_core_hour: float | None

    def dataflows(self) -> tuple[BillLine, ...]:
        """A line for each dataflow that is shown."""
        return tuple(
            BillLine(
                tenant=tenant,
                dataflow=dataflow,
                name=self.names.get(dataflow, ""),
                pays=_amount(took.cpu, None if self._paid is None else self._paid.lines[tenant, dataflow]),
                most=_amount(took.alone.likely, self._most(took)),
            )
            for (tenant, dataflow), took in self.shown.items()
        )

    def tenants(self) -> tuple[BillLine, ...]:
        """A line for each tenant that is shown: the sum of its dataflows, in money too."""
        cpu = by_tenant((line, took.cpu) for line, took in self.shown.items())
        alone = by_tenant((line, took.alone.likely) for line, took in self.shown.items())
        paid = {} if self._paid is None else by_tenant((line, self._paid.lines[line]) for line in self.shown)
        most = by_tenant((line, self._most(took) or 0) for line, took in self.shown.items())
        return tuple(
            BillLine(
                tenant=tenant,
                pays=_amount(cpu[tenant], paid.get(tenant)),
                most=_amount(alone[tenant], None if self._paid is None else most[tenant]),
            )
            for tenant in cpu
        )

    def all_of_it(self) -> BillWhole:
        """What everything took, and who bears it."""
        paid, others = self._paid, [line for line in self.everybody if line not in self.shown]
        return BillWhole(
            measured=_amount(self._measured, None if paid is None else paid.whole),
            others=_amount(
                sum(self._cpu[line] for line in others),
                None if paid is None else sum(paid.lines[line] for line in others),
            ),
            overhead=_amount(self._measured - sum(self._cpu.values()), None if paid is None else paid.overhead),
        )

    @property
    def _measured(self) -> int:
        return sum(self.whole.cpu.values())

    @cached_property
    def _cpu(self) -> dict[Line, int]:
        return {line: took.cpu for line, took in self.everybody.items()}

    @cached_property
    def _paid(self) -> Amounts | None:
        price = self.price_per_core_hour
        return None if price is None else amounts(self._measured, self._cpu, price)

    def _most(self, took: Took) -> int | None:
        price = self.price_per_core_hour
        return None if price is None else at_most(took.alone.likely, price)


def money(millionths: int) -> Decimal:
    """An amount as it is shown.

    >>> str(money(12_345_000))
    '12.345000'
    """
    return Decimal(millionths).scaleb(-6)


def core_hours(cpu: int) -> Decimal:
    """Nanoseconds as hours of a core, rounded to a millionth.

    >>> str(core_hours(1_800_000_000_000))
    '0.500000'
    """
    return money(round(Fraction(cpu * MILLION, HOUR * SECOND)))


def _amount(cpu: int, millionths: int | None) -> BillAmount:
    return BillAmount(cpu_ns=cpu, core_hours=core_hours(cpu), amount=None if millionths is None else money(millionths))
