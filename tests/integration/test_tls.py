"""TLS: a broker whose certificate the system trusts is used, and no other; a service has one for all its callers."""

import gc
import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from braid_client.answers.tenants import KeyForm, TenantForm
from bridge import Message, broker_setup
from bridge.broker import start_broker
from bridge.embedded import hashed
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.transport.probes import detect_protocol, watch_drops
from tests import needs
from tests.authority import Authority
from tests.integration.serving import BRAID, Served, passing, serving, street
from tests.integration.tenanted_broker import Visitor
from tests.integration.tenanted_broker import refusal as broker_refusal

pytestmark = pytest.mark.mosquitto

PASSWORD = "b%d @ pässw/rd"  # noqa: S105 - of brokers that live as long as a test
BOUND = 30.0
SOON = 2.0
"""Seconds after which a broker that lets nobody in is given up."""
PORTS = range(20_000, 32_768)
"""Below those that systems hand out by themselves."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The one that signed what the brokers here show."""
    # Before its tests are asked what they need.
    needs.mosquitto()
    needs.openssl()
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def address(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A mosquitto that speaks TLS, and shows a certificate for this machine."""
    certified = authority.certify("here", "IP:127.0.0.1", "DNS:localhost")
    with mosquitto(tmp_path_factory.mktemp("broker"), authority, *certified) as port:
        yield Address(host="127.0.0.1", port=port, user="anna", password=PASSWORD, tls=True)


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts the authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))


@contextmanager
def mosquitto(folder: Path, authority: Authority, certificate: Path, key: Path) -> Iterator[int]:
    """A mosquitto that speaks TLS only; its port."""
    program = broker_setup.mosquitto_program()
    assert program is not None
    (folder / "passwords").write_text(f"anna:{hashed(PASSWORD)}\n")
    port = next(filter(is_free, random.sample(PORTS, 50)))
    lines = [
        f"listener {port} 127.0.0.1",
        f"cafile {authority.certificate}",
        f"certfile {certificate}",
        f"keyfile {key}",
        "allow_anonymous false",
        f"password_file {folder / 'passwords'}",
        "sys_interval 1",
        # Started by root it would become another user, who may not read the key.
        "user root",
    ]
    (folder / "mosquitto.conf").write_text("\n".join([*lines, ""]))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(folder / "mosquitto.conf")], stdout=log, stderr=log)  # noqa: S603 - as installed
    try:
        await_tls(port, authority, (folder / "log").read_text)
        yield port
    finally:
        process.terminate()
        process.wait(BOUND)


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def await_tls(port: int, authority: Authority, output: Callable[[], str]) -> None:
    """Wait until somebody there shows a certificate of the authority."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    deadline, pause = time.monotonic() + BOUND, threading.Event()
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1.0) as plain, context.wrap_socket(plain):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                pytest.fail(f"mosquitto did not come up: {error}; it wrote: {output()}")
        pause.wait(0.02)


def refusals(address: Address) -> list[str]:
    """What a client and a watch say that are not let in."""
    client = MqttClient(address, "refused")
    with warnings.catch_warnings():
        # paho leaves the socket of a handshake that failed to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        said = [
            refusal(lambda: client.start(timeout=SOON), address),
            refusal(lambda: watch_drops(address, lambda _count: None, timeout=SOON), address),
        ]
        gc.collect()
    return said


def refusal(connect: Callable[[], object], address: Address) -> str:
    """What somebody says who is not let in; the password is in none of it, not even in the traceback."""
    with pytest.raises(ConnectionError) as caught:
        connect()
    trace = "".join(traceback.format_exception(caught.value))
    for secret in (PASSWORD, quote(PASSWORD, safe=""), str(address.password)):
        assert secret not in trace
    return str(caught.value)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_trusted_broker_is_used(address: Address, host: str) -> None:
    """A client named by its mqtts:// URL subscribes, publishes, and receives what it published."""
    heard: list[bytes] = []
    came = threading.Event()

    def hear(message: Message) -> None:
        heard.append(message.payload)
        came.set()

    there = Address.parse(replace(address, host=host).url)
    client = MqttClient(there, f"speaks to {host}", topics=["said"], on_message=hear, protocol=detect_protocol(there))
    client.start()
    try:
        client.publish("said", b"something")
        assert came.wait(BOUND)
    finally:
        client.stop()
    assert [b"something"] == heard


@pytest.mark.usefixtures("trusted")
def test_drops_of_a_trusted_broker_are_watched(address: Address) -> None:
    """The watch on dropped messages connects over TLS too."""
    watch_drops(address, lambda _count: None).stop()


