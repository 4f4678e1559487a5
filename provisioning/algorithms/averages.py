"""The five baselines of look-ahead: reaction to one estimate that stands for all coming intervals."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TypeVar

from provisioning.algorithms.reaction import adapted, seen
from provisioning.outlook import Adaptation, Outlook, Rates, Speeds

Name = TypeVar("Name", str, int)
Fold = Callable[[Sequence[float]], float]


def windowed(outlook: Outlook) -> tuple[Rates, Speeds]:
    """The means of the last intervals."""
    return _folded(outlook.past_rates, fmean), _folded(outlook.past_speeds, fmean)


def predicted(outlook: Outlook, *, of_rates: Fold, of_speeds: Fold) -> tuple[Rates, Speeds]:
    """One figure for each prediction."""
    return _folded(outlook.coming_rates, of_rates), _folded(outlook.coming_speeds, of_speeds)


CAF: Adaptation = partial(adapted, estimate=seen)
"""Current, after the fact: what was seen last."""
WAAF: Adaptation = partial(adapted, estimate=windowed)
"""Windowed average, after the fact."""
WPA: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=fmean, of_speeds=fmean))
"""Windowed predictive average."""
WPO: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=min, of_speeds=max))
"""Windowed predictive, optimistic: the lowest rates and the highest speeds."""
WPP: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=max, of_speeds=min))
"""Windowed predictive, pessimistic: the highest rates and the lowest speeds."""

BASELINES: Mapping[str, Adaptation] = {"CAF": CAF, "WAAF": WAAF, "WPA": WPA, "WPO": WPO, "WPP": WPP}


def _folded(figures: Sequence[Mapping[Name, float]], fold: Fold) -> dict[Name, float]:
    """One figure for each name that the newest have; machines come and go, so others may lack it."""
    return {name: fold([each[name] for each in figures if name in each]) for name in figures[-1]}
