"""Internet addresses: their spelling, the IPv4 addresses inside others, and which of them belong to the internet.

Python decides and spells some of them otherwise from one patch level to the next. What tasks may reach, and how the
targets of modules are named, must not change with it. So both are decided here, by the registries of the IANA:
https://www.iana.org/assignments/iana-ipv4-special-registry and https://www.iana.org/assignments/iana-ipv6-special-registry.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

MAPPED = IPv6Network("::ffff:0:0/96")
"""The IPv6 addresses that stand for IPv4 ones."""
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ALL_BITS = 0xFFFFFFFF

# The networks that differ from the ones around them; the smallest one decides. What the registries leave open ("N/A")
# is off the internet here, unless it embeds IPv4 addresses, which decide then.
_IPV4 = {
    IPv4Network(network): is_global
    for network, is_global in {
        "0.0.0.0/0": True,
        "0.0.0.0/8": False,  # this network
        "10.0.0.0/8": False,  # private use
        "100.64.0.0/10": False,  # shared address space of providers
        "127.0.0.0/8": False,  # loopback
        "169.254.0.0/16": False,  # link local, and the metadata of clouds
        "172.16.0.0/12": False,  # private use
        "192.0.0.0/24": False,  # protocol assignments
        "192.0.0.9/32": True,  # port control protocol, anycast
        "192.0.0.10/32": True,  # traversal using relays around NAT, anycast
        "192.0.2.0/24": False,  # documentation
        "192.88.99.0/24": False,  # relays of 6to4, deprecated
        "192.168.0.0/16": False,  # private use
        "198.18.0.0/15": False,  # benchmarking
        "198.51.100.0/24": False,  # documentation
        "203.0.113.0/24": False,  # documentation
        "224.0.0.0/4": False,  # multicast
        "240.0.0.0/4": False,  # reserved, and broadcast
    }.items()
}
_IPV6 = {
    IPv6Network(network): is_global
    for network, is_global in {
        "::/0": False,  # loopback, unique local, link local, multicast, and what nobody has been given yet
        "2000::/3": True,  # global unicast
        "2001::/23": False,  # protocol assignments
        "2001:1::1/128": True,  # port control protocol, anycast
        "2001:1::2/128": True,  # traversal using relays around NAT, anycast
        "2001:1::3/128": True,  # service registration protocol, anycast
        "2001:3::/32": True,  # automatic multicast tunnels
        "2001:4:112::/48": True,  # AS112
        "2001:20::/28": True,  # cryptographic hash identifiers
        "2001:30::/28": True,  # entity tags of drones
        "2001:db8::/32": False,  # documentation
        "3fff::/20": False,  # documentation
    }.items()
}


def spelling(address: IPAddress) -> str:
    """The one spelling of an address: as Python has it, and IPv4-mapped ones as it had them before 3.13.

    Published modules and the signatures of what runs hold that spelling.

    >>> spelling(IPv6Address("2001:DB8:0::1")), spelling(IPv6Address("::ffff:127.0.0.1"))
    ('2001:db8::1', '::ffff:7f00:1')
    """
    if isinstance(address, IPv6Address) and address in MAPPED:
        high, low = divmod(int(address) & _ALL_BITS, 0x10000)
        return f"::ffff:{high:x}:{low:x}"
    return str(address)


def unmapped(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv4-mapped one stands for; any other address itself.

    >>> unmapped(IPv6Address("::ffff:127.0.0.1")), unmapped(IPv6Address("::1"))
    (IPv4Address('127.0.0.1'), IPv6Address('::1'))
    """
    is_mapped = isinstance(address, IPv6Address) and address in MAPPED
    return IPv4Address(int(address) & _ALL_BITS) if is_mapped else address


def embedded(address: IPAddress) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that packets for an IPv6 address go to: if it is mapped, or one of NAT64, 6to4 or Teredo.

    Those of Teredo name a server and, inverted, a client behind it.

    >>> embedded(IPv6Address("64:ff9b::10.0.0.1")), embedded(IPv6Address("2002:a00:1::1")), embedded(IPv6Address("::1"))
    ((IPv4Address('10.0.0.1'),), (IPv4Address('10.0.0.1'),), ())
    """
    if isinstance(address, IPv4Address):
        return ()
    bits = int(address)
    if address in MAPPED or address in _NAT64:
        return (IPv4Address(bits & _ALL_BITS),)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(bits >> 80 & _ALL_BITS),)
    if address in _TEREDO:
        return (IPv4Address(bits >> 64 & _ALL_BITS), IPv4Address(~bits & _ALL_BITS))
    return ()


def is_on_internet(address: IPAddress) -> bool:
    """True if an address can be reached from anywhere, and leads to no other place than itself.

    >>> [is_on_internet(IPv4Address(text)) for text in ("8.8.8.8", "10.0.0.1", "169.254.169.254")]
    [True, False, False]
    >>> [is_on_internet(IPv6Address(text)) for text in ("2606:4700::1111", "2002:a00:1::1", "fd00::1")]
    [True, False, False]
    """
    if inside := embedded(address):
        return all(map(is_on_internet, inside))
    # Of networks within each other the smallest is the greatest: it begins as late as any, and has the longest mask.
    if isinstance(address, IPv4Address):
        return _IPV4[max(network for network in _IPV4 if address in network)]
    return _IPV6[max(network for network in _IPV6 if address in network)]
