"""Sessions at other brokers: what is taken, once, over crashes and restarts, and what owners are told of troubles."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from bridge import source_topics
from bridge.broker import start_broker
from bridge.connectors import connector_run, mqtt_session
from bridge.connectors.mqtt_session import client_id
from bridge.formats.sparkplug_messages import Payload
from bridge.machine import BackOff
from bridge.messages import LARGEST_PACKET
from bridge.spools.spool import commit
from bridge.transport.address import Address
from dags import Kind
from tests import needs
from tests.authority import Authority
from tests.bridge.connectors.outside_brokers import (
    BOUND,
    PASSWORD,
    USER,
    Site,
    Taking,
    answering,
    mosquitto,
    numbered,
    publish,
    publishing,
    taking,
)
from tests.brokers import KINDS
from tests.integration.tenanted_broker import Visitor

PROTOCOLS = ("5", "3.1.1")


@dataclass(frozen=True)
class Broker:
    """A broker that is not Braid's own."""

    address: Address

    @property
    def port(self) -> int:
        return self.address.port


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff((0.05,)))


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    if request.param == "embedded":
        with start_broker(tmp_path / "broker", {USER: PASSWORD}, kind="embedded") as started:
            yield Broker(started.address(USER))
    else:
        with mosquitto(tmp_path / "broker") as started:
            yield Broker(started.address())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_become_events_with_levels_of_their_topics(broker: Broker, site: Site, protocol: str) -> None:
    """Each once, in their order, and none of another topic; the first level may be a wildcard, too."""
    with taking(site, broker.port, "{place}/+/heat", protocol=protocol) as taken:
        for place in ("north", "south"):
            publish(broker.address, f"{place}/oven/heat", numbered(0, 50))
        publish(broker.address, "north/oven/cold", numbered(0, 1))
        publish(broker.address, "north/oven/heat", [b'{"n": "hot", "place": "east"}', b'{"n": 50, "place": "east"}'])
        events = taken.awaited(101)
    assert [(n, "north") for n in range(51)] == [(event["n"], "north") for event in events if event["place"] == "north"]
    assert list(range(50)) == [event["n"] for event in events if event["place"] == "south"]
    assert ["on north/oven/heat: the field 'n' should be of kind integer"] == [unfit.reason for unfit in taken.unfit]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_edge_node_of_sparkplug_is_asked_for_a_birth_that_was_missed(
    broker: Broker, site: Site, protocol: str
) -> None:
    """At the other broker, and then its data are read by what the birth has said."""
    data = Payload(seq=1, metrics=[{"alias": 1, "double_value": 1.5}]).SerializeToString()
    birth = Payload(seq=0, metrics=[{"name": "speed", "alias": 1, "datatype": 10, "double_value": 2.5}])
    form: dict[str, Any] = {"format": "sparkplug", "protocol": protocol, "fields": {"speed": Kind.FLOAT}}
    with (
        Visitor(broker.address, "spBv1.0/works/NCMD/press") as edge_node,
        taking(site, broker.port, "spBv1.0/works/#", **form) as taken,
    ):
        publish(broker.address, "spBv1.0/works/NDATA/press", [data])
        _, command = edge_node.messages.get(timeout=BOUND)
        assert "Node Control/Rebirth" == Payload.FromString(command).metrics[0].name
        publish(broker.address, "spBv1.0/works/NBIRTH/press", [birth.SerializeToString()])
        publish(broker.address, "spBv1.0/works/NDATA/press", [data])
        assert [2.5, 1.5] == [event["speed"] for event in taken.awaited(2)]
    assert ["on spBv1.0/works/NDATA/press: the metric number 1 is not known"] == [
        unfit.reason.partition(",")[0] for unfit in taken.unfit
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_comes_while_nobody_is_connected_is_taken_later(broker: Broker, site: Site, protocol: str) -> None:
    """In another process of the host too; the broker keeps it."""
    taken = Taking(site, broker.port, "heat", protocol=protocol)
    for start in (0, 100, 200):
        publish(broker.address, "heat", numbered(start, start + 50)) if start else None
        taken.begin()
        publish(broker.address, "heat", numbered(start + 50, start + 100))
        taken.awaited(50 + start)
        taken.end()
    assert list(range(50, 300)) == taken.numbers()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_leaves_for_good_has_the_broker_keep_nothing(broker: Broker, site: Site, protocol: str) -> None:
    """Its session ends, so the next reader begins anew."""
    taken = Taking(site, broker.port, "heat", protocol=protocol)
    taken.begin()
    taken.end()
    assert has_session(broker.address, taken)
    publish(broker.address, "heat", numbered(0, 1))
    taken.begin()
    taken.awaited(1)
    taken.end(for_good=True)
    assert not has_session(broker.address, taken)
    publish(broker.address, "heat", numbered(1, 2))
    taken.begin()
    publish(broker.address, "heat", numbered(2, 3))
    taken.awaited(2)
    taken.end()
    assert ([0, 2], []) == (taken.numbers(), taken.unfit)


def has_session(address: Address, taken: Taking) -> bool:
    """Whether the broker has a session for a stream; looking keeps it."""
    answers: list[bool] = []
    ident = client_id(taken.site.outside.deployment, taken.stream)
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=ident, clean_session=False, protocol=paho.MQTTv311, manual_ack=True
    )
    client.username_pw_set(address.user, address.password)
    client.on_connect = lambda _client, _data, flags, _reason, _properties: answers.append(flags.session_present)
    client.connect(address.host, address.port)
    deadline = time.monotonic() + BOUND
    while not answers and time.monotonic() < deadline:
        client.loop(0.1)
    client.disconnect()
    return answers[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("topic", ["heat/a", "heat/+"])
def test_what_a_topic_retains_is_an_event_once_if_that_is_wanted(
    broker: Broker, site: Site, protocol: str, topic: str
) -> None:
    """At the first subscription; later ones and new connections bring it again, and it is no event any more."""
    for number, at in enumerate(("heat/a", "heat/b")):
        publish(broker.address, at, numbered(number, number + 1), retain=True)
    wanted = {"heat/a": {0}, "heat/+": {0, 1}}[topic]
    for stream, retained, first in (("source/1", False, set()), ("source/2", True, wanted)):
        taken = Taking(site, broker.port, topic, protocol=protocol, retained=retained, stream=stream)
        for number in (10, 11):
            taken.begin()
            publish(broker.address, "heat/a", numbered(number, number + 1))
            taken.until(lambda: number in taken.numbers())  # noqa: B023 - it is called at once
            taken.end()
        assert sorted(first | {10, 11}) == sorted(taken.numbers())


def test_topics_beyond_the_bound_are_rejected(broker: Broker, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that it has had go on; what topics retain counts, if it is events."""
    monkeypatch.setattr(source_topics, "MOST_TOPICS", 3)
    publish(broker.address, "a/0", numbered(0, 1), retain=True)
    with taking(site, broker.port, "a/{b}", retained=True) as taken:
        taken.awaited(1)
        for number in (1, 2, 3, 1, 4, 2):
            publish(broker.address, f"a/{number}", numbered(number, number + 1))
        assert [0, 1, 2, 1, 2] == [event["n"] for event in taken.awaited(5)]
        taken.until(lambda: len(taken.unfit) == 2)
    assert all("takes 3 topics" in unfit.reason for unfit in taken.unfit)


def test_messages_of_qos_0_are_events_too(broker: Broker, site: Site) -> None:
    """They are not acknowledged, and disturb nobody's order."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(USER, PASSWORD)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    with taking(site, broker.port, "heat") as taken:
        for number in range(200):
            client.publish("heat", b'{"n": %d}' % number, qos=number % 2).wait_for_publish(BOUND)
        assert set(range(200)) == {event["n"] for event in taken.awaited(200)}
    client.disconnect()
    client.loop_stop()


def test_many_large_messages_are_never_in_memory_at_once(
    broker: Broker, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has not been read waits at the broker."""
    monkeypatch.setattr(mqtt_session, "_MOST_HELD", 300_000)
    monkeypatch.setattr(mqtt_session, "MOST_SPOOLED", 100_000)
    held: list[int] = []
    was = mqtt_session.MqttSession._on_messages

    def noted(session: Any, messages: Any) -> None:
        was(session, messages)
        held.append(session._held)

    monkeypatch.setattr(mqtt_session.MqttSession, "_on_messages", noted)
    payloads = [b'{"n": %d, "x": "%s"}' % (number, b"x" * 80_000) for number in range(40)]
    with taking(site, broker.port, "heat") as taken:
        publish(broker.address, "heat", payloads)
        assert list(range(40)) == [event["n"] for event in taken.awaited(40)]
    assert max(held) < 500_000


def test_a_full_spool_holds_up_no_other(broker: Broker, site: Site) -> None:
    """Another tenant's source on the same topic takes everything; the full one goes on once it has been read."""
    with (
        taking(site, broker.port, "heat", stream="source/1", most_bytes=20_000) as full,
        taking(site, broker.port, "heat", stream="source/2") as other,
    ):
        commit(full.folder, "reader", 0)
        publish(broker.address, "heat", [b'{"n": %d, "x": "%s"}' % (n, b"x" * 1_000) for n in range(500)])
        assert list(range(500)) == [event["n"] for event in other.awaited(500)]
        assert full.spool is not None
        numbers: list[int] = []
        while len(numbers) < 500:
            full.until(lambda: full.spool is not None and full.spool.end > len(numbers))  # noqa: B023 - it is called at once
            numbers += [event["n"] for event in full.events(len(numbers))]
            commit(full.folder, "reader", len(numbers))
    assert list(range(500)) == numbers


def test_forty_sources_share_a_thread_for_their_connections(broker: Broker, site: Site) -> None:
    """Each takes its own topic, and with the last of them the thread ends."""
    with ExitStack() as closing:
        sources = [
            closing.enter_context(taking(site, broker.port, f"heat/{number}", stream=f"source/{number}", waits=False))
            for number in range(40)
        ]
        for source in sources:
            source.until(lambda: source.run is not None and source.run.has_begun)  # noqa: B023 - it is called at once
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("takes from other brokers") == 1
        with publishing(broker.address) as client:
            for n in range(20):
                for number in range(40):
                    client.publish(f"heat/{number}", b'{"n": %d}' % n)
            for source in sources:
                assert list(range(20)) == [event["n"] for event in source.awaited(20)]
    sources[0].until(lambda: "takes from other brokers" not in [thread.name for thread in threading.enumerate()])


# Crashes.

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.bridge.connectors.outside_brokers import Site, Taking
root, port, protocol, deaths, where = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
taken = Taking(Site(root), port, "heat", protocol=protocol)
was = taken.connect
def connect(positions, in_doubt):
    client = was(positions, in_doubt)
    spooled, take, left = client.spooled, client.take, iter(range(deaths))
    def die():
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    def dying_spooled():
        if where == "before":
            die()
        spooled()
        if where == "after":
            die()
    def dying_take(seconds):
        arrived = take(seconds)
        if arrived is not None and where == "between":
            die()
        return arrived
    client.spooled, client.take = dying_spooled, dying_take
    return client
taken.connect = connect
taken.begin()
taken.run._stopping.wait(60)
"""
"""A host that dies after some groups, between taking and spooling one, or before or after it acknowledges one."""


@pytest.mark.parametrize(
    ("protocol", "where"), [("5", "between"), ("5", "before"), ("5", "after"), ("3.1.1", "before")]
)
def test_what_is_spooled_when_a_host_is_killed_is_not_spooled_again(
    broker: Broker, site: Site, protocol: str, where: str
) -> None:
    """Over MQTT 5. Over 3.1.1 nothing is lost, and what was not acknowledged comes again."""
    taken = Taking(site, broker.port, "heat", protocol=protocol)
    taken.begin()
    taken.end()
    end = 0
    for deaths in (1, 3):
        with publishing(broker.address) as client:
            arguments = [str(site.root), str(broker.port), protocol, str(deaths), where]
            process = subprocess.Popen([sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3])  # noqa: S603 - as it runs here
            while process.poll() is None:
                client.publish("heat", b'{"n": %d}' % end)
                end += 1
                # Mosquitto keeps a thousand messages for who is away.
                time.sleep(0.02)
            assert process.returncode == -signal.SIGKILL
    publish(broker.address, "heat", numbered(end, end + 1))
    taken.begin()
    taken.until(lambda: end in taken.numbers())
    taken.end()
    numbers = taken.numbers()
    if protocol == "5":
        assert list(range(end + 1)) == numbers
    else:
        assert list(range(end + 1)) == sorted(set(numbers))


@pytest.mark.mosquitto
def test_a_broker_that_comes_back_is_connected_to_again(tmp_path: Path, site: Site) -> None:
    """The link says that and why the connection had ended; what the broker kept is taken, and nothing twice."""
    with mosquitto(tmp_path / "broker") as broker, taking(site, broker.port, "heat") as taken:
        publish(broker.address(), "heat", numbered(0, 100))
        taken.awaited(100)
        run = taken.run
        assert run is not None
        since = run.link.since
        for start in (100, 200):
            broker.end()
            taken.until(lambda: not run.link.connected)
            assert f"mqtt://127.0.0.1:{broker.port}" in run.link.error
            broker.start()
            publish(broker.address(), "heat", numbered(start, start + 100))
            assert list(range(start + 100)) == [event["n"] for event in taken.awaited(start + 100)]
        taken.until(lambda: run.link.connected)
        assert run.link.since > since
    assert [] == taken.unfit


@pytest.mark.mosquitto
def test_a_session_that_the_broker_lost_is_reported(tmp_path: Path, site: Site) -> None:
    """What was published meanwhile may be missing, and no doubt of before makes a new message a repetition."""
    with mosquitto(tmp_path / "broker", "persistence false") as broker, taking(site, broker.port, "heat") as taken:
        publish(broker.address(), "heat", numbered(0, 30))
        taken.awaited(30)
        broker.end(kill=True)
        taken.until(lambda: taken.run is not None and not taken.run.link.connected)
        broker.start()
        taken.until(lambda: taken.unfit)
        publish(broker.address(), "heat", numbered(0, 30))
        assert [*range(30), *range(30)] == [event["n"] for event in taken.awaited(60)]
    (lost,) = taken.unfit
    assert "may be missing; have the broker keep sessions" in lost.reason


# Troubles.


def trouble(taken: Taking) -> str:
    """Why it is not connected, once that is known."""
    taken.until(lambda: taken.error)
    return taken.error


def test_a_broker_that_is_not_there_is_reported(site: Site) -> None:
    """With its address; nothing is subscribed to, and it is tried again."""
    with taking(site, 1, "heat", waits=False) as taken:
        assert "no broker answers at mqtt://127.0.0.1:1: [Errno 111] Connection refused" == trouble(taken)
        assert taken.run is not None
        assert not taken.run.has_begun


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mqtt://127.0.0.1", "its host is not on the internet; tasks may connect to it only if an operator lists"),
        ("mqtt://no.such.host.invalid", "its host cannot be found; correct the URL"),
    ],
)
def test_an_address_inside_is_barred(tmp_path: Path, url: str, why: str) -> None:
    """Unless an operator has listed it."""
    with taking(Site(tmp_path, reachable=""), 0, "heat", url=url, waits=False) as taken:
        assert trouble(taken).startswith(f"no connection to the broker at {url}:1883: {why}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_password_is_reported_without_it(broker: Broker, site: Site, protocol: str) -> None:
    """With what to check; once the secret is put again, events come."""
    site.put("broker", f"{USER}:not that")
    with taking(site, broker.port, "heat", protocol=protocol, waits=False) as taken:
        assert f"the broker at mqtt://127.0.0.1:{broker.port} refused the connection: " in trouble(taken)
        assert taken.error.endswith("; check the user and the password")
        assert "not that" not in taken.error
        site.put("broker", f"{USER}:{PASSWORD}")
        taken.until(lambda: taken.run is not None and taken.run.link.connected)


def test_a_secret_that_is_missing_or_no_login_is_reported(broker: Broker, site: Site) -> None:
    """Each with what to do."""
    for name, secret, why in (
        ("none", "", "'ann' has no secret 'none'; put it with `braid secrets put none`"),
        ("word", "word", "the secret 'word' is neither user:password nor a certificate with its key; put it again"),
        ("cert", "-----BEGIN X", "the secret 'cert' holds a certificate, which is for TLS; write mqtts:// in the URL"),
    ):
        if secret:
            site.put(name, secret)
        with taking(site, broker.port, "heat", secret={"secret": name}, stream=name, waits=False) as taken:
            assert why == trouble(taken)
    with taking(site, broker.port, "heat", secret=None, waits=False) as taken:
        assert trouble(taken).endswith("as `secret`")


def test_a_topic_that_the_user_may_not_read_is_reported(site: Site) -> None:
    """By its filter; here a broker refuses the subscription."""
    with (
        answering(b"\x20\x03\x00\x00\x00", b"\x90\x04\x00\x01\x00\x87", then_closes=False) as port,
        taking(site, port, "heat/{n}", waits=False) as taken,
    ):
        assert (
            f"the broker at mqtt://127.0.0.1:{port} refused the subscription to 'heat/+': Not authorized; have it let "
            "the user read this topic"
        ) == trouble(taken)


@pytest.mark.parametrize(
    ("protocol", "answer", "why"),
    [
        ("5", b"\x20\x03\x00\x84\x00", "refused the connection: Unsupported protocol version; set `protocol` to 3.1.1"),
        ("5", b"\x20\x02\x00\x01", "refused the connection: Unsupported protocol version; set `protocol` to 3.1.1"),
        ("3.1.1", b"\x20\x02\x00\x01", "see whether it speaks MQTT 3.1.1"),
        ("5", b"HTTP/1.1 400 Bad Request\r\n\r\n", "see whether it speaks MQTT 5"),
        ("5", b"", "see whether it speaks MQTT 5"),
        ("3.1.1", b"\x20\x02\x00", "see whether it speaks MQTT 3.1.1"),
        ("5", b"\xff\xff\xff\xff\xff\xff", "see whether it speaks MQTT 5"),
    ],
)
def test_answers_that_are_no_welcome_are_reported(site: Site, protocol: str, answer: bytes, why: str) -> None:
    """Another version, another protocol, half an answer, or none."""
    with answering(answer) as port, taking(site, port, "heat", protocol=protocol, waits=False) as taken:
        assert why in trouble(taken)


def test_a_server_that_says_nothing_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and nothing waits for it longer than that."""
    monkeypatch.setattr(mqtt_session, "_ANSWERING", 0.3)
    with answering(b"", then_closes=False) as port, taking(site, port, "heat", waits=False) as taken:
        assert trouble(taken).endswith("does not answer; see whether it speaks MQTT 5")


def test_a_message_that_fills_the_memory_is_not_read(site: Site) -> None:
    """A hostile broker may announce a quarter of a gigabyte."""
    huge = b"\x32\xff\xff\xff\x7f\x00\x04heat" + b"x" * 8_000_000
    with (
        answering(b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x01" + huge, then_closes=False) as port,
        taking(site, port, "heat", protocol="3.1.1", waits=False) as taken,
    ):
        assert f"sends a message of 268,435,455 bytes, and one may have {LARGEST_PACKET:,}" in trouble(taken)


def test_messages_that_would_be_kept_for_ever_are_not_read(site: Site) -> None:
    """With QoS 2 the library would keep them until a hostile broker released them."""
    message = b"\x34\x0f\x00\x04heat\x00\x01" + b'{"n":1}'
    with (
        answering(b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x01" + message, then_closes=False) as port,
        taking(site, port, "heat", protocol="3.1.1", waits=False) as taken,
    ):
        assert trouble(taken).endswith("it sends a message with QoS 2, although QoS 1 was asked for")


def test_messages_of_other_topics_are_not_events(site: Site) -> None:
    """Whatever a broker sends."""
    message = b"\x30\x0d\x00\x04cold" + b'{"n":1}'
    mine = b"\x30\x0d\x00\x04heat" + b'{"n":2}'
    with (
        answering(b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x01" + message + mine, then_closes=False) as port,
        taking(site, port, "heat", protocol="3.1.1", waits=False) as taken,
    ):
        assert [{"n": 2}] == taken.awaited(1)


# TLS.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The one that signs what brokers and clients show."""
    needs.mosquitto()
    needs.openssl()
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def tls(authority: Authority, *subjects: str) -> list[str]:
    certificate, key = authority.certify(f"for {'-'.join(subjects)}".replace(":", "-"), *subjects)
    return [f"cafile {authority.certificate}", f"certfile {certificate}", f"keyfile {key}"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_broker_is_trusted_by_the_certificates_that_the_form_has(
    tmp_path: Path, site: Site, authority: Authority, protocol: str, host: str
) -> None:
    """The name is checked, although the connection is made to the address that was looked up."""
    ca = authority.certificate.read_text()
    lines = tls(authority, "DNS:localhost", "IP:127.0.0.1")
    with mosquitto(tmp_path / "broker", *lines) as broker:
        url = f"mqtts://{host}:{broker.port}"
        with taking(site, broker.port, "heat", url=url, ca=ca, protocol=protocol) as taken:
            shows_itself(taken, url)


def shows_itself(taken: Taking, url: str) -> None:
    """A client that this stream's own settings make publishes, and the stream has it."""
    route = mqtt_session._route(resolved(taken), taken.site.outside)
    client = mqtt_session._Questioner(route, client_id="publishes", protocol=paho.MQTTv5)
    client.connect(route.address.host, route.address.port)
    client.loop_start()
    client.publish("heat", b'{"n": 1}', qos=1).wait_for_publish(BOUND)
    client.disconnect()
    client.loop_stop()
    assert [{"n": 1}] == taken.awaited(1), url


def resolved(taken: Taking) -> Any:
    text = taken.connector.model_dump_json(context={"owner": "ann"})
    return type(taken.connector).model_validate_json(text, context={"outside": taken.site.outside})


def test_a_broker_that_is_not_trusted_is_reported(tmp_path: Path, site: Site, authority: Authority) -> None:
    """An authority that is unknown or another one, a certificate for another host, and a port without TLS."""
    other = Authority(tmp_path / "other").certificate.read_text()
    ca = authority.certificate.read_text()
    with mosquitto(tmp_path / "broker", *tls(authority, "DNS:broker.example")) as broker:
        url = f"mqtts://localhost:{broker.port}"
        for given, why in (
            ({}, "; give the certificate of its authority as `ca`"),
            ({"ca": other}, "; correct `ca`, which is to hold the certificate of its authority"),
            ({"ca": ca}, "; connect by a name that is in it"),
            ({"ca": "-----BEGIN CERTIFICATE-----\nnone"}, "; give certificates in PEM"),
        ):
            with taking(site, 0, "heat", url=url, stream=why, waits=False, **given) as taken:
                assert trouble(taken).endswith(why)
    with (
        mosquitto(tmp_path / "plain") as broker,
        taking(site, 0, "heat", url=f"mqtts://localhost:{broker.port}", ca=ca, waits=False) as taken,
    ):
        assert trouble(taken).endswith("; see whether this is its port for TLS")


def test_a_client_shows_its_certificate(tmp_path: Path, site: Site, authority: Authority) -> None:
    """The secret holds it with its key. Who has none is refused, and told so; a broken one is not repeated."""
    ca = authority.certificate.read_text()
    certificate, key = authority.certify("ann", "DNS:ann")
    site.put("identity", key.read_text() + certificate.read_text())
    site.put("broken", f"-----BEGIN CERTIFICATE-----\n{key.read_text()[40:80]}")
    lines = [*tls(authority, "DNS:localhost"), "require_certificate true", "use_identity_as_username true"]
    with mosquitto(tmp_path / "broker", *lines) as broker:
        url = f"mqtts://localhost:{broker.port}"
        with taking(site, 0, "heat", url=url, ca=ca, secret={"secret": "identity"}) as taken:
            shows_itself(taken, url)
        with taking(site, 0, "heat", url=url, ca=ca, waits=False, stream="source/2") as taken:
            assert f"the broker at {url} ended the connection" in trouble(taken)
        with taking(site, 0, "heat", url=url, ca=ca, secret={"secret": "broken"}, waits=False) as taken:
            assert "the secret 'broken' holds no certificate with its key, unencrypted and in PEM" in trouble(taken)
            assert key.read_text()[40:80] not in taken.error
