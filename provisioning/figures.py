"""Figures: whether a number can be reckoned with. Records ask as they are made, so that nothing else has to."""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real

LARGEST = 1e12
"""What no figure exceeds, so that sums and products of them stay numbers."""
SMALLEST = 1e-9
"""What no figure is below that others are divided by."""


def wrong_figure(name: str, figure: object, *, least: float = 0.0, most: float = LARGEST) -> tuple[str, ...]:
    """What is wrong with a figure, and what would be right; nothing if it is right.

    >>> wrong_figure("cores", -1)
    ('cores is -1; give a number from 0 to 1e+12',)
    """
    is_number = isinstance(figure, Real) and not isinstance(figure, bool)
    # Written so that nan is wrong.
    if is_number and least <= figure <= most:  # type: ignore[operator]  # mypy does not follow the name
        return ()
    said = (
        f"a number of {figure.bit_length()} bits" if isinstance(figure, int) and abs(figure) > LARGEST else repr(figure)
    )
    return (f"{name} is {said}; give a number from {least:g} to {most:g}",)


def wrong_rates(rates: Mapping[str, float], *, least: float = 0.0) -> Iterator[str]:
    """What is wrong with the rates at tasks."""
    for name, rate in rates.items():
        yield from wrong_figure(f"the rate of {name}", rate, least=least)


def refuse(what: str, wrong: Iterable[str]) -> None:
    """Raise `ValueError` with all that is wrong with something, if anything is."""
    if problems := "; ".join(wrong):
        raise ValueError(f"{what}: {problems}")
