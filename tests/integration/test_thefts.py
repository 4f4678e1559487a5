"""A tenant with bad intentions and its own credentials takes nothing from others: neither messages nor sessions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from tests.brokers import KINDS
from tests.integration.tenanted_broker import PROTOCOLS, V5, TenantedBroker, Visitor

REFUSED = {V5: 0x87}
"""The code of a refused filter by protocol; MQTT 3.1.1 has one for all reasons."""
SHARED = "$share/workers/braid/1/out/bob/#"
FOREIGN = (
    "#",
    "+/#",
    "braid/#",
    "braid/1/out/#",
    "braid/1/out/+/d/s",
    "braid/1/out/bob/#",
    "braid/1/out/annie/#",
    "braid/1/jobs/+/plan",
    "raw/ann",
    "$SYS/#",
    "$share/workers/#",
    "$share/workers/braid/1/out/+/d/s",
    SHARED,
    "$share/workers/$share/workers/braid/1/out/ann/#",
    "$share/braid/1/out/ann/#",
)
OUTPUT = "braid/1/out/bob/d/s"
CLEAN = pytest.mark.parametrize("clean", [True, False], ids=["clean", "resuming"])


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TenantedBroker]:
    """A broker with two tenants: ann, who steals, and bob."""
    house = TenantedBroker(tmp_path, request.param)
    assert house.broker is not None
    with house.broker:
        house.admit("ann", "bob")
        yield house


def numbers(visitor: Visitor, many: int) -> list[int]:
    """The numbers that come first."""
    return [int(visitor.messages.get(timeout=30.0)[1]) for _ in range(many)]


@PROTOCOLS
def test_a_filter_that_reaches_others_is_refused(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """A tenant that subscribes to more than its own outputs gets a refusal; filters beside that one are granted."""
    refused, own = REFUSED.get(protocol, 0x80), "braid/1/out/ann/d/+"
    with Visitor(house.address("ann"), protocol=protocol) as ann:
        for foreign in FOREIGN:
            answers = [ann.subscribe(foreign), ann.subscribe(foreign, own), ann.subscribe(own, foreign, own)]
            assert [[refused], [refused, 1], [1, refused, 1]] == answers, foreign


@PROTOCOLS
def test_a_thief_in_a_shared_group_takes_no_message(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """A worker gets all messages of its group although another tenant names the same group and filter."""
    assert house.broker is not None
    mine = SHARED if house.broker.kind == "mosquitto" else "braid/1/out/bob/#"
    with (
        Visitor(house.address("bob"), mine, protocol=protocol) as worker,
        Visitor(house.address("ann"), "braid/1/out/ann/#", protocol=protocol) as thief,
        Visitor(house.own, protocol=protocol) as braid,
    ):
        thief.subscribe(SHARED)
        for number in range(80):
            braid.publish(OUTPUT, str(number).encode())
        braid.publish("braid/1/out/ann/end")
        assert list(range(80)) == numbers(worker, 80)
        assert ["braid/1/out/ann/end"] == thief.until("braid/1/out/ann/end")


@PROTOCOLS
@CLEAN
def test_a_client_id_of_another_user_leads_to_no_session(
    house: TenantedBroker, protocol: MQTTProtocolVersion, *, clean: bool
) -> None:
    """What waits for an absent client waits on, though others connect with its id; its subscriptions stay."""
    with Visitor(house.address("bob"), "braid/1/out/bob/#", protocol=protocol, name="worker", lasting=True):
        pass
    with Visitor(house.own, protocol=protocol) as braid:
        for number in range(40):
            braid.publish(OUTPUT, str(number).encode())
        with Visitor(house.address("ann"), protocol=protocol, name="worker", lasting=True, clean=clean) as thief:
            assert not thief.resumed
            assert [1] == thief.subscribe("braid/1/out/ann/#")
            braid.publish("braid/1/out/ann/end")
            assert ["braid/1/out/ann/end"] == thief.until("braid/1/out/ann/end")
        braid.publish(OUTPUT, b"40")
    with Visitor(house.address("bob"), protocol=protocol, name="worker", lasting=True) as worker:
        assert worker.resumed
        assert list(range(41)) == numbers(worker, 41)


@PROTOCOLS
@CLEAN
def test_a_client_id_of_another_user_disconnects_nobody(
    house: TenantedBroker, protocol: MQTTProtocolVersion, *, clean: bool
) -> None:
    """Both clients go on side by side, and each gets its own messages."""
    with (
        Visitor(house.address("bob"), "braid/1/out/bob/#", protocol=protocol, name="worker", lasting=True) as worker,
        Visitor(house.own, protocol=protocol) as braid,
        Visitor(house.address("ann"), protocol=protocol, name="worker", lasting=True, clean=clean) as thief,
    ):
        assert thief.refusal is None
        braid.publish(OUTPUT, b"0")
        assert [0] == numbers(worker, 1)
        assert not worker.left.is_set()
        assert not thief.left.is_set()


@PROTOCOLS
@CLEAN
def test_a_publisher_s_client_id_disconnects_no_publisher(
    house: TenantedBroker, protocol: MQTTProtocolVersion, *, clean: bool
) -> None:
    """A tenant that knows the client id of Braid's own publisher cannot make it fall."""
    with (
        Visitor(house.address("bob"), "braid/1/out/bob/#", protocol=protocol) as worker,
        Visitor(house.own, protocol=protocol, name="publisher") as braid,
    ):
        for number in range(3):
            with Visitor(house.address("ann"), protocol=protocol, name="publisher", clean=clean, lasting=not clean):
                braid.publish(OUTPUT, str(number).encode())
        assert [0, 1, 2] == numbers(worker, 3)
        assert not braid.left.is_set()


@PROTOCOLS
def test_a_tenant_has_many_clients_with_sessions_of_their_own(
    house: TenantedBroker, protocol: MQTTProtocolVersion
) -> None:
    """A tenant's ids are its own to choose; only the same id again takes the place of the first, and its session."""
    outputs, address = "braid/1/out/bob/#", house.address("bob")
    with (
        Visitor(address, outputs, protocol=protocol, name="one", lasting=True) as one,
        Visitor(address, outputs, protocol=protocol, name="two", lasting=True) as two,
        Visitor(address, protocol=protocol, name="one", lasting=True) as again,
        Visitor(house.own, protocol=protocol) as braid,
    ):
        assert one.left.wait(30.0)
        assert [True, False] == [again.resumed, two.left.is_set()]
        braid.publish(OUTPUT, b"0")
        assert [[0], [0]] == [numbers(each, 1) for each in (again, two)]


def test_an_id_that_the_broker_gave_leads_back_to_the_session(house: TenantedBroker) -> None:
    """A client without an id is given one over MQTT 5, and goes on with its session by that."""
    with Visitor(house.address("bob"), "braid/1/out/bob/#", lasting=True, clean=True) as first:
        assert first.assigned is not None
    with Visitor(house.own) as braid:
        braid.publish(OUTPUT, b"0")
    with Visitor(house.address("bob"), name=first.assigned, lasting=True) as again:
        assert (True, None) == (again.resumed, again.assigned)
        assert [0] == numbers(again, 1)
