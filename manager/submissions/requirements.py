"""The requirements of published code, resolved to the wheels that its owner has sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from sqlmodel import Session, col, select

from dags import Problem
from dags.problems import pointer, quoted
from manager.problem import InvalidModule
from manager.store.tables import WheelRow
from planning.pipelines.requirement import pinned


def wheels_for(session: Session, owner: str, requirements: Sequence[str]) -> tuple[str, ...]:
    """The digests of the wheels of sound requirements, in their order. Raises `InvalidModule` with every problem."""
    pins = [pinned(each) for each in requirements]
    found: dict[str, WheelRow] = {}
    problems = []
    for at, (name, number) in enumerate(pins):
        rows = session.exec(select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.name) == name))
        # 1 and 1.0 are the same version.
        row = next((each for each in rows if Version(each.version) == Version(number)), None)
        if row is None:
            problems.append(
                _problem(at, "wheel-missing", f"no wheel of {name} {number} was sent", "send it before the module")
            )
        else:
            found[name] = row
    for at, (name, _) in enumerate(pins):
        if name in found:
            problems += _unmet(at, found[name], found)
    if problems:
        raise InvalidModule(problems)
    return tuple(found[name].digest for name, _ in pins)


def _unmet(at: int, row: WheelRow, found: Mapping[str, WheelRow]) -> Iterator[Problem]:
    """What a wheel depends on that would not be there."""
    for text in json.loads(row.requires):
        needed = Requirement(text)
        name = str(canonicalize_name(needed.name))
        there = found[name].version if name in found else _installed(name)
        if there is None or not needed.specifier.contains(there, prereleases=True):
            here = "is not" if there is None else f"is as {there}"
            yield _problem(
                at,
                "dependency-missing",
                f"{row.name} depends on {quoted(text)}, which {here} among the requirements or on the hosts",
                "send a wheel of it and name that here too, or have an operator install it on the hosts",
            )


def _installed(name: str) -> str | None:
    """The version of an installed package. Hosts have the same packages as the manager."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _problem(at: int, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer("code", "requirements", at), code=code, message=message, remedy=remedy)
