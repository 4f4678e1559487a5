"""The imports of states from cuts, as plans ask for them."""

from collections.abc import Iterable, Iterator

from engine.plan import Entry, Plan, StateImport


def brought(begun: Iterable[Entry], before: Plan | None) -> Iterator[StateImport]:
    """The imports of a batch in which entries take effect; `before` is the plan until then, if any."""
    here = before.instances if before is not None else frozenset()
    for entry in begun:
        # An instance that returns and never left goes on as it is.
        yield from (each for each in entry.plan.imports if each.job != entry.plan.job or each.instance not in here)
