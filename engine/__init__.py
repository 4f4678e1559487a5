"""A Spark host: the jobs that it runs, the plans that they execute, and the library of tasks.

`engine.host.application` is the application, `engine.job.query` one streaming query, and `engine.kernel.batch` one
batch of it. Code that checks documents needs only `installed_catalogue`, and loads nothing else.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.catalogue import BrokenTaskTypes, installed_catalogue

__all__ = ["BrokenTaskTypes", "installed_catalogue"]


def __getattr__(name: str) -> Any:
    """Import the package's names on first use: a process of Spark needs only one small module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine import catalogue  # noqa: PLC0415 - see above

    return getattr(catalogue, name)
