"""The hosts that tasks of tenants may connect to.

A tenant chooses the URLs of its databases and buckets, as secrets, and a host connects from inside its operator's
network. So a URL may lead to addresses of the internet, and otherwise only to hosts that the operator lists.
"""

import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

_EMBEDDING = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))
"""Networks whose addresses end with an IPv4 address."""
REACHABLE = "reachable"
"""The operator's file in the root: more names, addresses and networks that tasks may connect to, one per line."""


class HostBarred(ConnectionRefusedError):
    """Tasks may not connect to a host. Says why, without its addresses."""


def barred(host: str, path: Path) -> str:
    """Why tasks may not connect to a host, given the operator's file; empty if they may.

    The addresses are looked up each time, and never shown.
    """
    try:
        reachable_addresses(host, path)
    except HostBarred as error:
        return str(error)
    return ""


def reachable_addresses(host: str, path: Path) -> list[str]:
    """The addresses of a host, if tasks may connect to them. Raises `HostBarred`."""
    try:
        found = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None)))
    except (OSError, UnicodeError):
        raise HostBarred("its host cannot be found; correct the URL") from None
    if not allowed(host, [ip_address(each) for each in found], listed(path)):
        raise HostBarred(
            "its host is not on the internet; tasks may connect to it only if an operator lists the host or its network"
            f" in the file {path.name!r} of the root"
        )
    return found


def listed(path: Path) -> list[str]:
    """The entries of the operator's file. Lines that begin with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def allowed(host: str, addresses: Collection[IPv4Address | IPv6Address], names: Collection[str]) -> bool:
    """True if a host is listed by name, or each of its addresses is listed or belongs to the internet.

    An IPv6 address that stands for an IPv4 one is both.

    >>> [allowed("db", [ip_address("10.1.2.3")], names) for names in ([], ["db"], ["10.1.0.0/16"], ["10.2.0.0/16"])]
    [False, True, True, False]
    """
    networks = [network for name in names if (network := _network(name)) is not None]
    return host in names or all(
        any(form in network for network in networks for form in _forms(each)) or all(map(_is_public, _forms(each)))
        for each in addresses
    )


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast


def _forms(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """An address, and the IPv4 address that it leads to: mapped, compatible, of 6to4, of Teredo, or of NAT64."""
    if isinstance(address, IPv4Address):
        return (address,)
    embedded = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if embedded is None and any(address in network for network in _EMBEDDING):
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    if embedded is None:
        return (address,)
    # Python counts some of these networks as private as such, so a mapped address is judged by what it stands for.
    return (embedded,) if address.ipv4_mapped else (address, embedded)


def _network(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False)
    except ValueError:
        # The name of a host.
        return None
