"""A bill: its lines and totals, as they are answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from manager.answers import BillAmount, BillLine, BillWhole
from manager.savings.bill_amounts import Amounts, Line, amounts, by_tenant
from manager.savings.bill_cap import cap_amount
from manager.savings.ledger import MeteredShare, Whole
from manager.savings.money import core_hours, money


# Without slots, for the cached properties.
@dataclass(frozen=True, kw_only=True)
class Bill:
    """The bill of some hours; made by the use case."""

    whole: Whole
    everybody: Mapping[Line, MeteredShare]
    """The shares of all dataflows, even if fewer are shown, so that rounding is the same in every answer."""
    shown: Mapping[Line, MeteredShare]
    names: Mapping[str, str]
    price_per_core_hour: float | None

    def dataflows(self) -> tuple[BillLine, ...]:
        """Return a line for each dataflow that is shown."""
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
        """Return a line for each tenant that is shown: the sum of its dataflows, in money too."""
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

    def totals(self) -> BillWhole:
        """Return the measured whole, and the parts of others and of the operator."""
        paid, others = self._paid, [line for line in self.everybody if line not in self.shown]
        return BillWhole(
            measured=_amount(self.whole.measured, None if paid is None else paid.whole),
            others=_amount(
                sum(self._cpu[line] for line in others),
                None if paid is None else sum(paid.lines[line] for line in others),
            ),
            overhead=_amount(self.whole.measured - sum(self._cpu.values()), None if paid is None else paid.overhead),
        )

    @cached_property
    def _cpu(self) -> dict[Line, int]:
        return {line: took.cpu for line, took in self.everybody.items()}

    @cached_property
    def _paid(self) -> Amounts | None:
        price = self.price_per_core_hour
        return None if price is None else amounts(self.whole.measured, self._cpu, price)

    def _most(self, took: MeteredShare) -> int | None:
        price = self.price_per_core_hour
        return None if price is None else cap_amount(took.alone.likely, price)


def _amount(cpu: int, millionths: int | None) -> BillAmount:
    return BillAmount(cpu_ns=cpu, core_hours=core_hours(cpu), amount=None if millionths is None else money(millionths))
