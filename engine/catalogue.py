"""The catalogue of every task type that is installed, Braid's own and third parties'."""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from dags import AnyTaskType, Catalogue, Namespace, TaskType

GROUP = "braid.task_types"
"""The entry point group: each entry names a task type, a namespace, or several of them."""


class BrokenTaskTypes(RuntimeError):
    """An installed package offers task types that cannot be used."""


def installed_catalogue() -> Catalogue:
    """Everything that the installed packages offer."""
    entries: list[AnyTaskType | Namespace] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        entries += _load(entry)
    try:
        return Catalogue.of(entries)
    except ValueError as error:
        raise BrokenTaskTypes(str(error)) from error


def _load(entry: EntryPoint) -> list[AnyTaskType | Namespace]:
    package = entry.dist.name if entry.dist else "an unknown package"
    try:
        loaded = entry.load()
        offered = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    except Exception as error:
        raise BrokenTaskTypes(
            f"the entry point {entry.name!r} of {package} cannot be loaded: {type(error).__name__}: {error}; "
            "repair or uninstall that package"
        ) from error
    for item in offered:
        if not isinstance(item, TaskType | Namespace):
            raise BrokenTaskTypes(
                f"the entry point {entry.name!r} of {package} offers {type(item).__name__}, which is neither a task "
                "type nor a namespace; repair or uninstall that package"
            )
    return offered
