"""A Spark host: the jobs it runs, the plans they execute, the library of tasks.

`engine.host.host` is the application, `engine.job.job` one streaming query, and `engine.kernel.batch` what a batch does with a plan.
Whoever checks documents needs `installed_catalogue` alone, and loads nothing of all that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.catalogue import BrokenTaskTypes, installed_catalogue

__all__ = ["BrokenTaskTypes", "installed_catalogue"]


def __getattr__(name: str) -> Any:
    """What the package offers, imported when it is asked for: each process of Spark needs one small module of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine import catalogue  # noqa: PLC0415 - see above

    return getattr(catalogue, name)
