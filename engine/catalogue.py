"""The catalogue of all installed task types and connectors, Braid's own and third parties'."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from dags import AnyTaskType, Catalogue, Namespace, TaskType
from dags.connectors import Connector

_GROUP = "braid.task_types"
"""The entry point group. Each entry names a task type, a namespace, or several of them."""
_CONNECTORS = "braid.connectors"
"""The entry point group of connectors. Each entry has the name of a kind, and names its record."""


class BrokenTaskTypes(RuntimeError):
    """A package or file provides task types or connectors that cannot be used."""


@cache
def installed_connectors() -> Mapping[str, type[Connector]]:
    """The connectors of all installed packages, by kind."""
    connectors: dict[str, type[Connector]] = {}
    for entry in sorted(entry_points(group=_CONNECTORS), key=lambda entry: (entry.name, entry.value)):
        what = f"the connector {entry.name!r} of {entry.dist.name if entry.dist else 'an unknown package'}"
        try:
            record = entry.load()
        except Exception as error:
            raise BrokenTaskTypes(
                f"{what} cannot be loaded: {type(error).__name__}: {error}; repair or uninstall that package"
            ) from error
        if not (isinstance(record, type) and issubclass(record, Connector)):
            raise BrokenTaskTypes(f"{what} is no record of a connector; repair or uninstall that package")
        if connectors.setdefault(entry.name, record) is not record:
            raise BrokenTaskTypes(f"{what} is provided by another package too; uninstall one of the two")
    return connectors


def installed_catalogue(more: Iterable[str] = ()) -> Catalogue:
    """The task types of all installed packages, and those at more places (see `types_at`)."""
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
    """The task types in a module or Python file, installed or not, given as `place` or `place:NAME`.

    NAME is that of a task type, a namespace, or a list of them. The default is `TYPES`.
    """
    module, _, name = place.partition(":")

    def load() -> object:
        if not module.endswith(".py"):
            return getattr(importlib.import_module(module), name or "TYPES")
        path = Path(module).resolve()
        # Another module may have its stem as its name.
        spec = importlib.util.spec_from_file_location(f"task types in {path}", path)
        assert spec is not None  # noqa: S101 - the name has Python's suffix
        assert spec.loader is not None  # noqa: S101 - likewise
        made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return getattr(made, name or "TYPES")

    return _offered(load, repr(place), "correct it, or use another place, such as tasks.py:TYPES")


def _offered(load: Callable[[], Any], what: str, remedy: str) -> list[AnyTaskType | Namespace]:
    try:
        loaded = load()
        offered = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    except Exception as error:
        raise BrokenTaskTypes(f"{what} cannot be loaded: {type(error).__name__}: {error}; {remedy}") from error
    for item in offered:
        if not isinstance(item, TaskType | Namespace):
            raise BrokenTaskTypes(
                f"{what} provides {type(item).__name__}, which is neither a task type nor a namespace; {remedy}"
            )
    return offered
