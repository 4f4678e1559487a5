"""Tenants at a real broker: each does what it was granted, through every reload, and Braid is never disturbed."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, broker_setup
from bridge.broker import BrokerDown, BrokerKind, NoAccessLists, start_broker
from bridge.broker_setup import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from manager.tenants.broker_access import AccessKeeper, grant, password_list, user_of
from tests.brokers import KINDS, MOSQUITTO
from tests.integration.tenanted_broker import (
    BOUND,
    OWN,
    PROTOCOLS,
    SECRETS,
    SOURCES,
    V5,
    TenantedBroker,
    Visitor,
    refusal,
)

BRAIDS = (
    "braid/1/jobs/1/plan",
    "braid/1/jobs/1/status",
    "braid/1/streams/7/out",
    "braid/1/have/7/out",
    "braid/1/dead/7",
    "braid/1/dead/unread/raw/ann",
    "braid/1/hosts/north/status",
    "braid/1/out/bob/d/s",
    "braid/1/out/annie/d/s",
    "braid/1/out",
)
REFUSED = {"Not authorized"}


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TenantedBroker]:
    house = TenantedBroker(tmp_path, request.param)
    assert house.broker is not None
    with house.broker:
        yield house


def is_hung_up(line: socket.socket) -> bool:
    """Whether the other end closes a connection without an answer."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


