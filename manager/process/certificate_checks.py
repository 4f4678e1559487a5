"""The check of `braid doctor` for certificates: those that machines and the broker show, and how long they last."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from cryptography import x509

from bridge.transport.address import Address
from manager.client.client import Client
from manager.client.errors import NotDone, Refused
from manager.process.finding import Finding, ok, warn
from manager.process.settings import ClientSettings, Settings

_RENEW_WITHIN = timedelta(days=14)
"""The time before its end in which a certificate should be renewed."""
_CONNECTING = 5.0
_AT_ONCE = 16


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
            with Client(client.service, client.key) as asking:
                for each in asking.machines():
                    host, _, port = each.at.rpartition(":")
                    if each.alive and port.isdecimal():
                        places[f"machine {each.name}"] = host.strip("[]"), int(port)
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
