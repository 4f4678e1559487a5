"""Addresses of the internet: the same judgement and spelling on every Python."""

import json
import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dags.internet_addresses
from dags.internet_addresses import embedded, is_on_internet, spelling, unmapped

ROOT = Path(__file__).parents[2]
_EDGES = """
0.255.255.255 1.0.0.0 9.255.255.255 10.255.255.255 11.0.0.0 100.63.255.255 100.64.0.0 100.127.255.255 100.128.0.0
126.255.255.255 127.255.255.255 128.0.0.0 169.253.255.255 169.254.255.255 169.255.0.0 172.15.255.255 172.31.255.255
172.32.0.0 191.255.255.255 192.0.0.8 192.0.0.11 192.0.1.0 192.0.2.255 192.0.3.0 192.88.98.255 192.88.100.0
192.167.255.255 192.169.0.0 198.17.255.255 198.19.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255
203.0.114.0 223.255.255.255 239.255.255.255 255.255.255.255
1fff:ffff:: 2000:: 2001:1ff:ffff:: 2001:200:: 2001:db7:ffff:: 2001:db9:: 3ffe:: 3fff:fff:ffff:: 3fff:1000:: 4000::
fbff:: fdff:: fe7f:: febf:: fec0:: ff02::1
"""
ANY = st.ip_addresses() | st.sampled_from(_EDGES.split()).map(ip_address)

GLOBAL = """
8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.0 169.253.0.1 172.15.255.255 172.32.0.0
192.0.0.9 192.0.0.10 192.0.1.1 192.31.196.1 192.52.193.1 192.175.48.1 198.17.255.255 198.20.0.0 223.255.255.255
2606:4700::1111 2000:: 2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1 2001:20::1 2001:3f:ffff:: 2001:200::
2001:db9:: 2620:4f:8000::1 3ffe:ffff:: 3fff:1000::
::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2001:0:808:808::f7f7:f7f7
"""
OTHER = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1
192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 192.88.99.2 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::8.8.8.8 64:ff9b:1::1 64:ff9b:1::808:808 100::1 100:0:0:1::1 2001:1:: 2001:1::4 2001:2::1
2001:10::1 2001:1f:ffff:: 2001:40:: 2001:1ff:ffff:: 2001:db8::1 3fff::1 3fff:fff:: 4000:: 5f00::1 fc00::1 fd00::1
fe80::1 fec0::1 ff02::1 ff0e::1
::ffff:10.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::169.254.169.254 2002:7f00:1::1 2002:c058:6301:: 2001:0:808:808::f5ff:fffe
2001:0:a00:1::f7f7:f7f7
"""
TABLE = [(text, True) for text in GLOBAL.split()] + [(text, False) for text in OTHER.split()]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_the_internet_is_what_the_registries_say(text: str, expected: bool) -> None:  # noqa: FBT001 - it is a column of the table
    """At both ends of every block, and by the addresses inside where there are any."""
    assert expected is is_on_internet(ip_address(text))


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_decides(inner: IPv4Address) -> None:
    """Whichever way it is put in; of Teredo's two both do."""
    bits, public = int(inner), 0x08080808
    for address in (
        IPv6Address(0xFFFF << 32 | bits),
        IPv6Address(0x0064_FF9B << 96 | bits),
        IPv6Address(0x2002 << 112 | bits << 80 | 1),
        IPv6Address(0x2001_0000 << 96 | bits << 64 | public ^ 0xFFFFFFFF),
        IPv6Address(0x2001_0000 << 96 | public << 64 | bits ^ 0xFFFFFFFF),
    ):
        assert inner in embedded(address)
        assert is_on_internet(inner) is is_on_internet(address)


@given(ANY)
def test_a_spelling_is_read_as_the_same_address(address: IPv4Address | IPv6Address) -> None:
    """So no two addresses share one."""
    assert address == ip_address(spelling(address))


@given(st.ip_addresses(v=4))
def test_a_mapped_address_stands_for_another(inner: IPv4Address) -> None:
    """And no other address does."""
    assert inner == unmapped(IPv6Address(0xFFFF << 32 | int(inner)))
    for address in (inner, IPv6Address(int(inner)), IPv6Address(0x0064_FF9B << 96 | int(inner))):
        assert address == unmapped(address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::FFFF:127.0.0.1", "::ffff:7f00:1"),
        ("::ffff:0.0.0.0", "::ffff:0:0"),
        ("0:0::ffff:a00:1", "::ffff:a00:1"),
        ("::127.0.0.1", "::7f00:1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_an_address_has_one_spelling(text: str, expected: str) -> None:
    """The one that signatures and published modules have always held."""
    assert expected == spelling(ip_address(text))


def test_every_python_here_agrees() -> None:
    """Each that Braid supports reads the module by itself, and says the same of the table and its edges."""
    code = (
        "import ipaddress, json, runpy, sys; names = runpy.run_path(sys.argv[1]); "
        "print(json.dumps([[names['is_on_internet'](address), names['spelling'](address)]"
        " for address in map(ipaddress.ip_address, sys.argv[2:])]))"
    )
    words = [text for text, _ in TABLE] + _EDGES.split()
    pythons = subprocess.run([ROOT / ".ci/pythons"], check=True, capture_output=True, text=True)  # noqa: S603 - ours
    answers = {
        python: subprocess.run(  # noqa: S603 - Pythons of this machine
            [python, "-I", "-c", code, dags.internet_addresses.__file__, *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for python in [sys.executable, *(line.partition(" ")[2] for line in pythons.stdout.splitlines())]
    }
    expected = [[is_on_internet(address), spelling(address)] for address in map(ip_address, words)]
    assert dict.fromkeys(answers, expected) == {python: json.loads(answer) for python, answer in answers.items()}
