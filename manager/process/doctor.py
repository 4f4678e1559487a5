"""The checks of `braid doctor`: small ones in a list, each with its remedy."""

import ipaddress
import logging
import os
import re
import shutil
import socket
import sqlite3
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from urllib.parse import unquote

import httpx
from cryptography import x509
from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from braid_client.client import Client
from braid_client.errors import NotDone, Refused, uses_proxies
from bridge import broker_setup
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient as Mqtt
from bridge.transport.mqtt_client import NotConnected
from dags.internet_addresses import unmapped
from engine.code.cells import Cells, NoCells
from engine.code.store import CodeStore, digest_of
from engine.spark.programs import OLDEST_JAVA, NoJava, find_java, java_version
from manager.settings import SECRET_SETTINGS, ClientSettings, Settings
from manager.store.database import DatabaseDown


class FindingState(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


class Finding(BaseModel):
    """The finding of one check."""

    model_config = ConfigDict(frozen=True)

    what: str
    state: FindingState
    # Scripts read it from the output of `doctor --json` by this name.
    detail: str = Field(serialization_alias="told")
    remedy: str = ""


def ok(what: str, detail: str) -> Finding:
    """Nothing is wrong."""
    return Finding(what=what, state=FindingState.OK, detail=detail)


def warn(what: str, detail: str, remedy: str) -> Finding:
    """Braid runs, but something should be seen to."""
    return Finding(what=what, state=FindingState.WARN, detail=detail, remedy=remedy)


def wrong(what: str, detail: str, remedy: str) -> Finding:
    """Braid cannot run so."""
    return Finding(what=what, state=FindingState.WRONG, detail=detail, remedy=remedy)


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there: the doctor makes nothing that stays."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder on the disk of this one."""
    with tempfile.TemporaryDirectory(prefix=".braid-doctor-", dir=existing(folder)) as made:
        yield Path(made)


_SECONDS = 10.0


def published_code(settings: Settings) -> Finding:
    """Check that code runs here for which no operator vouches: start a cell that does nothing."""
    cells = Cells("event")
    try:
        cells.run(b"", path=CodeStore(settings.root).path(digest_of("")), seconds=_SECONDS)
    except NoCells as error:
        remedy = "run hosts where the kernel allows Landlock and seccomp, or vouch for modules"
        return warn("published code", str(error), remedy)
    finally:
        cells.close()
    return ok("published code", "can be confined, also if no operator vouches for it")


_RENEW_WITHIN = timedelta(days=14)
"""The time before its end in which a certificate should be renewed."""
_CONNECTING = 5.0
_AT_ONCE = 16


def _asking(settings: ClientSettings) -> Client:
    ca, by_name = settings.trusted or (None, True)
    return Client(settings.service, settings.key, ca=ca, by_name=by_name)


def certificates(client: ClientSettings, settings: Settings) -> Finding:
    """Check that no certificate ends soon that the broker or a machine with copies shows."""
    places = _places(client, settings)
    with ThreadPoolExecutor(_AT_ONCE) as trying:
        ends = {name: end for name, end in zip(places, trying.map(_end, places.values()), strict=True) if end}
    now = datetime.now(UTC)
    ending = [f"that of {name} {_lasts(end, now)}" for name, end in ends.items() if end - now < _RENEW_WITHIN]
    if ending:
        return warn("certificates", ", ".join(ending), "renew them; machines use renewed files without a restart")
    if not ends:
        return ok("certificates", "nothing that was reached from here shows one")
    first = min(ends, key=lambda name: ends[name])
    return ok("certificates", f"that of {first} {_lasts(ends[first], now)}, and no other ends before")


def _places(client: ClientSettings, settings: Settings) -> dict[str, tuple[str, int]]:
    """Where a certificate may be shown, by the name of who shows it."""
    places = {}
    if settings.broker is not None and (address := Address.parse(settings.broker.get_secret_value())).tls:
        places["the broker"] = address.host, address.port
    # Whether the service answers is another check's matter.
    with suppress(Refused, NotDone):
        if client.key is not None:
            with _asking(client) as asking:
                for machine in asking.machines():
                    host, _, port = machine.at.rpartition(":")
                    if machine.alive and port.isdecimal():
                        places[f"machine {machine.name}"] = host.strip("[]"), int(port)
    return places


def _end(place: tuple[str, int]) -> datetime | None:
    """When the certificate that is shown at an address ends; None if none is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # An outdated one is to be seen too, and nothing is said over the connection.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError, ValueError):
        with (
            socket.create_connection(place, _CONNECTING) as connection,
            context.wrap_socket(connection, server_hostname=place[0]) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).not_valid_after_utc if shown else None
    return None


def _lasts(end: datetime, now: datetime) -> str:
    return f"{'ended on' if end < now else 'lasts until'} {end:%Y-%m-%d}"


SLOW_SYNC = 0.02
"""Seconds of a synced write above which the doctor warns."""
_SYNCS = 5
_SYNCED = b"b" * 4096
_CLOCKS_APART = 1.0
"""Seconds by which a machine's clock may differ from the service's."""
_DATE_WITHIN = 2.0
"""Seconds that a server's clock may be ahead of the date that it sends: whole seconds, made once a second."""


def synced_writes(settings: Settings) -> Finding:
    """Check that the root's disk keeps what is written soon: each message waits for that."""
    took = []
    try:
        with scratch(settings.root) as folder, (folder / "synced").open("wb", buffering=0) as file:
            for _ in range(_SYNCS):
                began = time.perf_counter()
                file.write(_SYNCED)
                os.fsync(file.fileno())
                took.append(time.perf_counter() - began)
    except OSError as error:
        problem = f"{settings.root}: {error.strerror or error}"
        return warn("synced writes", problem, "name a folder in BRAID_ROOT to write to")
    seconds = statistics.median(took)
    report = f"one takes {seconds * 1_000:.1f} ms on the disk of {settings.root}"
    if seconds <= SLOW_SYNC:
        return ok("synced writes", report)
    remedy = "have the root on a faster disk, such as a local SSD"
    return warn("synced writes", f"{report}, and every message waits for one", remedy)


def service_clock(client: ClientSettings, _settings: Settings) -> Finding:
    """Check that this machine's clock agrees with the service's, as far as the date that it sends tells."""
    url, what = client.service, "service's clock"
    before = time.time()
    try:
        answer = httpx.get(url, timeout=_CONNECTING, trust_env=uses_proxies(url))
    except httpx.TransportError as error:
        if client.url is None:
            return ok(what, f"was not compared, since no service answers at {url}")
        return warn(what, f"no service answers at {url}: {error}", "correct BRAID_URL, or start the service")
    after = time.time()
    try:
        date = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return ok(what, f"was not compared, since {url} sends no date")
    # Its clock is surely as much ahead of this one, or behind.
    ahead, behind = date - after, before - date - _DATE_WITHIN
    if max(ahead, behind) > _CLOCKS_APART:
        difference = f"{ahead:.0f} s ahead of" if ahead > 0 else f"{behind:.0f} s behind"
        return warn(what, f"the clock of {url} is at least {difference} this machine's", "set both clocks, by NTP")
    return ok(what, f"agrees with this machine's, at {url}")


def copies_reach(client: ClientSettings, _settings: Settings) -> Finding:
    """Check that the addresses can be connected to at which other machines take copies."""
    what = "copies"
    if client.key is None:
        return ok(what, "the ways to other machines were not tried, since no API key is here; name one in BRAID_KEY")
    try:
        with _asking(client) as asking:
            places = {machine.name: machine.at for machine in asking.machines() if machine.alive and machine.at}
    except Refused as error:
        return ok(what, f"the ways to other machines were not tried, since {client.service} refused: {error}")
    except NotDone as error:
        if client.url is None:
            return ok(what, f"the ways to other machines were not tried, since no service answers at {client.service}")
        return warn(what, f"the machines are not known: {error}", "correct BRAID_URL, or start the service")
    with ThreadPoolExecutor(_AT_ONCE) as trying:
        troubles = dict(zip(places, trying.map(_trouble, places.values()), strict=True))
    unreached = [f"machine {name} at {places[name]}: {trouble}" for name, trouble in troubles.items() if trouble]
    if unreached:
        remedy = (
            "let this machine through to that port, or start that machine with an address in --copies-at that is "
            "reached from here"
        )
        return warn(what, f"cannot be sent from here to {', '.join(unreached)}", remedy)
    return ok(what, f"can be sent to {', '.join(places)}" if places else "no machine that is there takes any")


def _trouble(at: str) -> str:
    """Why an address cannot be connected to; empty if it can."""
    host, _, port = at.rpartition(":")
    host = host.strip("[]")
    try:
        if unmapped(ipaddress.ip_address(host)).is_unspecified:
            return "is no address that others can reach"
    except ValueError:
        pass  # A name is looked up.
    try:
        socket.create_connection((host, int(port)), _CONNECTING).close()
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


OLDEST_PYTHON = (3, 11)
LITTLE = 5 * 10**9
"""Bytes on the disk below which the doctor warns."""
TOO_LITTLE = 10**9
"""Bytes on the disk below which spools and records soon find no room."""
_APART = 2.0
"""Seconds by which two clocks may differ that order the same things."""
_ANSWERING = 30.0


def python(_settings: Settings) -> Finding:
    """Check that this Python is new enough."""
    running = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return wrong("Python", f"is {running}", f"install {'.'.join(map(str, OLDEST_PYTHON))} or later")
    return ok("Python", f"is {running}")


def packages(_settings: Settings) -> Finding:
    """Check that every package that Braid needs is installed, in a version that it can use."""
    missing = []
    for text in requires("braid") or ():
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(needed.name)
        except PackageNotFoundError:
            missing.append(f"{needed.name} is missing")
        else:
            if not needed.specifier.contains(installed, prereleases=True):
                missing.append(f"{needed.name} is {installed} and not {needed.specifier}")
    if missing:
        return wrong("packages", ", ".join(missing), "install braid again, in a virtual environment of its own")
    return ok("packages", f"braid is {version('braid')}, pyspark {version('pyspark')}, and all that they need is there")


def java(_settings: Settings) -> Finding:
    """Check that there is a Java that Spark runs on, and name it."""
    environment = dict(os.environ)
    try:
        with _heard("braid.java") as warnings:
            find_java(environment)
    except NoJava as error:
        problem, _, remedy = str(error).rpartition("; ")
        return wrong("Java", problem, remedy)
    home = environment.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    answer = subprocess.run(  # noqa: S603 - the program that Spark will run
        [program, "-version"], capture_output=True, timeout=_ANSWERING, check=False
    )
    if warnings:
        return warn("Java", warnings[0], f"have JAVA_HOME name one of version {OLDEST_JAVA} or later, or unset it")
    return ok("Java", f"is {java_version(answer.stderr.decode(errors='replace'))}, at {program}")


def broker(settings: Settings) -> Finding:
    """Check that the broker accepts us; without one, name the one that would be run."""
    if settings.broker is not None:
        address = Address.parse(settings.broker.get_secret_value())
        client = Mqtt(address, f"braid-doctor-{uuid.uuid4().hex[:8]}")
        try:
            client.start(_CONNECTING)
        except NotConnected as error:
            return wrong("broker", str(error), "correct BRAID_BROKER, or start the broker")
        client.leave()
        return ok("broker", f"{address} lets us in")
    if program := broker_setup.mosquitto_program():
        return ok("broker", f"mosquitto is installed, at {program}")
    report = "mosquitto is not installed; the embedded broker runs, which forgets what it has when it ends"
    return warn("broker", report, "install mosquitto where messages have to outlive their broker")


def port(settings: Settings) -> Finding:
    """Check that REST can be served at its port."""
    place = f"port {settings.port} of {settings.listen}"
    try:
        addresses = socket.getaddrinfo(settings.listen, settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the service does, since connections of an earlier one may still be closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if _is_braid(settings):
            return ok("port", f"a Braid service answers at {settings.here}")
        return wrong("port", f"{place} cannot be had: {error.strerror or error}", "serve on another, by BRAID_PORT")
    return ok("port", f"{place} is free")


def root(settings: Settings) -> Finding:
    """Check that the root can be written, on a file system that links and renames, with a clock like ours."""
    try:
        with scratch(settings.root) as folder:
            made, linked, renamed = folder / "made", folder / "linked", folder / "renamed"
            before = time.time()
            made.write_text("made")
            apart = made.stat().st_mtime - before
            linked.hardlink_to(made)
            linked.replace(renamed)
            if not renamed.samefile(made):
                return wrong("root", f"{settings.root}: a renamed link is another file", "use a POSIX file system")
    except OSError as error:
        remedy = "name a folder in BRAID_ROOT that this user may write, on a file system with hard links"
        return wrong("root", f"{settings.root}: {error.strerror or error}", remedy)
    if abs(apart) > _APART:
        report = f"the file system of {settings.root} is {apart:+.0f} s from this machine's clock"
        return warn("root", report, "set both clocks")
    return ok("root", f"{settings.root} can be written, linked and renamed in")


def disk(settings: Settings) -> Finding:
    """Check that the root has room."""
    free = shutil.disk_usage(existing(settings.root)).free
    report = f"{free / 10**9:.1f} GB are free for {settings.root}"
    remedy = "make room, or name another folder in BRAID_ROOT"
    if free < TOO_LITTLE:
        return wrong("disk", report, remedy)
    return warn("disk", report, remedy) if free < LITTLE else ok("disk", report)


def database(settings: Settings) -> Finding:
    """Check that the database answers and has a clock like ours, or that SQLite works in the root."""
    if settings.database is None:
        return _sqlite(settings)
    from manager.store.database import _engine  # noqa: PLC0415 - nothing else opens a database and leaves its tables be

    try:
        opened = _engine(settings.database.get_secret_value())
        try:
            if opened.url.host:
                # The driver would wait for minutes for a machine that is not there.
                socket.create_connection((opened.url.host, opened.url.port or 5432), _CONNECTING).close()
            with opened.connect() as connection:
                connection.execute(select(1))
        finally:
            opened.dispose()
    except (DatabaseDown, SQLAlchemyError, OSError) as error:
        problem = str(getattr(error, "orig", None) or error).splitlines()[0]
        return wrong("database", problem, "correct BRAID_DATABASE, or start the database and let this user in")
    return ok("database", f"{opened.url.render_as_string(hide_password=True)} answers")


def clock(_settings: Settings) -> Finding:
    """Check that the clock is plausible: tenants see its times, and brokers and certificates go by it."""
    built = Path(__file__).stat().st_mtime
    if time.time() + _APART < built:
        return wrong("clock", f"says {time.ctime()}, before this program was installed", "set the clock")
    return ok("clock", f"says {time.strftime('%Y-%m-%d %H:%M:%S %Z')}")


def private(file: Path | None, _settings: Settings) -> Finding:
    """Check that a settings file with secrets is for its owner only."""
    if file is None:
        return ok("settings", "are those of flags and environment; there is no file")
    held = sorted(SECRET_SETTINGS & tomllib.loads(file.read_text(encoding="utf-8")).keys())
    if held and file.stat().st_mode & 0o077:
        return warn("settings", f"others may read {file}, which holds {', '.join(held)}", f"chmod 600 {file}")
    return ok("settings", f"are read from {file}")


DOCTOR_CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    python,
    packages,
    java,
    broker,
    root,
    disk,
    synced_writes,
    database,
    port,
    clock,
)


def examine(settings: Settings, checks: tuple[Callable[[Settings], Finding], ...] = DOCTOR_CHECKS) -> Iterator[Finding]:
    """Run every check; none keeps another from running, and none tells a secret."""
    for check in checks:
        try:
            finding = check(settings)
        except Exception as error:  # noqa: BLE001 - a check that fails itself is a finding
            problem = f"could not be checked: {type(error).__name__}: {error}"
            finding = wrong(getattr(check, "__name__", "check"), problem, "report this, with the message")
        yield finding.model_copy(update={"detail": _hidden(finding.detail, settings)})


def _sqlite(settings: Settings) -> Finding:
    try:
        with scratch(settings.root) as folder:
            opened = sqlite3.connect(folder / "tried.db")
            try:
                (mode,) = opened.execute("PRAGMA journal_mode=WAL").fetchone()
                opened.execute("CREATE TABLE tried (it INTEGER)")
            finally:
                opened.close()
    except (OSError, sqlite3.Error) as error:
        return wrong("database", f"SQLite in {settings.root}: {error}", "name a local folder in BRAID_ROOT")
    if mode != "wal":
        return wrong("database", f"SQLite in {settings.root} cannot do WAL", "name a local folder in BRAID_ROOT")
    return ok("database", f"SQLite {sqlite3.sqlite_version} in {settings.root}")


def _is_braid(settings: Settings) -> bool:
    try:
        with Client(settings.here, ca=settings.certificate, by_name=False) as client:
            next(client.tenants(), None)
    except Refused as error:
        return error.code != "unknown"
    except NotDone:
        return False
    return True


@contextmanager
def _heard(name: str) -> Iterator[list[str]]:
    """The warnings of a logger, collected instead of printed."""
    heard: list[str] = []
    logger = logging.getLogger(name)
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    try:
        yield heard
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _hidden(text: str, settings: Settings) -> str:
    urls = [url.get_secret_value() for url in (settings.broker, settings.database) if url is not None]
    # Also of what is no URL after all.
    passwords = [password for url in urls for password in re.findall(r"://[^/@]*?:([^/@]+)@", url)]
    for secret in (*urls, *passwords, *map(unquote, passwords)):
        text = text.replace(secret, "***")
    return text
