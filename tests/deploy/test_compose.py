"""The compose files name nothing that is not there, also with several machines.

No daemon is asked, so that this cannot tell whether the images work; it tells what a start would stumble on.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import yaml

from manager.command import COMMANDS
from manager.settings import SECRET_SETTINGS, SETTINGS_PREFIX, Settings
from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT

FOLDER = ROOT / "deploy"
TEXT = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
EACH = pytest.mark.parametrize("name", SERVICES)
OURS = [name for name, service in SERVICES.items() if service.get("image") == "braid"]
TOP = {"name", "secrets", "services", "volumes"}
FIELDS = {
    *("build", "cap_drop", "command", "depends_on", "entrypoint", "environment", "group_add", "healthcheck", "image"),
    *("init", "ports", "profiles", "read_only", "restart", "secrets", "security_opt", "stop_grace_period", "tmpfs"),
    *("user", "volumes"),
}
"""Of what compose knows, what is used here: a mistyped field would be taken for another one."""


def variables() -> set[str]:
    """What the file takes from the environment."""
    return set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))


def mounts() -> Iterator[tuple[str, str, str]]:
    """For each mount of a service its source and its target."""
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            source, target, *_ = mount.split(":")
            yield name, source, target


@EACH
def test_every_field_is_one_that_compose_knows(name: str) -> None:
    """No field is mistyped, and each service says how its image is had."""
    assert not SERVICES[name].keys() - FIELDS
    assert SERVICES[name]["image"]
    assert not {each for each in COMPOSE if each not in TOP and not each.startswith("x-")}


def test_every_variable_is_in_the_example_and_has_to_be_given() -> None:
    """`.env.example` names each variable, and none of them is empty by mistake."""
    example = (FOLDER / ".env.example").read_text(encoding="utf-8")
    assert variables() == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    assert all(f"${{{name}:?" in TEXT for name in variables())
    assert re.findall(r"\$\{\w+[^:\w]", TEXT) == []


def test_every_mount_has_a_source() -> None:
    """A source is a volume that is declared, and every volume is used, or a folder of the repository."""
    named = {source for _, source, _ in mounts() if not source.startswith(".")}
    assert set(COMPOSE["volumes"]) == named
    assert not [source for _, source, _ in mounts() if source.startswith(".") and not (FOLDER / source).is_dir()]


def test_a_secret_is_a_file_that_the_operator_makes() -> None:
    """Every secret is used, and only by what runs where it is asked for: the rest starts without its file."""
    asking = {name: service["secrets"] for name, service in SERVICES.items() if "secrets" in service}
    assert set(COMPOSE["secrets"]) == {secret for secrets in asking.values() for secret in secrets}
    assert [] == [name for name in asking if not SERVICES[name].get("profiles")]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert [] == [each for each in COMPOSE["secrets"].values() if f"/deploy/{each['file'][2:]}" not in ignored]


def test_every_other_thing_that_is_named_is_there() -> None:
    """Services wait for services, and a condition on health has a check."""
    for service in SERVICES.values():
        needs = service.get("depends_on", {})
        assert set(needs) <= set(SERVICES)
        healthy = [each for each in needs if isinstance(needs, dict) and needs[each]["condition"] == "service_healthy"]
        assert all("test" in SERVICES[each]["healthcheck"] for each in healthy)


def test_nothing_listens_for_other_machines() -> None:
    """Whatever is published is on the loopback address, because none of it speaks TLS here."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == len({port for port in published if port.startswith("127.0.0.1:")})


@pytest.mark.parametrize("name", OURS)
def test_the_command_line_takes_the_commands_of_our_services(name: str) -> None:
    """Each command is one of `braid`, with flags that it has and settings that are known."""
    service = SERVICES[name]
    assert "" == wrong_with(service["command"])
    known = {f"{SETTINGS_PREFIX}{setting.upper()}" for setting in Settings.model_fields}
    assert not service["environment"].keys() - known
    # A secret would stand in the list of processes.
    assert not [word for word in service["command"] for secret in SECRET_SETTINGS if word.startswith(f"--{secret}")]


def test_manager_and_host_share_one_root() -> None:
    """What the manager writes is what hosts read, at the same path."""
    assert ["manager", "host"] == [name for name, source, target in mounts() if (source, target) == ("root", _root())]
    assert set(OURS) == {"manager", "host", "entrance"}
    assert "serve" in {command.name for command in COMMANDS}


def test_only_the_entrance_reaches_mosquittos_listener_for_tenants() -> None:
    """Mosquitto publishes no port, and its socket is in a folder that only its own group may enter."""
    assert {"mosquitto", "entrance"} == {name for name, source, _ in mounts() if source == "tenants"}
    assert "ports" not in SERVICES["mosquitto"]
    assert "gid=1883,mode=0750" in COMPOSE["volumes"]["tenants"]["driver_opts"]["o"]
    assert ["entrance"] == [name for name, service in SERVICES.items() if "1883" in service.get("group_add", [])]


def _root() -> str:
    (root,) = re.findall(r"BRAID_ROOT=(\S+)", (FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    return str(root)


WITH_MACHINES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.machines.yaml").read_text())["services"]
MACHINES = {name: service for name, service in WITH_MACHINES.items() if "command" in service}


def options(name: str) -> dict[str, str]:
    """The options of a machine's command."""
    command = MACHINES[name]["command"]
    return {option: value for option, value in pairwise(command) if option.startswith("--")}


def test_the_command_line_takes_what_machines_are_given() -> None:
    """Each command is one of `braid`, with options that it has."""
    assert dict.fromkeys(MACHINES, "") == {name: wrong_with(each["command"]) for name, each in MACHINES.items()}
    known = {f"{SETTINGS_PREFIX}{setting.upper()}" for setting in Settings.model_fields}
    assert not WITH_MACHINES["manager"]["environment"].keys() - known


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
