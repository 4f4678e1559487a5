"""A release, made in a work tree of its own: nothing changes here unless all of it is good.

    python -m tests.releases.release VERSION

In this order: the version and the date of the changelog are set and committed there; sdist and wheel of each
distribution are built and compared with what git knows; the wheels are installed into fresh environments and used from
outside the repository; then the branch takes the commit, which gets a tag, and the files are put into `dist/`. Nothing
is published: pushing the tag and uploading the files are done by hand.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from packaging.version import Version

from tests.releases.distributions import build, declared, faults, project_files
from tests.releases.usage import use

ROOT = Path(__file__).parents[2]
_CHANGELOG = "CHANGELOG.md"
_CHART = Path("deploy", "helm", "Chart.yaml")
_CLIENT_VERSION = Path("braid_client", "version.py")
_UNRELEASED = "## Unreleased\n"
_NONE_YET = " Nothing has been released yet."


class NotReleased(Exception):
    """A release that was not made, and why; nothing has changed."""


def main() -> None:
    """Make a release of this repository."""
    parser = argparse.ArgumentParser(prog="make release", description="Make a release, and publish nothing.")
    parser.add_argument("version", help="the version, such as 1.2.3")
    try:
        made = release(ROOT, parser.parse_args().version)
    except NotReleased as error:
        sys.exit(f"Not released: {error}")
    _say("Released: " + ", ".join(str(path.relative_to(ROOT)) for path in made))


def release(repository: Path, version: str) -> list[Path]:
    """Make a release of a repository, and return the files for those who install it."""
    check(repository, version)
    with tempfile.TemporaryDirectory(prefix="braid-release-") as folder:
        built = Path(folder, "dist")
        with _worktree(repository, Path(folder, "tree")) as tree:
            prepare(tree, version, datetime.now(UTC).date())
            _git(tree, "commit", "--quiet", "--no-verify", "--all", f"--message=Release {version}")
            distributions = declared(tree)
            for distribution in distributions:
                _say(f"Building {distribution.name} {version}")
                if found := faults(distribution, version, *build(distribution, built)):
                    raise NotReleased("; ".join(found))
            _say("Installing, and using what is installed")
            if trouble := use(distributions, version, built, tree / "requirements.lock"):
                raise NotReleased(trouble)
            commit = _git(tree, "rev-parse", "HEAD")
        _git(repository, "merge", "--quiet", "--ff-only", commit)
        _git(repository, "tag", "--annotate", f"--message=Release {version}", f"v{version}", commit)
        (repository / "dist").mkdir(exist_ok=True)
        files = sorted(path for path in built.iterdir() if path.suffix in {".gz", ".whl"})
        return [Path(shutil.copy(path, repository / "dist")) for path in files]


def check(repository: Path, version: str) -> None:
    """Refuse what cannot become a release, before anything is done."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise NotReleased(f"{version} is no version; write it as 1.2.3")
    if changed := _git(repository, "status", "--porcelain"):
        raise NotReleased(f"the tree is not clean; commit or remove this first:\n{changed}")
    tags = _git(repository, "tag", "--list", "v[0-9]*").split()
    newest = max((Version(tag) for tag in tags), default=None)
    if newest is not None and Version(version) <= newest:
        raise NotReleased(f"{version} is not newer than {newest}, which has a tag")
    if not re.search(r"^- ", unreleased(_read(repository / _CHANGELOG)), re.MULTILINE):
        raise NotReleased(f"{_CHANGELOG} has nothing under Unreleased; say there what users notice")


def unreleased(changelog: str) -> str:
    """Return what a changelog says about what has not been released."""
    _, _, after = changelog.partition(_UNRELEASED)
    return re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]


def prepare(tree: Path, version: str, day: date) -> None:
    """Set the version of every distribution and of the chart, and date what the changelog says."""
    projects = project_files(tree)
    names = "|".join(re.escape(distribution.name) for distribution in declared(tree))
    for path in projects:
        text = re.sub(r'^version = ".*"$', f'version = "{version}"', _read(path), count=1, flags=re.MULTILINE)
        # One distribution needs another as of the same release.
        path.write_text(re.sub(rf'"({names})==[^"]+"', rf'"\1=={version}"', text), encoding="utf-8")
    chart = tree / _CHART
    chart.write_text(re.sub(r"(?m)^((?:appV|v)ersion:).*$", rf'\1 "{version}"', _read(chart)), encoding="utf-8")
    client = tree / _CLIENT_VERSION
    client.write_text(re.sub(r"(?m)^(CLIENT_VERSION =).*$", rf'\1 "{version}"', _read(client)), encoding="utf-8")
    dated = _read(tree / _CHANGELOG).replace(_NONE_YET, "", 1)
    dated = dated.replace(_UNRELEASED, f"{_UNRELEASED}\n## {version} - {day.isoformat()}\n", 1)
    (tree / _CHANGELOG).write_text(dated, encoding="utf-8")


@contextmanager
def _worktree(repository: Path, path: Path) -> Iterator[Path]:
    _git(repository, "worktree", "add", "--quiet", "--detach", str(path), "HEAD")
    try:
        yield path
    finally:
        _git(repository, "worktree", "remove", "--force", str(path))


def _git(folder: Path, *words: str) -> str:
    # What git says of an error is shown.
    done = subprocess.run(  # noqa: S603 - git, with our own words
        ["git", *words],  # noqa: S607 - as installed
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise NotReleased(f"`git {words[0]}` failed")
    return done.stdout.strip()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - its progress


if __name__ == "__main__":
    main()
