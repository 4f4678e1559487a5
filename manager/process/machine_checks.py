"""The checks of `braid doctor` for machines that run hosts: their disk, their clock, and the way to each other."""

import ipaddress
import os
import socket
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime

import httpx

from dags.internet_addresses import unmapped
from manager.client.client import Client
from manager.client.errors import NotDone, Refused
from manager.client.http_options import uses_proxies
from manager.process.finding import Finding, ok, warn
from manager.process.scratch import scratch
from manager.process.settings import ClientSettings, Settings

ServiceCheck = Callable[[ClientSettings, Settings], Finding]
"""A check that asks the service."""
SLOW_SYNC = 0.02
"""Seconds of a synced write above which the doctor warns."""
_SYNCS = 5
_SYNCED = b"b" * 4096
_APART = 1.0
"""Seconds by which a machine's clock may differ from the service's."""
_DATE_WITHIN = 2.0
"""Seconds that a server's clock may be ahead of the date that it sends: whole seconds, made once a second."""
_CONNECTING = 5.0
_AT_ONCE = 16


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
        return warn(
            "synced writes", f"{settings.root}: {error.strerror or error}", "name a folder in BRAID_ROOT to write to"
        )
    seconds = statistics.median(took)
    found = f"one takes {seconds * 1_000:.1f} ms on the disk of {settings.root}"
    if seconds > SLOW_SYNC:
        return warn(
            "synced writes",
            f"{found}, and every message waits for one",
            "have the root on a faster disk, such as a local SSD",
        )
    return ok("synced writes", found)


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
    if max(ahead, behind) > _APART:
        difference = f"{ahead:.0f} s ahead of" if ahead > 0 else f"{behind:.0f} s behind"
        return warn(what, f"the clock of {url} is at least {difference} this machine's", "set both clocks, by NTP")
    return ok(what, f"agrees with this machine's, at {url}")


def copies_reach(client: ClientSettings, _settings: Settings) -> Finding:
    """Check that the addresses can be connected to at which other machines take copies."""
    what = "copies"
    if client.key is None:
        return ok(what, "the ways to other machines were not tried, since no API key is here; name one in BRAID_KEY")
    try:
        with Client(client.service, client.key) as asking:
            places = {each.name: each.at for each in asking.machines() if each.alive and each.at}
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
        return warn(
            what,
            f"cannot be sent from here to {', '.join(unreached)}",
            "let this machine through to that port, or start that machine with an address in --copies-at that is "
            "reached from here",
        )
    found = f"can be sent to {', '.join(places)}" if places else "no machine that is there takes any"
    return ok(what, found)


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
