"""Trust: whose code tasks run. The code of two owners is never placed in one job.

Spark lends the workers of a host to all its jobs, one after the other. What keeps code from others there are the cells
in which it runs; only code that an operator vouches for runs in the worker itself.
"""

from collections.abc import Iterable

from merge.task import RunningTask

OWNED_TYPES = frozenset({"code", "connecting_code"})
"""The types whose tasks run what tenants wrote."""


def owner_of(task: RunningTask) -> str:
    """Whose code a task runs; empty if nobody's, or an operator's."""
    return str(task.config["owner"]) if task.type.name in OWNED_TYPES else ""


def owners_of(tasks: Iterable[RunningTask]) -> frozenset[str]:
    """Whose code is among tasks."""
    return frozenset(map(owner_of, tasks)) - {""}


def trusted(owners: frozenset[str]) -> bool:
    """Whether code of these owners may run together.

    >>> trusted(frozenset({"ann"})), trusted(frozenset({"ann", "bob"}))
    (True, False)
    """
    return len(owners) <= 1
