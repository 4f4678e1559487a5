"""The address of a broker, with the user to connect as."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote, urlsplit

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
