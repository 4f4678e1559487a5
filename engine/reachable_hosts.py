"""Reachable: where tasks of tenants may connect to.

A tenant writes the URLs of its databases and buckets by itself, as secrets, and a host connects from within its
operator's network. So a URL may lead to addresses of the internet, and else only to what the operator lists.
"""

import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

REACHABLE = "reachable"
"""In the root, written by the operator: names, addresses and networks that tasks may connect to besides, one a line."""


def barred(host: str, path: Path) -> str:
    """Why tasks may not connect to a host, given what an operator has listed in a file; empty where they may.

    Its addresses, which are looked up each time, are told to nobody.
    """
    try:
        found = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return "its host cannot be found; correct the URL"
    if allowed(host, [ip_address(each) for each in found], listed(path)):
        return ""
    return (
        "its host is not on the internet, and tasks connect to others only where an operator has listed the host or "
        f"its network in the file {path.name!r} of the root"
    )


def listed(path: Path) -> list[str]:
    """What an operator has listed; a line that begins with # is for people."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def allowed(host: str, addresses: Collection[IPv4Address | IPv6Address], names: Collection[str]) -> bool:
    """Whether a host is listed by its name, or each of its addresses is one of the internet or listed.

    >>> [allowed("db", [ip_address("10.1.2.3")], names) for names in ([], ["db"], ["10.1.0.0/16"], ["10.2.0.0/16"])]
    [False, True, True, False]
    """
    networks = [network for name in names if (network := _network(name)) is not None]
    return host in names or all(
        (each.is_global and not each.is_multicast) or any(each in network for network in networks) for each in addresses
    )


def _network(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False)
    except ValueError:
        # It is the name of a host.
        return None
