"""The systemd units call Braid as it is called, and systemd finds no fault with them."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT

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