def test_an_authority_that_the_system_does_not_trust_is_refused(
    address: Address, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message says so, with what to do; nothing was sent to the server with the certificate."""
    stranger = Authority(authority.folder / "stranger")
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger.certificate))
    for said in refusals(address):
        assert said.startswith(f"the certificate of the broker at {address} is not trusted: ")
        assert said.endswith("have the system trust its authority, or name the authority's file in SSL_CERT_FILE")


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_host_is_refused(authority: Authority, tmp_path: Path) -> None:
    """Even with a trusted authority it is not that of the broker; the message says which name is wanted."""
    with mosquitto(tmp_path, authority, *authority.certify("elsewhere", "DNS:broker.example")) as port:
        address = Address(host="127.0.0.1", port=port, user="anna", password=PASSWORD, tls=True)
        for said in refusals(address):
            assert said.startswith(f"the certificate of the broker at {address} is not trusted: ")
            assert "not valid for '127.0.0.1'; connect by a name that is in it" in said


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_is_refused(address: Address) -> None:
    """The broker's refusal is reported, with what to check, but without the refused password."""
    wrong = replace(address, password=f"{PASSWORD} not")
    reason = "Not authorized; check the user and the password"
    assert [
        f"the broker at {address} refused the client: {reason}",
        f"the broker at {address} refused to report drops: {reason}",
    ] == refusals(wrong)


@pytest.mark.usefixtures("trusted")
def test_a_refused_client_does_not_wait(address: Address) -> None:
    """A wrong password is reported as soon as the broker has refused it, even with a long timeout."""
    client = MqttClient(replace(address, password=f"{PASSWORD} not"), "waits")
    with ThreadPoolExecutor(1) as threads:
        refused = threads.submit(client.start, timeout=4 * BOUND)
        error = refused.exception(timeout=BOUND)
    assert isinstance(error, NotConnected)


def test_a_port_without_tls_is_reported(tmp_path: Path) -> None:
    """A URL with mqtts:// for a port without TLS fails at once, with that reason."""
    with start_broker(tmp_path, {"anna": PASSWORD}, kind="mosquitto") as plain:
        address = replace(plain.address("anna"), tls=True)
        for said in refusals(address):
            assert said.startswith(f"no TLS with the broker at {address}: ")
            assert said.endswith("; see whether this is its port for TLS")


def serial(address: Address) -> object:
    """The number of the certificate that somebody shows whom the system trusts."""
    plain = socket.create_connection((address.host, address.port), BOUND)
    with ssl.create_default_context().wrap_socket(plain, server_hostname=address.host) as connection:
        return (connection.getpeercert() or {})["serialNumber"]


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.usefixtures("trusted")
def test_a_service_is_used_over_tls_while_it_gets_a_new_certificate(authority: Authority, tmp_path: Path) -> None:
    """A submission comes by https, events in and out by the broker's entrance, before and after, without a restart."""
    certificate, key = authority.certify("service", "IP:127.0.0.1")
    settings = {"BRAID_CERTIFICATE": str(certificate), "BRAID_CERTIFICATE_KEY": str(key)}
    with serving(Served(tmp_path, pace=0.2, settings=settings)) as served, served.client() as operator:
        operator.admit(TenantForm(name="ann"))
        ann = operator.make_key(KeyForm(tenant="ann")).key
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "SSL_"))}
        caller = {"BRAID_URL": served.url, "BRAID_KEY": ann, "BRAID_CA": str(authority.certificate)}

        def braid(*words: str, given: str = "") -> str:
            return subprocess.run(  # noqa: S603 - our own command
                [BRAID, *words], input=given, env={**others, **caller}, capture_output=True, text=True, check=True
            ).stdout

        with served.client(ann) as client:
            client.register_source(street())
        submitted = braid("submit", "-", "--wait", "--quiet", given=json.dumps(passing("street", 1_000))).strip()
        login = operator.make_credentials("ann")
        entrance = replace(Address.parse(login.url), user=login.user, password=login.password)
        assert entrance.tls
        served.until(lambda: broker_refusal(entrance) is None, "the broker to know ann")
        output = f"braid/1/out/ann/{submitted}/out"

        def passes(device: Visitor, number: int) -> None:
            assert "Success" == device.publish("city/street", json.dumps({"n": number, "k": "a"}).encode())
            topic, payload = device.messages.get(timeout=BOUND)
            assert (output, [{"n": number, "k": "a"}]) == (topic, json.loads(payload)["events"])

        shown = [Address.parse(served.url.replace("https", "mqtts")), entrance]
        before = [*map(serial, shown)]
        with Visitor(entrance, output) as device:
            passes(device, 1)
            authority.certify("service", "IP:127.0.0.1")
            served.until(lambda: not {*before} & {*map(serial, shown)}, "both to show the new certificate")
            passes(device, 2)
        with Visitor(entrance, output) as device:
            passes(device, 3)
        assert submitted in braid("list")
