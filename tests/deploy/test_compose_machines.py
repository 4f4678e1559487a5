"""The compose file with several machines: three that differ in all that they must, on top of the other file."""

from itertools import pairwise
from typing import Any

import yaml

from manager.settings import SETTINGS_PREFIX, Settings
from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT

FOLDER = ROOT / "deploy"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.machines.yaml").read_text())["services"]
MACHINES = {name: service for name, service in SERVICES.items() if "command" in service}


def options(name: str) -> dict[str, str]:
    """The options of a machine's command."""
    command = MACHINES[name]["command"]
    return {option: value for option, value in pairwise(command) if option.startswith("--")}


def test_the_command_line_takes_what_machines_are_given() -> None:
    """Each command is one of `braid`, with options that it has."""
    assert dict.fromkeys(MACHINES, "") == {name: wrong_with(each["command"]) for name, each in MACHINES.items()}
    known = {f"{SETTINGS_PREFIX}{setting.upper()}" for setting in Settings.model_fields}
    assert not SERVICES["manager"]["environment"].keys() - known


def test_machines_differ_in_name_disk_address_and_zone() -> None:
    """Nothing is lost together, and each is reached under its own name."""
    assert list(MACHINES) == [each["command"][1] for each in MACHINES.values()]
    assert [f"{name}:8700" for name in MACHINES] == [options(name)["--copies-at"] for name in MACHINES]
    assert len(MACHINES) == len({options(name)["--zone"] for name in MACHINES})
    assert [[f"{name}:{options(name)['--root']}"] for name in MACHINES] == [
        each["volumes"] for each in MACHINES.values()
    ]


def test_all_reach_what_the_manager_writes() -> None:
    """The common folder is where the other file mounts the manager's root."""
    base = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert {f"root:{options(name)['--common']}" for name in MACHINES} == set(base["host"]["volumes"])
