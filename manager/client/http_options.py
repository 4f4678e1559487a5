"""The HTTP options of both clients: headers, timeout, proxies."""

import ipaddress
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from dags.internet_addresses import unmapped

Sleep = Callable[[float], None]
AsyncSleep = Callable[[float], Awaitable[None]]
TIMEOUT = httpx.Timeout(30.0, connect=5.0)


def headers(key: SecretStr | str | None) -> dict[str, str]:
    """The headers of every request."""
    secret = key.get_secret_value() if isinstance(key, SecretStr) else key
    named = {"User-Agent": f"braid/{version('braid')}", "Content-Type": "application/json"}
    return named if secret is None else named | {"Authorization": f"Bearer {secret}"}


def uses_proxies(url: str) -> bool:
    """Use the environment's proxies, except to this machine: they could not reach it, and would see the API key."""
    host = urlsplit(url).hostname or ""
    try:
        return not unmapped(ipaddress.ip_address(host)).is_loopback
    except ValueError:
        return host != "localhost"