@PROTOCOLS
def test_a_tenant_reads_its_own_outputs_only(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """Whatever it subscribes to, a tenant gets the outputs of its own dataflows, and nothing else, retained or not."""
    house.admit("ann", "bob")
    wishes = ["#", "braid/1/#", "+/+/jobs/#", "$SYS/#", "$share/g/raw/bob", "$share/g/braid/1/jobs/#", "raw/ann"]
    with Visitor(house.own, "$SYS/broker/uptime", "#", protocol=protocol) as braid:
        assert "Success" == braid.publish(BRAIDS[0], retain=True)
        assert "Success" == braid.publish("braid/1/out/ann/kept/s", retain=True)
        with Visitor(house.address("ann"), protocol=protocol) as ann:
            ann.subscribe(*wishes, "braid/1/out/ann/#")
            seen = braid.until(BRAIDS[0])
            for topic in (*BRAIDS, "raw/ann", "raw/bob", "braid/1/out/ann/d/s"):
                braid.publish(topic)
            braid.until("$SYS/broker/uptime")
            braid.publish("braid/1/out/ann/end")
            came = set(ann.until("braid/1/out/ann/end"))
    assert BRAIDS[0] in seen
    assert {"braid/1/out/ann/kept/s", "braid/1/out/ann/d/s", "braid/1/out/ann/end"} == came


@PROTOCOLS
def test_a_tenant_writes_its_own_sources_only(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """Messages that a tenant publishes elsewhere do not arrive; only MQTT 5 reports that to the tenant."""
    house.admit("ann", "bob", "eve")
    elsewhere = [*BRAIDS, "braid/1/out/ann/d/s", "raw/bob", "raw/ann/below", "raw/ann/", "raw", "raw/annie", "$SYS/ann"]
    answers = set()
    with Visitor(house.own, "#", "$SYS/ann", protocol=protocol) as braid:
        for topic in elsewhere:
            # Some mosquittos also hang up on who publishes where it may not.
            with Visitor(house.address("ann"), protocol=protocol) as ann:
                answers.add(ann.publish(topic))
        with Visitor(house.address("ann"), protocol=protocol) as ann:
            assert "Success" == ann.publish("raw/ann")
        assert ["raw/ann"] == braid.until("raw/ann")
    assert answers == (REFUSED if protocol is V5 else {"Success"})


def test_connections_of_tenants_leave_room_for_braid(house: TenantedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a tenant is not let in, with or without a packet cut in the middle; Braid connects as before."""
    house.admit("ann")
    assert house.broker is not None
    monkeypatch.setattr(broker_setup, "_MOST_CONNECTIONS", 20)
    house.broker.restart()
    address = house.address("ann")
    cut = bytes.fromhex("10ff7f00044d515454")
    with ExitStack() as held:
        lines = [
            held.enter_context(socket.create_connection((address.host, address.port), timeout=BOUND)) for _ in range(21)
        ]
        for line in lines[:-1]:
            line.sendall(cut)
        assert is_hung_up(lines[-1])
        with Visitor(house.own, "raw/#") as braid, Visitor(house.own) as other:
            assert "Success" == other.publish("raw/ann")
            assert ["raw/ann"] == braid.until("raw/ann")
    house.await_let_in(address)


@pytest.mark.mosquitto
def test_a_subscriber_that_never_reads_fills_only_its_own_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit messages for it are dropped; those for others come, however long they waited."""
    monkeypatch.setattr(broker_setup, "MOST_WAITING_BYTES", 100_000)
    house = TenantedBroker(tmp_path, "mosquitto")
    assert house.broker is not None
    with house.broker:
        house.admit("ann", "bob")
        for tenant in ("ann", "bob"):
            with Visitor(house.address(tenant), f"braid/1/out/{tenant}/#", name=tenant, lasting=True):
                pass
        with Visitor(house.own) as braid:
            braid.publish("braid/1/out/bob/d/s", b"waits")
            for _ in range(30):
                braid.publish("braid/1/out/ann/d/s", bytes(10_000))
            braid.publish("braid/1/out/bob/d/end", b"waits too")
        with Visitor(house.address("bob"), name="bob", lasting=True) as bob:
            assert ["braid/1/out/bob/d/s", "braid/1/out/bob/d/end"] == bob.until("braid/1/out/bob/d/end")
        with Visitor(house.address("ann"), name="ann", lasting=True) as ann, Visitor(house.own) as braid:
            braid.publish("braid/1/out/ann/d/end")
            assert 10 <= len(ann.until("braid/1/out/ann/d/end")) <= 12


@PROTOCOLS
def test_a_last_will_is_no_way_round(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """The will of a tenant goes only where it may write."""
    house.admit("ann", "bob")
    with Visitor(house.own, "#", protocol=protocol) as braid:
        for will in ("braid/1/jobs/1/status", "raw/bob", "raw/ann"):
            Visitor(house.address("ann"), protocol=protocol, will=will).die()
        assert ["raw/ann"] == braid.until("raw/ann")


def test_each_user_has_one_listener(house: TenantedBroker) -> None:
    """A tenant is refused at Braid's listener, Braid at the tenants', and a client without a password at both."""
    house.admit("ann")
    ann, own = house.address("ann"), house.own
    swapped = [
        Address(host=own.host, port=own.port, user=ann.user, password=ann.password),
        Address(host=ann.host, port=ann.port, user=own.user, password=own.password),
        Address(host=ann.host, port=ann.port),
        Address(host=ann.host, port=ann.port, user=ann.user, password="wrong"),  # noqa: S106 - what is tested
        house.address("bob"),
    ]
    assert [None, None] == [refusal(ann), refusal(own)]
    assert REFUSED == {refusal(each) for each in swapped}


@PROTOCOLS
def test_a_reload_accepts_and_disconnects_users(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """After a reload a new tenant is accepted, and a revoked one is disconnected at once; nobody else is."""
    house.admit("ann", "eve")
    assert "Not authorized" == refusal(house.address("bob"))
    with (
        Visitor(house.own, "#", protocol=protocol) as braid,
        Visitor(house.address("ann"), "braid/1/out/ann/#", protocol=protocol) as ann,
        Visitor(house.address("eve"), "braid/1/out/eve/#", protocol=protocol) as eve,
    ):
        house.admit("bob", "eve")
        assert ann.left.wait(BOUND)
        assert ["Not authorized", None] == [refusal(house.address("ann")), refusal(house.address("bob"))]
        braid.publish("braid/1/out/ann/d/s")
        braid.publish("braid/1/out/eve/d/s")
        assert ["braid/1/out/eve/d/s"] == eve.until("braid/1/out/eve/d/s")
        assert "Success" == eve.publish(SOURCES["eve"])
        assert ann.messages.empty()
        assert [False, False] == [braid.left.is_set(), eve.left.is_set()]


def test_a_new_password_disconnects_users_of_the_old_one(house: TenantedBroker) -> None:
    """When a tenant's credentials are replaced, the old ones are refused, and their users are disconnected."""
    house.admit("ann")
    with Visitor(house.address("ann")) as ann:
        house.hashes[user_of("ann")] = hashed("another")
        house.admit("ann")
        assert ann.left.wait(BOUND)
    assert ["Not authorized", None] == [refusal(house.address("ann")), refusal(house.address("ann", "another"))]


@PROTOCOLS
def test_a_reload_changes_rights_of_connected_tenants(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """A source with a new owner is written by that owner only, even over old connections."""
    house.admit("ann", "bob", sources={"ann": "raw/one"})
    with (
        Visitor(house.own, "#", protocol=protocol) as braid,
        Visitor(house.address("ann"), protocol=protocol) as ann,
        Visitor(house.address("bob"), protocol=protocol) as bob,
    ):
        assert "Success" == ann.publish("raw/one", b"ann's")
        house.admit("ann", "bob", sources={"bob": "raw/one"})
        ann.publish("raw/one", b"ann's no more")
        assert "Success" == bob.publish("raw/one", b"bob's")
        assert [b"ann's", b"bob's"] == [braid.messages.get(timeout=BOUND)[1] for _ in range(2)]


@PROTOCOLS
def test_braid_goes_on_during_reloads(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """Through a hundred reloads Braid's clients stay connected, and all their messages arrive once and in order."""
    many, came, connections, done = 2_000, list[int](), list[int](), threading.Event()

    def take(message: Message) -> None:
        came.append(int(message.payload))
        receiver.acknowledge([message.token])
        if len(came) == many:
            done.set()

    receiver = MqttClient(
        house.own,
        "receives",
        topics=["braid/1/streams/7/out"],
        on_message=take,
        on_connection=lambda: connections.append(1),
        protocol=protocol,
    )
    sender = MqttClient(house.own, "sends", on_connection=lambda: connections.append(1), protocol=protocol)
    receiver.start()
    sender.start()
    try:
        for number in range(many):
            sender.publish("braid/1/streams/7/out", str(number).encode())
            if number % 20 == 0:
                house.reload()
        assert done.wait(BOUND)
    finally:
        sender.stop()
        receiver.stop()
    assert list(range(many)) == came
    assert 2 == len(connections)


@PROTOCOLS
def test_a_tenant_cannot_replace_a_client_of_braid(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """Using the name of a Braid client disconnects nobody, because the id holds a secret as well."""
    house.admit("ann")
    came = threading.Event()
    connections = list[int]()
    receiver = MqttClient(
        house.own,
        "braid-north-host",
        topics=["braid/1/jobs/1/plan"],
        on_message=lambda _message: came.set(),
        on_connection=lambda: connections.append(1),
        protocol=protocol,
    )
    receiver.start()
    try:
        with Visitor(house.address("ann"), protocol=protocol, name="braid-north-host") as visitor:
            assert visitor.refusal is None
            receiver.publish("braid/1/jobs/1/plan", b"a plan")
            assert came.wait(BOUND)
    finally:
        receiver.stop()
    assert [1] == connections


@PROTOCOLS
@pytest.mark.parametrize("house", [MOSQUITTO], indirect=True)
def test_a_host_that_is_away_misses_nothing_when_the_broker_restarts(
    house: TenantedBroker, protocol: MQTTProtocolVersion
) -> None:
    """Messages for a Braid client that is away are kept, even if the broker is restarted and then reloads.

    The embedded broker has its sessions in memory, and says that a restart loses them.
    """
    house.admit("ann")
    assert house.broker is not None
    with Visitor(house.own, "raw/#", protocol=protocol, name="a host", lasting=True):
        pass
    with Visitor(house.address("ann"), protocol=protocol) as ann:
        ann.publish("raw/ann", b"before")
    house.broker.restart()
    house.admit("ann", "bob")
    with Visitor(house.address("ann"), protocol=protocol) as ann:
        ann.publish("raw/ann", b"after")
    with Visitor(house.own, protocol=protocol, name="a host", lasting=True) as host:
        assert [b"before", b"after"] == [host.messages.get(timeout=BOUND)[1] for _ in range(2)]


@PROTOCOLS
def test_a_host_that_is_away_misses_nothing(house: TenantedBroker, protocol: MQTTProtocolVersion) -> None:
    """Messages for a Braid client that is away are kept through reloads."""
    house.admit("ann")
    with Visitor(house.own, "raw/#", protocol=protocol, name="a host", lasting=True):
        pass
    with Visitor(house.address("ann"), protocol=protocol) as ann:
        ann.publish("raw/ann", b"before")
        house.admit("ann", "bob")
        ann.publish("raw/ann", b"after")
    with Visitor(house.own, protocol=protocol, name="a host", lasting=True) as host:
        assert [b"before", b"after"] == [host.messages.get(timeout=BOUND)[1] for _ in range(2)]


def test_a_restarted_broker_has_the_newest_list(house: TenantedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the same ports; a list written while it started, after it had read its files, is read once it runs."""
    assert house.broker is not None
    assert house.broker.entrance is not None
    before, start = house.address("ann"), house.broker._start

    def start_slowly() -> Any:
        child = start()
        monkeypatch.undo()
        keeper.keep(grant(["ann"], []), {user_of("ann"): house.hashes[user_of("ann")]})
        return child

    keeper = AccessKeeper(house.broker.entrance.folder, house.reload)
    os.kill(house.broker.pid, signal.SIGKILL)
    monkeypatch.setattr(house.broker, "_start", start_slowly)
    house.broker.restart()
    assert before == house.address("ann")
    house.await_let_in(house.address("ann"))


def test_a_stopped_broker_may_be_reloaded(house: TenantedBroker) -> None:
    """Reloading a broker that does not run does nothing; it reads the files when it starts."""
    assert house.broker is not None
    os.kill(house.broker.pid, signal.SIGKILL)
    house.broker.stop()
    house.reload()
    assert not house.broker.alive()


@pytest.mark.parametrize("password", ["a", "pä:ss #$7$ wörd", " spaces ", "x" * 1_000, "'\"\\"])
def test_a_broker_takes_the_hash_of_any_password(house: TenantedBroker, password: str) -> None:
    """The hash of any password accepts exactly that password."""
    house.hashes[user_of("ann")] = hashed(password)
    house.admit("ann")
    almost = [house.address("ann", f"{password}a"), house.address("ann", password[:-1] or "b")]
    assert None is refusal(house.address("ann", password))
    assert REFUSED == {refusal(each) for each in almost}


@pytest.mark.parametrize("kind", KINDS)
def test_an_entrance_listens_on_its_own_host(tmp_path: Path, kind: BrokerKind) -> None:
    """Tenants may connect from everywhere while Braid's own listener is reached from this machine only."""
    AccessKeeper(tmp_path / "access", lambda: None).keep({}, {})
    everywhere = "0.0.0.0"  # noqa: S104 - what is tested
    broker_setup = Entrance(folder=tmp_path / "access", host=everywhere)
    # Other tests may have left some for later ones.
    before = {each.pid for each in psutil.Process().children()}
    with start_broker(tmp_path / "broker", OWN, entrance=broker_setup, kind=kind) as broker:
        assert broker.entrance is not None
        assert {("127.0.0.1", broker.address("braid").port), (everywhere, broker.entrance.port)} == {
            connection.laddr
            for process in psutil.Process().children()
            if process.pid not in before
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }


def test_an_entrance_on_a_port_in_use_is_named(house: TenantedBroker, tmp_path: Path) -> None:
    """A broker whose entrance cannot listen does not start, and names the port."""
    taken = house.address("ann").port
    AccessKeeper(tmp_path / "second", lambda: None).keep({}, {})
    assert house.broker is not None
    kind = house.broker.kind
    with pytest.raises(BrokerDown) as down:
        start_broker(tmp_path / "other", OWN, entrance=Entrance(folder=tmp_path / "second", port=taken), kind=kind)
    assert f"{kind} did not start: on 127.0.0.1, port {taken} is in use or not permitted" == str(down.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [ACCESS_LIST, PASSWORDS])
def test_an_entrance_without_its_files_is_refused(tmp_path: Path, kind: BrokerKind, missing: str) -> None:
    """A broker does not start before the files of its entrance exist; the message names the missing one."""
    AccessKeeper(tmp_path / "access", lambda: None).keep({}, {})
    (tmp_path / "access" / missing).unlink()
    with pytest.raises(BrokerDown) as down:
        start_broker(tmp_path / "broker", OWN, entrance=Entrance(folder=tmp_path / "access"), kind=kind)
    message = f"{tmp_path / 'access' / missing} is missing; write it before the broker starts"
    assert f"{kind} did not start: {message}" == str(down.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_without_an_entrance_says_so(tmp_path: Path, kind: BrokerKind) -> None:
    """A broker that was started without an access list cannot reload one, and says what to do."""
    with start_broker(tmp_path, OWN, kind=kind) as broker, pytest.raises(NoAccessLists) as refused:
        broker.reload()
    assert f"this {kind} was started without an access list; start it with an entrance" == str(refused.value)


def test_no_password_lies_on_disk(house: TenantedBroker, tmp_path: Path) -> None:
    """No file of the broker or beside it holds a password of a tenant, only hashes."""
    house.admit("ann", "bob")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [] == [path for path in files for secret in SECRETS.values() if secret.encode() in path.read_bytes()]
    assert (
        password_list({user_of("ann"): house.hashes[user_of("ann")]}) in (tmp_path / "access" / PASSWORDS).read_text()
    )


FILTERS = {"ann": "plant/+/temperature", "bob": "plants/#"}


@PROTOCOLS
def test_a_tenant_writes_what_the_filters_of_its_sources_match(
    house: TenantedBroker, protocol: MQTTProtocolVersion
) -> None:
    """Nothing beside it, nothing of another's filter; and it may read none of it, alone or in a group."""
    house.admit("ann", "bob", sources=FILTERS)
    writes = {
        "ann": ["plant/m1/temperature", "plant//temperature"],
        "bob": ["plants", "plants/m1", "plants/m1/temperature/in"],
    }
    elsewhere = {
        "ann": ["plant/m1", "plant/m1/pressure", "plant/m1/m2/temperature", "plant/m1/temperature/in", "plants/m1"],
        "bob": ["plant/m1/temperature", "plant", "braid/1/jobs/1/plan", "$SYS/plants"],
    }
    answers = set()
    with Visitor(house.own, "#", protocol=protocol) as braid:
        for tenant, topics in elsewhere.items():
            for topic in topics:
                # Some mosquittos also hang up on who publishes where it may not.
                with Visitor(house.address(tenant), protocol=protocol) as thief:
                    answers.add(thief.publish(topic))
        for tenant, topics in writes.items():
            with Visitor(house.address(tenant), protocol=protocol) as owner:
                assert ["Success"] * len(topics) == [owner.publish(topic) for topic in topics]
                for foreign in (FILTERS["ann"], FILTERS["bob"], "plant/m1/temperature", "$share/g/plants/#", "+/#"):
                    assert all(code >= 0x80 for code in owner.subscribe(foreign)), foreign
        assert [*writes["ann"], *writes["bob"]] == braid.until(writes["bob"][-1])
    assert answers == (REFUSED if protocol is V5 else {"Success"})


def test_a_grant_of_a_filter_ends_with_its_source(house: TenantedBroker) -> None:
    """Then another may have it, and its earlier owner writes there no more."""
    house.admit("ann", "bob", sources={"ann": "plant/#"})
    with Visitor(house.own, "plant/#") as braid:
        with Visitor(house.address("ann")) as ann:
            assert "Success" == ann.publish("plant/m1")
        house.admit("ann", "bob", sources={"bob": "plant/+"})
        with Visitor(house.address("ann")) as ann:
            assert REFUSED == {ann.publish("plant/m2")}
        with Visitor(house.address("bob")) as bob:
            assert "Success" == bob.publish("plant/m3")
        assert ["plant/m1", "plant/m3"] == braid.until("plant/m3")


@PROTOCOLS
def test_nothing_is_retained_on_topics_that_a_filter_grants(
    house: TenantedBroker, protocol: MQTTProtocolVersion
) -> None:
    """A tenant could make up any number of them; on a plain topic the newest message is retained, as ever.

    Neither a message is, whole or in pieces, nor a will. All of them are delivered.
    """
    house.admit("ann", "bob", sources={"ann": "plant/#", "bob": "raw/bob"})
    address = house.address("ann")
    with Visitor(house.own, "#", protocol=protocol) as braid:
        with Visitor(address, protocol=protocol, will="plant/will", retain_will=True) as dying:
            assert "Success" == dying.publish("plant/m1", retain=True)
            assert "Success" == dying.publish("plant/large", bytes(200_000), retain=True)
            dying.die()
        with Visitor(house.address("bob"), protocol=protocol, will="raw/bob", retain_will=True) as bob:
            assert "Success" == bob.publish("raw/bob", b"retained", retain=True)
        assert {"plant/m1", "plant/large", "plant/will", "raw/bob"} == set(braid.until("plant/will")) | {"raw/bob"}
    with Visitor(house.own, "plant/#", "raw/bob", protocol=protocol) as later:
        later.publish("plant/end")
        assert {"raw/bob", "plant/end"} == set(later.until("plant/end"))
