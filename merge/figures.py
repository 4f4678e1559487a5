"""Figures: whether a number can be reckoned with. Records ask as they are made, so that nothing else has to."""

from collections.abc import Iterable
from numbers import Integral, Real

MOST_FIGURE = 1_000_000.0
"""What no figure exceeds, so that sums of them stay whole numbers that a solver takes."""


_LONG = 10**30
LEAST_FIGURE = 1e-6
"""What no figure is below that others are divided by."""


def wrong_figure(
    name: str, figure: object, *, least: float = 0.0, most: float = MOST_FIGURE, whole: bool = False
) -> tuple[str, ...]:
    """What is wrong with a figure, and what would be right; nothing if it is right.

    >>> wrong_figure("pace", 0, least=0.001)
    ('pace is 0; give a number from 0.001 to 1,000,000',)
    """
    is_number = isinstance(figure, Integral if whole else Real) and not isinstance(figure, bool)
    # Written so that nan is wrong; and a whole number is never converted, since it may be too large for that.
    if is_number and least <= figure <= most:  # type: ignore[operator]  # mypy does not follow the name
        return ()
    return (f"{name} is {_shown(figure)}; give a {'whole ' if whole else ''}number from {least:g} to {most:,.0f}",)


def refuse(what: str, wrong: Iterable[str]) -> None:
    """Raise `ValueError` with all that is wrong with something, if anything is."""
    if problems := "; ".join(wrong):
        raise ValueError(f"{what}: {problems}")


def _shown(figure: object) -> str:
    """A figure as text; a very long one, in short."""
    if isinstance(figure, int) and abs(figure) > _LONG:
        return f"a number of {figure.bit_length()} bits"
    return repr(figure)
