"""How both clients connect."""

import ipaddress
from importlib.metadata import version
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

TIMEOUT = httpx.Timeout(30.0, connect=5.0)


def headers(key: SecretStr | str | None) -> dict[str, str]:
    """What is sent with every request."""
    secret = key.get_secret_value() if isinstance(key, SecretStr) else key
    named = {"User-Agent": f"braid/{version('braid')}", "Content-Type": "application/json"}
    return named if secret is None else named | {"Authorization": f"Bearer {secret}"}


def trusts_environment(url: str) -> bool:
    """Whether proxies of the environment are used: not to this machine, where they would only learn the API key."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"
