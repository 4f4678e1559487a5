"""The fault of a program: what cannot be built, at which step, and what to do about it."""

from collections.abc import Iterable

from dags.problems import listed, suggestion


class BuildError(ValueError):
    """A step of a program that cannot be built. Names the step and the remedy."""

    def __init__(self, step: str, message: str, remedy: str) -> None:
        super().__init__(f"{step}: {message}; {remedy}")
        self.step = step
        self.message = message
        self.remedy = remedy


def known_among(step: str, what: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known."""
    names = list(known)
    if name not in names:
        remedy = suggestion(name, names, f"the known ones are {listed(names)}")
        raise BuildError(step, f"there is no {what} {name!r}", remedy)
