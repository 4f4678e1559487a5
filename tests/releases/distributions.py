"""The distributions that the repository declares: built, and compared with what git knows of their packages."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.metadata import Metadata

UV = Path(sys.executable).with_name("uv")
_BESIDE = {"PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "packages.py"}
"""What a source distribution has besides its packages."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A distribution of a repository; made by `declared`."""

    folder: Path
    """Where its `pyproject.toml` is."""
    name: str
    files: frozenset[str]
    """The files of its packages that git knows, by the names under which they are installed."""
    commands: frozenset[str]


def declared(repository: Path) -> list[Distribution]:
    """Return the distributions of a repository, one for each `pyproject.toml` that has a project."""
    settings = {path.parent: tomllib.loads(path.read_text(encoding="utf-8")) for path in project_files(repository)}
    return [
        Distribution(
            folder=folder,
            name=project["project"]["name"],
            files=frozenset(_package_files(folder, project)),
            commands=frozenset(project["project"].get("scripts", ())),
        )
        for folder, project in settings.items()
    ]


def project_files(repository: Path) -> list[Path]:
    """Return the `pyproject.toml` of each distribution that git knows."""
    known = (repository / name for name in tracked(repository, "pyproject.toml", "**/pyproject.toml"))
    return sorted(path for path in known if "project" in tomllib.loads(path.read_text(encoding="utf-8")))


def tracked(folder: Path, *patterns: str) -> list[str]:
    """Return the files below a folder that git knows, relative to it."""
    listed = subprocess.run(  # noqa: S603 - git, with our own words
        ["git", "ls-files", "-z", "--", *(f":(glob){pattern}" for pattern in patterns)],  # noqa: S607 - as installed
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split("\0")[:-1]


def environment() -> Mapping[str, str]:
    """Return the environment for uv, which of pip's settings is given the index, as the Makefile does."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    known = subprocess.run(asked, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    index = os.environ.get("PIP_INDEX_URL") or known.stdout.strip()
    return {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}


def build(distribution: Distribution, into: Path) -> tuple[Path, Path]:
    """Build a source distribution and, from nothing but that, a wheel; return both."""
    before = set(into.glob("*"))
    subprocess.run(  # noqa: S603 - our own packages
        [UV, "build", "--quiet", "--out-dir", into, distribution.folder], check=True, env=environment()
    )
    made = sorted(path for path in set(into.glob("*")) - before if path.suffix in {".gz", ".whl"})
    source = next(path for path in made if path.suffix == ".gz")
    wheel = next(path for path in made if path.suffix == ".whl")
    return source, wheel


def faults(distribution: Distribution, version: str, source: Path, wheel: Path) -> list[str]:
    """Return what is wrong with built files: metadata, what is missing, and what nobody should be given."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
        beside = {name for name in packed if PurePosixPath(name).parts[0].endswith(".dist-info")}
        metadata = next(archive.read(name) for name in beside if name.endswith("/METADATA"))
    with tarfile.open(source) as tar:
        sent = {str(PurePosixPath(*PurePosixPath(item.name).parts[1:])) for item in tar if item.isfile()}
    found = [*_metadata_faults(distribution.name, version, metadata)]
    found += [] if any("/licenses/" in name for name in beside) else ["the wheel has no licence"]
    found += _differences("the wheel", packed - beside, distribution.files)
    found += _differences("the source distribution", sent - _BESIDE, distribution.files)
    return [f"{distribution.name}: {fault}" for fault in found]


def _metadata_faults(name: str, version: str, text: bytes) -> Iterator[str]:
    try:
        metadata = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        yield from (f"its metadata are refused: {error}" for error in group.exceptions)
        return
    if (metadata.name, str(metadata.version)) != (name, version):
        yield f"its metadata are of {metadata.name} {metadata.version}"
    if not metadata.description or metadata.description_content_type != "text/markdown":
        yield "its metadata have no description in Markdown"


def _differences(what: str, held: Iterable[str], expected: frozenset[str]) -> Iterator[str]:
    for name in sorted(expected - set(held)):
        yield f"{what} lacks {name}"
    for name in sorted(set(held) - expected):
        yield f"{what} has {name}, which is in none of its packages"


def _package_files(folder: Path, project: Mapping[str, Any]) -> Iterator[str]:
    """The files of its packages, which are in its folder, or beside it where a hook puts them into what is built."""
    settings = project["tool"]["hatch"]["build"]
    hook = settings.get("hooks", {}).get("custom")
    if hook is None:
        yield from tracked(folder, *(f"{package}/**" for package in settings["targets"]["wheel"]["only-include"]))
        return
    for name in tracked(folder.parent, *(f"{package}/**" for package in hook["packages"])):
        if not any(PurePosixPath(name).is_relative_to(package) for package in hook["leaves-out"]):
            yield name
