"""The modules that were given up in a pipeline, because they failed there: as they are kept, and what follows next."""

from collections.abc import Mapping
from typing import Any

from manager.answers import GivenUpModule
from manager.store.tables import DataflowRow
from manager.transitions.life import Phase


class GivenUp(GivenUpModule):
    """A module that was given up, as its dataflow's row has it."""

    brought: tuple[str, ...] = ()
    """The modules that took its place and those of others."""


def given_up_in(row: DataflowRow) -> tuple[GivenUp, ...]:
    """Those of a dataflow, oldest first."""
    return tuple(map(GivenUp.model_validate, row.given_up or ()))


def standing(given_up: tuple[GivenUp, ...], phases: Mapping[str, str]) -> tuple[GivenUp, ...]:
    """Those that are not tried again: without those whose reconfiguration was abandoned before it changed anything."""
    return tuple(each for each in given_up if phases.get(each.reconfiguration or "") != Phase.ABANDONED)


def failed_by_now(
    failing: Mapping[str, str], given_up: tuple[GivenUp, ...], phases: Mapping[str, str]
) -> Mapping[str, str]:
    """The modules that failed and are not given up yet, each with its failure.

    What took the place of a failed one, and was undone because it failed as well, is among them.

    >>> failed_by_now({"a@1": "it raises"}, (), {})
    {'a@1': 'it raises'}
    """
    known = {each.module for each in given_up}
    undone = {
        module: f"it took the place of {each.module}, and that was undone"
        for each in given_up
        if phases.get(each.reconfiguration or "") == Phase.REVERTED
        for module in each.brought
    }
    return {module: why for module, why in (undone | dict(failing)).items() if module not in known}


def kept(given_up: tuple[GivenUp, ...]) -> list[dict[str, Any]]:
    """As a row keeps them."""
    return [each.model_dump(mode="json") for each in given_up]
