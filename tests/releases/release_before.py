"""The release before this one, in an environment of its own, with the packages of this one's.

Where no version has a tag yet, it is what was there when all tables had been made in one migration, which databases go
on from since.
"""

import subprocess
import sysconfig
from pathlib import Path

from tests.releases.distributions import UV, environment
from tests.releases.release import ROOT

_BEFORE_ANY_TAG = "9e07340a903a44ea527ad740353408650814084e"
_NOT_NEEDED = (":!docs", ":!tests", ":!benchmarks")


def revision() -> str:
    """Return the newest tag of a version before the present commit."""
    words = ["git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^"]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603 - as installed
    return done.stdout.strip() or _BEFORE_ANY_TAG


def installed(folder: Path) -> Path:
    """Install the release before into an environment below a folder, and return its command `braid`."""
    tree, into = folder / "tree", folder / "environment"
    tree.mkdir()
    archive = subprocess.run(  # noqa: S603 - our own revision
        ["git", "archive", "--format=tar", revision(), "--", ".", *_NOT_NEEDED],  # noqa: S607 - as installed
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)  # noqa: S607 - as installed
    _run(UV, "venv", "--quiet", "--python", str(Path(sysconfig.get_path("scripts"), "python")), into)
    folders = [path.parent for path in (tree / "pyproject.toml", tree / "client" / "pyproject.toml") if path.exists()]
    _run(UV, "pip", "install", "--quiet", "--python", into / "bin" / "python", "--no-deps", *folders)
    (site,) = into.glob("lib/python*/site-packages")
    # Behind its own; links in there to other folders, such as that of the present release, are not followed.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return into / "bin" / "braid"


def tables(program: Path) -> str:
    """Return the newest revision of tables that an installed release knows."""
    (versions,) = program.parent.parent.glob("lib/python*/site-packages/manager/store/migrations/versions")
    return max(path.name[:4] for path in versions.glob("[0-9]*.py"))


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True, env=environment())  # noqa: S603 - our own words
