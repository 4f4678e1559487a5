"""The catalogue: every task type that documents may name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dags.task_type import AnyTaskType, TaskType


@dataclass(frozen=True, slots=True)
class Namespace:
    """Provides all types whose names start with a prefix, such as `opmw:`."""

    prefix: str
    resolve: Callable[[str], AnyTaskType | None]
    """Returns the type of that full name, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Task types by name, and namespaces that make types on demand.

    >>> Catalogue.of([]).find("nothing")
    """

    types: Mapping[str, AnyTaskType] = field(default_factory=dict)
    namespaces: tuple[Namespace, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[AnyTaskType | Namespace]) -> "Catalogue":
        """A catalogue of these entries. Raises `ValueError` if two provide the same name."""
        types: dict[str, AnyTaskType] = {}
        namespaces: list[Namespace] = []
        for entry in entries:
            if isinstance(entry, Namespace):
                namespaces.append(entry)
            elif entry.name in types:
                raise ValueError(f"two task types are named {entry.name!r}; rename one, or install only one of them")
            else:
                types[entry.name] = entry
        for namespace in namespaces:
            clashes = [name for name in types if name.startswith(namespace.prefix)]
            clashes += [n.prefix for n in namespaces if n is not namespace and n.prefix.startswith(namespace.prefix)]
            if clashes:
                raise ValueError(f"namespace {namespace.prefix!r} also covers {clashes[0]!r}; choose another prefix")
        return cls(types, tuple(namespaces))

    def find(self, name: str) -> AnyTaskType | None:
        """The type of that name, or None if there is none."""
        if (known := self.types.get(name)) is not None:
            return known
        for namespace in self.namespaces:
            if name.startswith(namespace.prefix):
                found: object = namespace.resolve(name)
                if found is None or (isinstance(found, TaskType) and found.name == name):
                    return found
                given = repr(found.name) if isinstance(found, TaskType) else type(found).__name__
                raise TypeError(f"the namespace {namespace.prefix!r} returned {given} instead of {name!r}")
        return None

    def names(self) -> tuple[str, ...]:
        """Every name to suggest: of the types, and with a star, of the namespaces."""
        return (*sorted(self.types), *(f"{namespace.prefix}*" for namespace in self.namespaces))
