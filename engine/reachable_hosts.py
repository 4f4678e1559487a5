"""The hosts that tasks of tenants may connect to.

A tenant chooses the URLs of its databases and buckets, as secrets, and a host connects from inside its operator's
network. So a URL may lead to addresses of the internet, and otherwise only to hosts that the operator lists.
"""

import socket
from collections.abc import Collection
from ipaddress import IPv6Network, ip_address, ip_network
from pathlib import Path

from dags.internet_addresses import MAPPED, IPAddress, IPNetwork, embedded, is_on_internet, unmapped

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


def allowed(host: str, addresses: Collection[IPAddress], names: Collection[str]) -> bool:
    """True if a host is listed by name, or each of its addresses is listed or belongs to the internet.

    An IPv6 address that leads to IPv4 ones is also allowed if these are. A mapped one counts as what it stands for.

    >>> [allowed("db", [ip_address("10.1.2.3")], names) for names in ([], ["db"], ["10.1.0.0/16"], ["10.2.0.0/16"])]
    [False, True, True, False]
    """
    networks = [network for name in names if (network := _network(name)) is not None]
    return host in names or all(_is_allowed(unmapped(address), networks) for address in addresses)


def _is_allowed(address: IPAddress, networks: Collection[IPNetwork]) -> bool:
    if any(address in network for network in networks):
        return True
    if inside := embedded(address):
        return all(_is_allowed(ipv4, networks) for ipv4 in inside)
    return is_on_internet(address)


def _network(name: str) -> IPNetwork | None:
    try:
        network = ip_network(name, strict=False)
    except ValueError:
        # The name of a host.
        return None
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        return ip_network((unmapped(network.network_address), network.prefixlen - MAPPED.prefixlen))
    return network
