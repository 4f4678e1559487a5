"""Built distributions as strangers have them: each in a fresh environment, used outside the repository.

The one that has the command `braid` is held to the README's first submission, on a machine without mosquitto, Java and
PostgreSQL where these can be hidden.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.releases.distributions import UV, Distribution, environment

_ROOT = Path(__file__).parents[2]


def use(distributions: Iterable[Distribution], version: str, built: Path, lock: Path) -> str:
    """Install and use every distribution; return what went wrong, if anything did."""
    with tempfile.TemporaryDirectory(prefix="braid-use-") as folder:
        for distribution in distributions:
            programs = Path(folder, distribution.name, "bin")
            try:
                install(distribution, version, built, lock, programs.parent)
                _look(distribution, version, programs / "python", Path(folder))
                if "braid" in distribution.commands:
                    _submit(programs)
            except subprocess.CalledProcessError as error:
                return f"{distribution.name} does not work where it is installed: {error.stderr or error}"
    return ""


def install(distribution: Distribution, version: str, built: Path, lock: Path, into: Path) -> None:
    """Install a distribution as its metadata ask for, with packages in the versions of the lock."""
    wanted = f"{distribution.name}=={version}"
    _run([UV, "venv", "--quiet", "--python", sys.executable, into])
    here: list[str | Path] = ["--python", into / "bin" / "python"]
    _run([UV, "pip", "install", "--quiet", *here, "--find-links", built, "--constraint", lock, wanted])
    _run([UV, "pip", "check", "--quiet", *here])


def _look(distribution: Distribution, version: str, python: Path, folder: Path) -> None:
    """Import every module at the top and ask for the version, far from the code that it was built from."""
    tops = sorted({name.partition("/")[0] for name in distribution.files})
    code = (
        f"import {', '.join(tops)}\n"
        "from importlib.metadata import version\n"
        f"assert version({distribution.name!r}) == {version!r}, version({distribution.name!r})\n"
        f"assert {tops[0]}.__file__.startswith({str(folder)!r}), {tops[0]}.__file__\n"
    )
    _run([python, "-c", code], cwd=folder)


def _submit(programs: Path) -> None:
    """Do what the README says about the first submission."""
    words: list[str | Path] = [sys.executable, "-m", "tests.bare.first_submission", str(programs)]
    hidden = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)  # noqa: S607
    _run([str(_ROOT / ".ci" / "bare"), *words] if hidden.returncode == 0 else words, cwd=_ROOT)


def _run(words: list[str | Path], cwd: Path | None = None) -> None:
    kept = {name: value for name, value in environment().items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run(words, check=True, cwd=cwd or os.sep, env=kept, capture_output=True, text=True)  # noqa: S603
