"""The behaviour that Braid and its tenants expect of any broker, and where the embedded one differs.

Each test runs at the listener of Braid's own user, and again at the entrance, as a user with all rights.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge import broker_setup
from bridge.broker import Broker, start_broker
from bridge.broker_setup import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed
from bridge.transport.address import Address
from tests import needs
from tests.bridge.embedded.visitor import BOUND, V5, V311, Visitor
from tests.brokers import KINDS

PROTOCOLS = pytest.mark.parametrize("protocol", [V5, V311], ids=["5", "3.1.1"])
USERS = {"braid": "a secret"}
RIGHTS = "user braid\ntopic readwrite #\ntopic readwrite $SYS/#\n"


@pytest.fixture(scope="module", params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests, so names and topics are each test's own."""
    if request.param == "mosquitto":
        # Before its tests are asked what they need.
        needs.mosquitto()
    folder = tmp_path_factory.mktemp("broker")
    (folder / PASSWORDS).write_text("".join(f"{user}:{hashed(password)}\n" for user, password in USERS.items()))
    (folder / ACCESS_LIST).write_text(RIGHTS)
    with start_broker(folder / "broker", USERS, entrance=Entrance(folder=folder), kind=request.param) as started:
        yield started


@pytest.fixture(params=["listener", "entrance"])
def own(broker: Broker, request: pytest.FixtureRequest, protocol: MQTTProtocolVersion) -> tuple[Address, str]:
    """Braid's address, and a prefix for names and topics that no other test uses."""
    address = broker.address("braid")
    if request.param == "entrance":
        assert broker.entrance is not None
        address = replace(address, host=broker.entrance.host, port=broker.entrance.port)
    return address, f"{request.node.originalname}-{int(protocol)}-{request.param}"


