"""The catalogue of every task type that is installed, Braid's own and third parties'."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from dags import AnyTaskType, Catalogue, Namespace, TaskType

_GROUP = "braid.task_types"
"""The entry point group: each entry names a task type, a namespace, or several of them."""


class BrokenTaskTypes(RuntimeError):
    """An installed package offers task types that cannot be used."""


def installed_catalogue(more: Iterable[str] = ()) -> Catalogue:
    """Everything that the installed packages offer, and what is found at more places, see `types_at`."""
    entries: list[AnyTaskType | Namespace] = []
    for entry in sorted(entry_points(group=_GROUP), key=lambda entry: (entry.name, entry.value)):
        package = entry.dist.name if entry.dist else "an unknown package"
        what = f"the entry point {entry.name!r} of {package}"
        entries += _offered(entry.load, what, "repair or uninstall that package")
    for place in more:
        entries += types_at(place)
    try:
        return Catalogue.of(entries)
    except ValueError as error:
        raise BrokenTaskTypes(str(error)) from error


def types_at(place: str) -> list[AnyTaskType | Namespace]:
    """The task types in a module or a Python file that need not be installed, as `place` or `place:NAME`.

    The name is that of a task type, a namespace, or several of them in a list; `TYPES` unless it is given.
    """
    module, _, name = place.partition(":")

    def load() -> object:
        return getattr(_module_of(module), name or "TYPES")

    return _offered(load, f"what {place!r} names", "correct it, or name another place, as in tasks.py:TYPES")


def _module_of(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    # Not by its stem, under which another module may be known.
    spec = importlib.util.spec_from_file_location(f"task types in {path}", path)
    assert spec is not None  # noqa: S101 - the name ends as one of Python's
    assert spec.loader is not None  # noqa: S101 - likewise
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _offered(load: Callable[[], Any], what: str, remedy: str) -> list[AnyTaskType | Namespace]:
    try:
        loaded = load()
        offered = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    except Exception as error:
        raise BrokenTaskTypes(f"{what} cannot be loaded: {type(error).__name__}: {error}; {remedy}") from error
    for item in offered:
        if not isinstance(item, TaskType | Namespace):
            raise BrokenTaskTypes(
                f"{what} offers {type(item).__name__}, which is neither a task type nor a namespace; {remedy}"
            )
    return offered
