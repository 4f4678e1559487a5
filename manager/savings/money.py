"""Money and core hours: exact conversions from nanoseconds of CPU."""

from decimal import Decimal
from fractions import Fraction

from manager.savings.counter_growth import SECOND

_MILLION = 1_000_000
"""The smallest amounts in a unit of the currency, and the rounding of core hours."""
_NANOSECONDS_PER_HOUR = 3_600 * SECOND


def rate(price: float) -> Fraction:
    """Return the millionths for a nanosecond, exact to the decimal digits of the price of a core hour."""
    return Fraction(str(price)) * _MILLION / _NANOSECONDS_PER_HOUR


def money(millionths: int) -> Decimal:
    """Return an amount in units of the currency.

    >>> str(money(12_345_000))
    '12.345000'
    """
    return Decimal(millionths).scaleb(-6)


def core_hours(cpu: int) -> Decimal:
    """Return nanoseconds as core hours, rounded to a millionth.

    >>> str(core_hours(1_800_000_000_000))
    '0.500000'
    """
    return money(round(Fraction(cpu * _MILLION, _NANOSECONDS_PER_HOUR)))