@PROTOCOLS
def test_retained_messages_come_to_new_subscribers(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A new subscription gets the retained messages of its topics, marked as such, and no others; wildcards count."""
    address, here = own
    with Visitor(address, protocol=protocol) as sender:
        for topic in ("a", "a/b", "a/b/c", "x"):
            sender.publish(f"{here}/{topic}", topic.encode(), retain=True)
        sender.publish(f"{here}/x", b"", retain=True)
        for wanted, expected in [
            (f"{here}/a", {b"a"}),
            (f"{here}/a/+", {b"a/b"}),
            (f"{here}/a/#", {b"a", b"a/b", b"a/b/c"}),
            (f"{here}/+", {b"a"}),
            (f"{here}/x", set()),
        ]:
            with Visitor(address, f"{here}/end", wanted, protocol=protocol) as reader:
                sender.publish(f"{here}/end", b"end")
                came = reader.until(b"end")
            assert expected == {bytes(each.payload) for each in came}
            assert all(each.retain for each in came)


@PROTOCOLS
def test_a_resumed_session_gets_no_retained_messages_again(
    own: tuple[Address, str], protocol: MQTTProtocolVersion
) -> None:
    """A client that comes back gets what it missed, not marked as retained, and nothing of other topics."""
    address, here = own
    with Visitor(address, protocol=protocol) as sender:
        sender.publish(f"{here}/other", b"retained", retain=True)
        with Visitor(address, f"{here}/mine", protocol=protocol, name=here, lasting=True):
            pass
        sender.publish(f"{here}/mine", b"one", retain=True)
        with Visitor(address, protocol=protocol, name=here, lasting=True) as reader:
            sender.publish(f"{here}/mine", b"end")
            assert [(b"one", False)] == [(each.payload, each.retain) for each in reader.until(b"end")]
            assert reader.resumed


@PROTOCOLS
def test_a_leading_wildcard_does_not_match_the_brokers_topics(
    own: tuple[Address, str], protocol: MQTTProtocolVersion
) -> None:
    """`#` and `+/...` match nothing below $SYS; only a filter that names it does."""
    address, here = own
    with (
        Visitor(address, "#", "+/broker/uptime", protocol=protocol) as everything,
        Visitor(address, "$SYS/broker/uptime", protocol=protocol) as uptime,
    ):
        uptime.take(2)
        everything.publish(f"{here}/end", b"end")
        assert [] == [each.topic for each in everything.until(b"end") if each.topic.startswith("$")]


@PROTOCOLS
def test_unacknowledged_messages_come_again(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """After a reconnect, unacknowledged messages come first, in order, marked as repeated; then new ones."""
    address, here = own
    with Visitor(address, protocol=protocol) as sender:
        first = Visitor(address, here, protocol=protocol, name=here, lasting=True, acknowledges=False)
        sender.publish(here, *(str(number).encode() for number in range(50)))
        assert 50 == len(first.take(50))
        first.die()
        sender.publish(here, *(str(number).encode() for number in range(50, 60)))
        with Visitor(address, protocol=protocol, name=here, lasting=True) as second:
            came = [second.messages.get(timeout=BOUND) for _ in range(60)]
    assert list(range(60)) == [int(each.payload) for each in came]
    assert [True] * 50 == [each.dup for each in came[:50]]


@PROTOCOLS
def test_an_absent_client_gets_all_in_order(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """Thousands of messages wait for a client that is away."""
    address, here = own
    with Visitor(address, here, protocol=protocol, name=here, lasting=True):
        pass
    with Visitor(address, protocol=protocol) as sender:
        sender.publish(here, *(str(number).encode() for number in range(3_000)))
    with Visitor(address, protocol=protocol, name=here, lasting=True) as reader:
        assert list(range(3_000)) == [int(each) for each in reader.take(3_000)]


@PROTOCOLS
def test_a_clean_start_forgets(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A client that discards its old session gets nothing of it, nor of its subscriptions."""
    address, here = own
    with Visitor(address, here, protocol=protocol, name=here, lasting=True):
        pass
    with Visitor(address, protocol=protocol) as sender:
        sender.publish(here, b"kept")
        with Visitor(address, f"{here}/end", protocol=protocol, name=here) as reader:
            assert not reader.resumed
            sender.publish(here, b"not subscribed")
            sender.publish(f"{here}/end", b"end")
            assert [] == reader.until(b"end")


@PROTOCOLS
def test_a_second_connection_takes_the_place_of_the_first(
    own: tuple[Address, str], protocol: MQTTProtocolVersion
) -> None:
    """The same client from elsewhere closes the first connection, and resumes its session."""
    address, here = own
    with (
        Visitor(address, here, protocol=protocol, name=here, lasting=True) as first,
        Visitor(address, protocol=protocol, name=here, lasting=True) as second,
    ):
        assert first.left.wait(BOUND)
        assert second.resumed
        second.publish(here, b"here")
        assert [b"here"] == second.take(1)


@PROTOCOLS
def test_a_will_is_published_for_a_client_that_vanishes(
    own: tuple[Address, str], protocol: MQTTProtocolVersion
) -> None:
    """A client that disconnects properly leaves no will."""
    address, here = own
    with Visitor(address, f"{here}/#", protocol=protocol) as reader:
        with Visitor(address, protocol=protocol, will=f"{here}/polite"):
            pass
        Visitor(address, protocol=protocol, will=f"{here}/dead").die()
        assert f"{here}/dead" == reader.messages.get(timeout=BOUND).topic


@PROTOCOLS
def test_large_messages_arrive(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A few megabytes pass whole, at once and from the queue of an absent client."""
    address, here = own
    large = [bytes([number]) * 3_000_000 for number in range(4)]
    with Visitor(address, here, protocol=protocol, name=here, lasting=True):
        pass
    with Visitor(address, protocol=protocol) as sender:
        sender.publish(here, *large[:2])
        with Visitor(address, protocol=protocol, name=here, lasting=True) as reader:
            sender.publish(here, *large[2:])
            assert large == reader.take(4)


@PROTOCOLS
def test_a_client_that_does_not_read_holds_up_no_other(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """While one subscriber reads nothing the others get everything; later it gets everything too, in order."""
    address, here = own
    many, body = 400, b"x" * 100_000
    entered, goes_on = threading.Event(), threading.Event()

    def take_slowly(_client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        entered.set()
        goes_on.wait(BOUND)
        slow.messages.put(message)

    with (
        Visitor(address, here, protocol=protocol) as slow,
        Visitor(address, here, protocol=protocol) as quick,
        Visitor(address, protocol=protocol) as sender,
    ):
        slow.client.on_message = take_slowly
        sender.publish(here, *(f"{number} ".encode() + body for number in range(many)))
        assert list(range(many)) == [int(each.split(b" ")[0]) for each in quick.take(many)]
        assert entered.wait(BOUND)
        goes_on.set()
        assert list(range(many)) == [int(each.split(b" ")[0]) for each in slow.take(many)]


@PROTOCOLS
def test_a_message_has_the_lower_of_both_qos(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A message that is published at QoS 0 arrives at QoS 0; at QoS 2 it arrives once."""
    address, here = own
    with Visitor(address, here, protocol=protocol) as both:
        both.publish(here, b"0", qos=0)
        both.publish(here, b"1", qos=1)
        both.publish(here, b"2", qos=2)
        both.publish(here, b"end")
        assert [(b"0", 0), (b"1", 1), (b"2", 1)] == [(each.payload, each.qos) for each in both.until(b"end")]


@PROTOCOLS
def test_overlapping_subscriptions_give_one_message_or_one_each(
    own: tuple[Address, str], protocol: MQTTProtocolVersion
) -> None:
    """Ending one of them does not end the other."""
    address, here = own
    with Visitor(address, f"{here}/#", f"{here}/a", protocol=protocol) as both:
        both.client.unsubscribe(f"{here}/#")
        # Packets are worked off in order, so that this one comes once the subscription has ended.
        both.publish(f"{here}/a", b"one")
        both.publish(f"{here}/a", b"end")
        assert [b"one"] == [each.payload for each in both.until(b"end")]


@pytest.mark.parametrize("protocol", [V5], ids=["5"])
def test_a_reader_limits_its_unacknowledged_messages(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """With MQTT 5 no more than the requested number waits to be acknowledged; all come in the end."""
    address, here = own
    with (
        Visitor(address, here, protocol=protocol, acknowledges=False, ReceiveMaximum=3) as reader,
        Visitor(address, f"{here}/end", protocol=protocol) as sender,
    ):
        sender.publish(here, *(str(number).encode() for number in range(10)))
        came = []
        for _ in range(10):
            message = reader.messages.get(timeout=BOUND)
            came.append(int(message.payload))
            if len(came) == 3:
                # Everything that the broker had to send before this has been sent.
                sender.publish(f"{here}/end", b"end")
                sender.until(b"end")
                assert reader.messages.empty()
            if len(came) >= 3:
                reader.client.ack(came[-3] + 1, 1)
    assert list(range(10)) == came


@pytest.mark.parametrize("protocol", [V5], ids=["5"])
def test_properties_of_mqtt_5_are_handed_on(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """Properties arrive; a reader of MQTT 3.1.1 gets the message without them."""
    address, here = own
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho ships it without types
    properties.ContentType = "text"
    properties.UserProperty = ("a", "b")
    properties.MessageExpiryInterval = 100
    with (
        Visitor(address, here, protocol=protocol) as new,
        Visitor(address, here, protocol=V311) as old,
        Visitor(address, protocol=protocol) as sender,
    ):
        sender.publish(here, b"one", properties=properties)
        came = new.messages.get(timeout=BOUND)
        assert ("text", [("a", "b")]) == (came.properties.ContentType, came.properties.UserProperty)  # type: ignore[union-attr]  # they are there
        assert came.properties.MessageExpiryInterval in {99, 100}  # type: ignore[union-attr]  # as above
        assert [b"one"] == old.take(1)


@pytest.mark.parametrize("protocol", [V5], ids=["5"])
def test_a_will_may_be_delayed(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A delayed will is published when the session ends, and not if the client is back before."""
    address, here = own
    with Visitor(address, f"{here}/#", protocol=protocol) as reader:
        for name, lasts in (("back", 3_600), ("gone", 1)):
            Visitor(
                address,
                protocol=protocol,
                name=f"{here}-{name}",
                lasting=True,
                will=f"{here}/{name}",
                delay=3_000,
                SessionExpiryInterval=lasts,
            ).die()
        with Visitor(address, protocol=protocol, name=f"{here}-back", lasting=True) as back:
            assert f"{here}/gone" == reader.messages.get(timeout=BOUND).topic
            assert back.resumed
        assert reader.messages.empty()


@pytest.mark.parametrize("protocol", [V5], ids=["5"])
def test_a_subscription_may_exclude_messages(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """MQTT 5 lets a client exclude its own messages and retained ones, and keep the retain flag."""
    address, here = own
    with Visitor(address, protocol=protocol) as both, Visitor(address, protocol=protocol) as other:
        other.publish(f"{here}/kept", b"retained", retain=True)
        both.subscribe(f"{here}/#", noLocal=True, retainAsPublished=True, retainHandling=2)
        both.publish(f"{here}/own", b"own")
        other.publish(f"{here}/new", b"new", retain=True)
        other.publish(f"{here}/end", b"end")
        assert [(b"new", True)] == [(each.payload, each.retain) for each in both.until(b"end")]


@pytest.mark.parametrize("protocol", [V5], ids=["5"])
def test_expired_messages_do_not_come(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A message that expires within a second is gone for a later subscriber; others are not."""
    address, here = own
    with Visitor(address, here, protocol=protocol, name=here, lasting=True):
        pass
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho ships it without types
    properties.MessageExpiryInterval = 1
    with Visitor(address, "$SYS/broker/uptime", protocol=protocol) as sender:
        sender.publish(here, b"soon", properties=properties)
        sender.publish(here, b"end")
        # What is retained, and then one for each second.
        sender.take(4)
    with Visitor(address, protocol=protocol, name=here, lasting=True) as reader:
        assert [] == reader.until(b"end")


@pytest.mark.parametrize("protocol", [V311], ids=["3.1.1"])
@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\xff\xff", b"\x30\x03\x00\x01a", b"\x10\x02\x00\x04", b"\x00\x00"],
)
def test_noise_ends_its_own_connection_only(
    own: tuple[Address, str], protocol: MQTTProtocolVersion, noise: bytes
) -> None:
    """A client that speaks no MQTT is disconnected; others notice nothing."""
    address, here = own
    with Visitor(address, here, protocol=protocol) as other:
        with socket.create_connection((address.host, address.port), BOUND) as stranger:
            stranger.sendall(noise)
            with suppress(ConnectionResetError):
                while stranger.recv(1_000):
                    pass
        other.publish(here, b"well")
        assert [b"well"] == other.take(1)


@PROTOCOLS
def test_a_stranger_disconnects_no_client(own: tuple[Address, str], protocol: MQTTProtocolVersion) -> None:
    """A client with another one's id and a wrong password is refused before anything happens to that client."""
    address, here = own
    wrong = Address(host=address.host, port=address.port, user="braid", password="wrong")  # noqa: S106 - what is tested
    with Visitor(address, here, protocol=protocol, name=here) as known:
        with Visitor(wrong, protocol=protocol, name=here) as stranger:
            assert stranger.refusal is not None
        known.publish(here, b"still here")
        assert [b"still here"] == known.take(1)


LOADED = "import sys; sys.path.append(sys.argv[1]); import embedded.__main__; print(*sorted(sys.modules))"
TWO_USERS = {"braid": "a secret", "other": "another secret"}


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path, TWO_USERS, kind="embedded") as started:
        yield started


def test_users_have_client_ids_of_their_own(embedded: Broker) -> None:
    """Using the client id of another user neither disconnects that client nor gets its messages.

    Mosquitto gives the connection, and the session, to the last client with an id.
    """
    with Visitor(embedded.address("braid"), "a", name="same", lasting=True) as first:
        with Visitor(embedded.address("other"), name="same", lasting=True) as second:
            assert not second.resumed
            second.publish("a", b"one")
            assert [b"one"] == first.take(1)
            second.publish("a", b"two")
        assert [b"two"] == first.take(1)
        assert second.messages.empty()


def test_its_process_loads_nothing_of_braid() -> None:
    """It loads nothing that needs much memory either."""
    loaded = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-I", "-c", LOADED, str(Path(broker_setup.__file__).parent)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert [] == sorted({"bridge", "engine", "manager", "numpy", "pyarrow", "pydantic"} & set(loaded))


def test_a_broker_that_cannot_read_its_files_says_which(tmp_path: Path) -> None:
    """It does not start, and shows no traceback."""
    listener = ["--listener", "127.0.0.1", "0", str(tmp_path / "nowhere")]
    command = [*broker_setup.embedded_start(), *listener]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own
    assert 1 == ended.returncode
    assert ended.stderr.startswith(f"{tmp_path / 'nowhere'} cannot be read: ")
    assert 1 == len(ended.stderr.splitlines())
