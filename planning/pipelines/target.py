"""Targets that code connects to: hosts, each with a port."""

import re
from ipaddress import AddressValueError, IPv6Address

from dags.internet_addresses import spelling

_NAMED = re.compile(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})")
_MOST_PORT = 65_535
_MOST_NAME = 253


class NotATarget(ValueError):
    """A text does not name a host with a port."""


def target(text: str) -> str:
    """A target in its one spelling. Raises `NotATarget`.

    >>> target("Example.org.:443"), target("[2001:DB8:0::1]:80")
    ('example.org:443', '[2001:db8::1]:80')
    """
    found = _NAMED.fullmatch(text.lower().replace(".:", ":"))
    if found is None or int(found[2]) > _MOST_PORT or len(found[1]) > _MOST_NAME:
        raise NotATarget(text)
    if not found[1].startswith("["):
        return found[0]
    try:
        return f"[{spelling(IPv6Address(found[1][1:-1]))}]:{found[2]}"
    except AddressValueError:
        raise NotATarget(text) from None
