"""Print the part of requirements.lock that running Braid needs, with its hashes: `runtime_requirements.py EXTRA...`.

The lock has what developing needs too, which an image does without. It notes for each package what it came in `via`, so
what is needed follows from the names in pyproject.toml. A package that comes in by an extra of another may be taken
needlessly, and none is left out. Runs without anything installed, since the image is made with it.
"""  # noqa: INP001 - a script, and no package

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path


def entries(lock: str) -> Mapping[str, str]:
    """The lines of each package in the text of a lock, by its name."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if begins := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line):
            name = _plain(begins[0])
        if name:
            found[name] = found.get(name, "") + line
    return found


def needed(lock: str, roots: Iterable[str]) -> list[str]:
    """The entries of some packages and of all that these bring, in the lock's order; a name that is not there fails."""
    known = entries(lock)
    brings: dict[str, set[str]] = {}
    for name, lines in known.items():
        for via in re.findall(r"^    #(?: via)? +([A-Za-z0-9][A-Za-z0-9._-]*)", lines, re.MULTILINE):
            brings.setdefault(_plain(via), set()).add(name)
    wanted: set[str] = set()
    more = {_plain(each) for each in roots}
    if missing := more - known.keys():
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}; make it anew with `make lock`")
    while more:
        wanted |= more
        more = {brought for name in more for brought in brings.get(name, ())} - wanted
    return [lines for name, lines in known.items() if name in wanted]


def roots(project: Mapping[str, object], extras: Iterable[str]) -> list[str]:
    """The names of the packages that a project needs, with some of its extras."""
    dependencies = project["dependencies"]
    optional = project["optional-dependencies"]
    if not isinstance(dependencies, list) or not isinstance(optional, dict):
        raise SystemExit("pyproject.toml: dependencies is a list, and optional-dependencies a table")
    lines = [*dependencies, *(line for extra in extras for line in optional[extra])]
    # The client is of this repository, and needs nothing that the project does not.
    return [str(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines if "braid-client" not in line]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    _project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    _lock = Path("requirements.lock").read_text(encoding="utf-8")
    sys.stdout.write("".join(needed(_lock, roots(_project, sys.argv[1:]))))
