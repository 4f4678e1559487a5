"""The address of a broker, and the login there: credentials, the client id, and why it fails."""

import hmac
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote, urlsplit

import paho.mqtt.client as paho

_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Address:
    """The address of a broker, with the user to connect as. Shown as a URL without the password.

    >>> Address.parse("mqtts://anna:secret@broker.example")
    Address('mqtts://anna:***@broker.example:8883')
    >>> Address(host="::1", port=1883)
    Address('mqtt://[::1]:1883')
    """

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    tls: bool = False

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise ValueError("a password needs a user")

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read mqtt://user:password@host:port, or mqtts:// for TLS; user, password and port may be left out.

        Errors do not repeat the URL, which may hold a password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("the broker's URL is malformed; write special characters as %XX") from None
        if parts.scheme not in _PORTS:
            raise ValueError("a broker's URL begins with mqtt:// or mqtts://")
        if not host:
            raise ValueError("the broker's URL names no host")
        if parts.path not in {"", "/"} or "?" in url or "#" in url:
            raise ValueError("a broker's URL ends with its port; write special characters as %XX")
        return cls(
            host=host,
            port=_PORTS[parts.scheme] if port is None else port,
            user=unquote(parts.username) if parts.username else None,
            password=None if parts.password is None else unquote(parts.password),
            tls=parts.scheme == "mqtts",
        )

    @property
    def url(self) -> str:
        """The complete URL, including the password; only for connecting.

        >>> Address.parse("mqtt://anna:s%40cret@broker.example").url
        'mqtt://anna:s%40cret@broker.example:1883'
        """
        return self._format("" if self.password is None else ":" + quote(self.password, safe=""))

    def __str__(self) -> str:
        return self._format("" if self.password is None else ":***")

    def _format(self, secret: str) -> str:
        user = "" if self.user is None else quote(self.user, safe="")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{user}{secret}{'@' if user else ''}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


_OTHER_NAME = {62, 64}
"""OpenSSL's codes for a certificate of another host, and of another address."""
_UNKNOWN_USER = {"Not authorized", "Bad user name or password"}


def secret_client_id(client_id: str, address: Address) -> str:
    """A client id that only those who know the password can compute.

    A broker disconnects a client when another one connects with the same id, even one of another user.
    """
    if not address.password:
        return client_id
    return f"{client_id}-{hmac.digest(address.password.encode(), client_id.encode(), 'sha256').hex()[:16]}"


def set_credentials(client: paho.Client, address: Address) -> None:
    """Give a client the user, the password and the TLS settings of an address."""
    client.username_pw_set(address.user, address.password)
    if address.tls:
        client.tls_set()


_TRUST = "have the system trust its authority, or name the authority's file in SSL_CERT_FILE"


def why_unreachable(address: Address, error: OSError, *, trust: str = _TRUST) -> str:
    """The reason why no connection to a broker comes about, and what to do; `trust` says how to trust an authority."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = "connect by a name that is in it" if error.verify_code in _OTHER_NAME else trust
        reason = error.verify_message.rstrip(".")
        return f"the certificate of the broker at {address} is not trusted: {reason}; {remedy}"
    if address.tls and isinstance(error, ssl.SSLError | ConnectionResetError):
        return f"no TLS with the broker at {address}: {error}; see whether this is its port for TLS"
    return f"no broker answers at {address}: {error}"


def is_unknown_user(reason: object) -> bool:
    """True if a broker refused a client because of its user or password."""
    return str(reason) in _UNKNOWN_USER


def why_refused(reason: object) -> str:
    """The reason why a broker refused a client, and what to do."""
    return f"{reason}; check the user and the password" if is_unknown_user(reason) else str(reason)
