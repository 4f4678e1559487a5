"""Shared feeds: one connection for several sources, each of which gets every message once, whatever others do."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.broker import start_broker
from bridge.connectors import connector_run, mqtt_session
from bridge.connectors import shared_feed as reading
from bridge.machine import BackOff, SystemClock
from bridge.spools.log import unpacked
from bridge.spools.reader import read
from bridge.spools.spool import commit, consumers, leave
from bridge.transport.address import Address
from dags import Kind
from dags.connectors import MqttConnector
from dags.message_formats import JSON, CsvMessages, MessageFormat, SparkplugMessages
from engine.host import feeds
from engine.host.feeds import shared_feed
from engine.host.spools import HostSpools
from engine.outside import DEPLOYMENT, REACHABLE
from engine.plan import ConnectorSupply, Ingress, Limits, Plan
from engine.records.job_folder import spool_folder
from engine.replicas.copies import NO_COPIES, Copies
from engine.replicas.copy_folder import CopyFolder
from tests.bridge.connectors.outside_brokers import (
    PASSWORD,
    USER,
    connections,
    mosquitto,
    numbered,
    publish,
    publishing,
)
from tests.brokers import KINDS
from tests.engine.host.test_spools import Broker as NoBroker
from tests.engine.replicas.scene import Scene, until

JOB = "j"
STRANGERS = "BRAID_TEST_STRANGERS"
"""Set where sessions without a secret are those of a user."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff((0.05,)))


class Open:
    """A broker that lets anybody in."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def connections(self) -> int:
        """The connections that it has at the moment."""
        return connections(self.address.port)


def let_in(user: str, password: str | None) -> None:
    """Have sessions without a secret be those of a user: the embedded broker knows no strangers."""
    route = mqtt_session._route

    def known(connector: MqttConnector, outside: Any) -> Any:
        found = route(connector, outside)
        return replace(found, address=replace(found.address, user=user, password=password))

    mqtt_session._route = known


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    if request.param == "embedded":
        monkeypatch.setattr(mqtt_session, "_route", mqtt_session._route)
        monkeypatch.setenv(STRANGERS, "known")
        let_in(USER, PASSWORD)
        with start_broker(tmp_path / "broker", {USER: PASSWORD}, kind="embedded") as started:
            yield Open(started.address(USER))
    else:
        with mosquitto(tmp_path / "broker", "allow_anonymous true") as started:
            yield Open(started.address())


class Site:
    """A host with the sources that its jobs read, over a root that outlives it."""

    def __init__(self, root: Path, port: int, copies: Copies = NO_COPIES) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        (root / REACHABLE).write_text("127.0.0.1\n")
        self._url = f"mqtt://127.0.0.1:{port}"
        self._copies = copies
        self.begin()

    def begin(self) -> None:
        """Run, as after a restart."""
        self.spools = HostSpools(
            self.root,
            NoBroker(),
            clock=SystemClock(),
            on_growth=lambda _stream, _marked: None,
            due=lambda _stream, after: after,
            copies=self._copies,
        )

    def read(
        self,
        stream: str,
        *,
        connects: bool = True,
        most_bytes: int = 10**9,
        fields: Mapping[str, Kind] | None = None,
        **form: Any,
    ) -> None:
        """Have a job read a source, which takes from the broker from now on."""
        given = {"kind": "mqtt", "url": self._url, "topic": "heat", **form}
        connector = MqttConnector.model_validate(given)
        supply = ConnectorSupply(
            connector=connector.model_dump_json(context={"owner": "ann"}, exclude={"format"}),
            fields={"n": Kind.INTEGER} if fields is None else fields,
            format=connector.format,
        )
        if JOB not in consumers(self.folder(stream)):
            commit(self.folder(stream), JOB, 0)
        limits = Limits(spool_bytes=most_bytes)
        plan = Plan(job=JOB, host="h", version=1, limits=limits)
        self.spools.need(plan, Ingress(stream=stream, instance=1, supply=supply))
        if connects:
            self.until(lambda: self.link(stream)["connected"])

    def remove(self, stream: str) -> None:
        """Have no job read a source any more."""
        leave(self.folder(stream), JOB)
        self.spools.drop(JOB, stream)
        self.until(lambda: stream not in self.spools.states())

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds, with the host's beats."""

        def look() -> bool:
            self.spools.look()
            return bool(holds())

        until(look)

    def received(self, stream: str) -> dict[str, Any]:
        """What the host reports of a source."""
        return self.spools.received().get(stream, {})

    def link(self, stream: str) -> dict[str, Any]:
        """Its connection, as it is reported."""
        link: dict[str, Any] = self.received(stream)["link"]
        return link

    def numbers(self, stream: str) -> list[Any]:
        """The field `n` of all its events."""
        items = read(self.folder(stream), 0, 10**12)
        return [event["n"] for _, item in items for event in unpacked(item.payload).to_pylist()]

    def awaited(self, stream: str, count: int) -> list[int]:
        """The same, once there are so many."""
        self.until(lambda: (self.spools.end(stream) or 0) >= count)
        return self.numbers(stream)

    def pass_all(self, stream: str) -> list[int]:
        """Have the job that reads a source come to its end; what it read."""
        folder = self.folder(stream)
        items = [*read(folder, consumers(folder)[JOB], 10**12)]
        if items:
            commit(folder, JOB, items[-1].end)
        return [event["n"] for _, item in items for event in unpacked(item.payload).to_pylist()]

    def folder(self, stream: str) -> Path:
        """The folder of a source's spool."""
        return spool_folder(self.root, stream)

    @property
    def feed(self) -> Path:
        """The folder of the only feed."""
        (folder,) = (self.root / "spools").glob("~feed*")
        return folder


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, broker: Open) -> Iterator[Site]:
    made = Site(tmp_path / "root", broker.address.port)
    yield made
    made.spools.close()


def test_sources_of_one_feed_share_a_connection(site: Site, broker: Open) -> None:
    """Each gets every message once, by its own schema; one ends, another begins, and none of the others notices."""
    site.read("source/1")
    site.read("source/2", fields={"n": Kind.STRING})
    until(lambda: broker.connections() == 1)
    assert site.spools.states().keys() == {"source/1", "source/2"}
    with publishing(broker.address):
        until(lambda: broker.connections() == 2)
    publish(broker.address, "heat", [*numbered(0, 50), b'{"n": "warm"}', b"?"])
    assert list(range(50)) == site.awaited("source/1", 50)
    site.until(lambda: site.received("source/2")["rejected"] == 51)
    assert ["warm"] == site.numbers("source/2")
    assert 2 == site.received("source/1")["rejected"]
    site.remove("source/2")
    publish(broker.address, "heat", numbered(50, 100))
    assert list(range(100)) == site.awaited("source/1", 100)
    site.read("source/3", topic="heat")
    assert (0, 0) == (site.received("source/3")["accepted"], site.received("source/3")["rejected"])
    publish(broker.address, "heat", numbered(100, 150))
    assert list(range(100, 150)) == site.awaited("source/3", 50)
    assert list(range(150)) == site.awaited("source/1", 150)
    until(lambda: broker.connections() == 1)
    assert {"source/1", "source/3"} == consumers(site.feed).keys()


def test_a_feed_without_sources_is_forgotten(site: Site, broker: Open) -> None:
    """The broker keeps nothing for it; who reads it later begins with what comes then."""
    for stream in ("source/1", "source/2"):
        site.read(stream)
    publish(broker.address, "heat", numbered(0, 10))
    for stream in ("source/1", "source/2"):
        assert list(range(10)) == site.awaited(stream, 10)
        site.remove(stream)
    site.until(lambda: broker.connections() == 0 and not [*(site.feed / "log").glob("0*")])
    publish(broker.address, "heat", numbered(10, 20))
    site.read("source/3")
    site.read("source/1")
    publish(broker.address, "heat", numbered(20, 30))
    assert list(range(20, 30)) == site.awaited("source/3", 10)
    assert [*range(10), *range(20, 30)] == site.awaited("source/1", 20)
    assert 0 == site.received("source/1")["rejected"]


def test_a_host_that_ends_leaves_the_feed_to_the_next(site: Site, broker: Open) -> None:
    """What comes meanwhile waits at the broker, for all sources."""
    for stream in ("source/1", "source/2"):
        site.read(stream)
    publish(broker.address, "heat", numbered(0, 10))
    for stream in ("source/1", "source/2"):
        site.awaited(stream, 10)
    site.spools.close()
    until(lambda: broker.connections() == 0)
    publish(broker.address, "heat", numbered(10, 20))
    site.begin()
    site.read("source/1")
    assert list(range(20)) == site.awaited("source/1", 20)
    # It is read again only now, and misses nothing.
    site.read("source/2")
    assert list(range(20)) == site.awaited("source/2", 20)


def test_a_full_spool_holds_up_no_other(site: Site, broker: Open) -> None:
    """Its source reads on once there is room, and nothing is missing."""
    site.read("source/1")
    site.read("source/2", most_bytes=1)
    passed = list[int]()
    for first in range(0, 300, 100):
        publish(broker.address, "heat", numbered(first, first + 100))
        assert list(range(first + 100)) == site.awaited("source/1", first + 100)
    site.until(lambda: site.spools.states() == {"source/1": "ready", "source/2": "full"})

    def has_all() -> bool:
        passed.extend(site.pass_all("source/2"))
        return len(passed) >= 300

    site.until(has_all)
    assert list(range(300)) == passed
    assert 0 == site.received("source/2")["rejected"]


def test_a_source_that_is_a_whole_spool_behind_is_told_what_it_misses(site: Site, broker: Open) -> None:
    """While the other one, which keeps up, misses nothing."""
    site.read("source/1", most_bytes=20_000)
    site.read("source/2", most_bytes=1)
    heard: dict[str, list[int]] = {"source/1": [], "source/2": []}

    def has(stream: str, count: int) -> bool:
        heard[stream] += site.pass_all(stream)
        rejected: int = site.received(stream)["rejected"]
        return len(heard[stream]) + rejected >= count

    for first in range(0, 3_000, 100):
        publish(broker.address, "heat", numbered(first, first + 100))
        site.until(partial(has, "source/1", first + 100))
    assert list(range(3_000)) == heard["source/1"]
    site.until(partial(has, "source/2", 3_000))
    missed = site.received("source/2")["rejected"]
    assert 0 < missed < 3_000
    assert "far slower than others, and are gone" in site.received("source/2")["newest"][0]["reason"]
    assert sorted(set(heard["source/2"])) == heard["source/2"]
    assert (3_000 - missed, 0) == (len(heard["source/2"]), site.received("source/1")["rejected"])


def test_a_source_alone_misses_nothing_however_slow_it_is(site: Site, broker: Open) -> None:
    """Its feed becomes full, and the broker keeps the rest."""
    site.read("source/1", most_bytes=1_000)
    publish(broker.address, "heat", numbered(0, 500))
    site.until(lambda: site.spools.states() == {"source/1": "full"})
    passed = list[int]()

    def has_all() -> bool:
        passed.extend(site.pass_all("source/1"))
        return len(passed) >= 500

    site.until(has_all)
    assert list(range(500)) == passed


def test_hosts_with_one_root_share_a_feed(site: Site, broker: Open) -> None:
    """One has the connection; when it ends, the other goes on, also with its sources."""
    other = Site(site.root, broker.address.port)
    site.read("source/1")
    other.read("source/2")
    assert site.link("source/1")["connected"]
    assert other.link("source/2")["connected"]
    until(lambda: broker.connections() == 1)
    publish(broker.address, "heat", numbered(0, 10))
    assert list(range(10)) == site.awaited("source/1", 10)
    assert list(range(10)) == other.awaited("source/2", 10)
    site.spools.close()
    publish(broker.address, "heat", numbered(10, 20))
    assert list(range(20)) == other.awaited("source/2", 20)
    other.read("source/1")
    assert list(range(20)) == other.awaited("source/1", 20)
    other.remove("source/1")
    other.remove("source/2")
    other.until(lambda: broker.connections() == 0)
    other.spools.close()


@pytest.mark.parametrize("step", ["stop", "write_whole", "forget", "commit"])
def test_a_source_that_joins_while_another_host_ends_the_feed_loses_nothing_unnoticed(
    site: Site, broker: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It joins right before a step of that host, or is itself held up before a step until the feed has ended."""
    other = Site(site.root, broker.address.port)
    site.read("source/1")
    link = site.feed / ".link"
    joined, ended = threading.Event(), threading.Event()

    def is_settled() -> bool:
        return other.spools.states()["source/2"] == "ready" or bool(other.link("source/2")["error"])

    def join(*_arguments: Any) -> None:
        # The host forgets its source first, and then the feed.
        is_due = not consumers(site.feed) and not (step == "forget" and link.read_bytes())
        if is_due and not joined.is_set():
            joined.set()
            other.read("source/2", connects=False)
            until(is_settled)

    def hold(_folder: Path, consumer: str, _position: int) -> None:
        if consumer == "source/2":
            joined.set()
            assert ended.wait(30.0)

    owner: Any = {"write_whole": feeds, "commit": reading}.get(step, connector_run.ConnectorRun)
    known = getattr(owner, step)

    def stepped(*arguments: Any, **options: Any) -> Any:
        (hold if step == "commit" else join)(*arguments)
        return known(*arguments, **options)

    monkeypatch.setattr(owner, step, stepped)
    if step == "commit":
        other.read("source/2", connects=False)
        until(joined.is_set)
    site.remove("source/1")
    site.until(lambda: not link.read_bytes())
    ended.set()
    until(is_settled)
    has_begun = other.spools.states()["source/2"] == "ready"
    assert has_begun == (step in {"stop", "write_whole"})
    publish(broker.address, "heat", numbered(0, 10))
    other.until(lambda: b'"connected": true' in link.read_bytes() and other.link("source/2")["connected"])
    publish(broker.address, "heat", numbered(10, 20))
    assert list(range(10, 20)) == other.awaited("source/2", 10)
    assert has_begun == (other.received("source/2")["rejected"] == 1)
    other.spools.close()


def test_another_machine_goes_on_from_its_copy(broker: Open, scene: Scene) -> None:
    """With the feed, and so with what one of the sources had not read yet."""
    site = Site(scene.root, broker.address.port, scene.own(scene.serve()))
    site.read("source/1")
    site.read("source/2", most_bytes=1)
    publish(broker.address, "heat", numbered(0, 10))
    site.awaited("source/1", 10)
    site.until(lambda: site.spools.states()["source/2"] == "full")
    for first in range(10, 100, 10):
        publish(broker.address, "heat", numbered(first, first + 10))
    site.awaited("source/1", 100)
    publish(broker.address, "heat", numbered(100, 200))
    # Nothing that it does from now on is acknowledged.
    scene.replicators[0].close()
    site.spools.close()
    scene.servers["b"].close()
    copy = scene.place("b")
    CopyFolder(copy).recover()
    (copy / DEPLOYMENT).write_text((scene.root / DEPLOYMENT).read_text())
    taken_over = Site(copy, broker.address.port)
    try:
        for stream in ("source/1", "source/2"):
            taken_over.read(stream)
        publish(broker.address, "heat", numbered(200, 300))
        for stream in ("source/1", "source/2"):
            assert list(range(300)) == taken_over.awaited(stream, 300)
    finally:
        taken_over.spools.close()


def test_a_source_that_had_a_connection_before_keeps_it(site: Site, broker: Open, monkeypatch: Any) -> None:
    """So nothing is missed where an older release is replaced; once it is forgotten it shares."""
    with monkeypatch.context() as older:
        older.setattr(feeds, "shared_feed", lambda _supply: "")
        site.read("source/1")
        publish(broker.address, "heat", numbered(0, 10))
        site.awaited("source/1", 10)
        site.spools.close()
    publish(broker.address, "heat", numbered(10, 20))
    site.begin()
    site.read("source/1")
    assert list(range(20)) == site.awaited("source/1", 20)
    site.read("source/2")
    until(lambda: broker.connections() == 2)
    site.remove("source/1")
    site.read("source/1")
    until(lambda: broker.connections() == 1)


def test_a_source_whose_host_died_before_it_could_end_it_keeps_no_messages(site: Site, broker: Open) -> None:
    """Its last reader had left, so the next host that fills the feed takes it from the feed's consumers."""
    for stream in ("source/1", "source/2"):
        site.read(stream)
    leave(site.folder("source/2"), JOB)
    site.spools.close()
    assert {"source/1", "source/2"} == consumers(site.feed).keys()
    site.begin()
    site.read("source/1")
    site.until(lambda: {"source/1"} == consumers(site.feed).keys())
    publish(broker.address, "heat", numbered(0, 10))
    assert list(range(10)) == site.awaited("source/1", 10)


def test_a_feed_that_cannot_be_filled_is_the_trouble_of_its_sources(
    site: Site, broker: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of no other; once it can be filled again, nothing is missing."""
    monkeypatch.setattr(feeds, "_RETRY_SECONDS", 0.1)
    site.read("source/1")
    site.read("source/2", most_bytes=1)
    for first in (0, 10):
        publish(broker.address, "heat", numbered(first, first + 10))
        site.awaited("source/1", first + 10)
        site.until(lambda: site.spools.states()["source/2"] == "full")
    site.spools.close()
    (last,) = sorted((site.feed / "log").glob("0*"))[-1:]
    content = last.read_bytes()
    last.write_bytes(content[:-1])
    site.begin()
    for stream in ("source/1", "source/2"):
        site.read(stream, connects=False)
    site.read("source/3", topic="cold")
    for stream in ("source/1", "source/2"):
        site.until(lambda: "cannot be read" in site.link(stream)["error"])  # noqa: B023 - it is called at once
        assert not site.link(stream)["connected"]
    publish(broker.address, "heat", numbered(20, 30))
    last.write_bytes(content)
    for stream in ("source/1", "source/2"):
        assert list(range(30)) == site.awaited(stream, 30)


@pytest.mark.mosquitto
def test_all_sources_learn_of_a_lost_connection_and_session(tmp_path: Path) -> None:
    """Of what was before a source, it learns nothing."""
    with mosquitto(tmp_path / "broker", "allow_anonymous true", "persistence false") as started:
        site = Site(tmp_path / "root", started.port)
        for stream in ("source/1", "source/2"):
            site.read(stream)
        started.end(kill=True)
        for stream in ("source/1", "source/2"):
            site.until(lambda: not site.link(stream)["connected"])  # noqa: B023 - it is called at once
            assert f"mqtt://127.0.0.1:{started.port}" in site.link(stream)["error"]
        site.read("source/3", connects=False)
        started.start()
        for stream in ("source/1", "source/2"):
            site.until(lambda: site.received(stream)["rejected"])  # noqa: B023 - as above
            assert "may be missing; have the broker keep sessions" in site.received(stream)["newest"][0]["reason"]
        before = SystemClock().now()
        for stream in ("source/3", "source/4"):
            site.read(stream)
            assert 0 == site.received(stream)["rejected"]
        assert ("", None) == (site.link("source/4")["error"], site.link("source/4")["error_at"])
        assert site.link("source/4")["since"] >= before
        publish(started.address(), "heat", numbered(0, 10))
        for stream in ("source/1", "source/4"):
            assert list(range(10)) == site.awaited(stream, 10)
        site.spools.close()


# Crashes.

KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.connectors.shared_feed import FeedReader, FeedSession
from tests.engine.host import test_feeds
root, port, deaths, who, where = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
if test_feeds.STRANGERS in os.environ:
    test_feeds.let_in(test_feeds.USER, test_feeds.PASSWORD)
site = test_feeds.Site(root, port)
client = {"feed": FeedSession, "source": FeedReader}[who]
take, spooled, left = client.take, client.spooled, iter(range(deaths))
def die():
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
def dying_take(self, seconds):
    arrived = take(self, seconds)
    if arrived is not None and where == "between":
        die()
    return arrived
def dying_spooled(self):
    if where == "before":
        die()
    spooled(self)
    if where == "after":
        die()
client.take, client.spooled = dying_take, dying_spooled
for stream in ("source/1", "source/2"):
    site.read(stream, connects=False)
site.until(lambda: False)
"""
"""A host that dies after some groups of the feed or of a source, between taking and spooling one, or before or after it
lets go of it."""


@pytest.mark.parametrize("who", ["feed", "source"])
@pytest.mark.parametrize("where", ["between", "before", "after"])
def test_whatever_a_host_was_doing_when_it_was_killed_each_source_has_all_once(
    site: Site, broker: Open, who: str, where: str
) -> None:
    """Nothing is lost, and nothing doubled."""
    for stream in ("source/1", "source/2"):
        site.read(stream)
    site.spools.close()
    end = 0
    for deaths in (1, 4):
        with publishing(broker.address) as client:
            arguments = [str(site.root), str(broker.address.port), str(deaths), who, where]
            process = subprocess.Popen([sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3])  # noqa: S603 - as it runs here
            while process.poll() is None:
                client.publish("heat", b'{"n": %d}' % end)
                end += 1
                # Mosquitto keeps a thousand messages for who is away.
                threading.Event().wait(0.02)
            assert process.returncode == -signal.SIGKILL
    publish(broker.address, "heat", numbered(end, end + 1))
    site.begin()
    for stream in ("source/1", "source/2"):
        site.read(stream)
    for stream in ("source/1", "source/2"):
        assert list(range(end + 1)) == site.awaited(stream, end + 1)


# Which sources share.


def supplied(messages: MessageFormat = JSON, **form: Any) -> str:
    """The feed of a source."""
    text = MqttConnector.model_validate({"kind": "mqtt", **form}).model_dump_json(
        context={"owner": "ann"}, exclude={"format"}
    )
    return shared_feed(ConnectorSupply(connector=text, format=messages))


HOSTS = st.sampled_from(["plant", "plant.example", "10.0.0.7", "[fd00::7]"])
LEVELS = st.lists(st.sampled_from(["heat", "hall", "+", "{hall}", "{press}"]), min_size=1, max_size=3, unique=True)
PROTOCOLS = st.sampled_from(["5", "3.1.1"])


def connected(scheme: str, host: str, port: int, levels: list[str], protocol: str) -> tuple[Any, ...]:
    """What a broker hears of a connection."""
    return scheme, host, port, tuple("+" if level.startswith("{") else level for level in levels), protocol


FORMS = st.tuples(st.sampled_from(["mqtt", "mqtts"]), HOSTS, st.sampled_from([1883, 8883]), LEVELS, PROTOCOLS)


@given(
    one=FORMS, other=FORMS, short=st.booleans(), slash=st.booleans(), messages=st.sampled_from([JSON, CsvMessages()])
)
def test_sources_share_exactly_if_a_broker_could_not_tell_them_apart(
    *, one: Any, other: Any, short: bool, slash: bool, messages: MessageFormat
) -> None:
    """However their addresses are written, and whatever fields and formats they read."""
    texts = []
    for scheme, host, port, levels, protocol in (one, other):
        is_default = port == {"mqtt": 1883, "mqtts": 8883}[scheme]
        url = f"{scheme}://{host}" + ("" if short and is_default else f":{port}") + "/" * slash
        texts.append((url, "/".join(levels), protocol))
    (url, topic, protocol), second = texts
    first_feed = supplied(url=url, topic=topic, protocol=protocol)
    plain = f"{other[0]}://{other[1]}:{other[2]}"
    other_feed = supplied(messages, url=plain, topic=second[1], protocol=second[2])
    assert (first_feed == other_feed) == (connected(*one) == connected(*other))
    assert first_feed
    assert shared_feed(ConnectorSupply(connector=first_feed)) == first_feed
    for own in ({"secret": {"secret": "broker"}}, {"retained": True}, {"messages": SparkplugMessages()}):
        assert not supplied(**{"url": url, "topic": topic, "protocol": protocol, **own})


def test_other_authorities_are_other_feeds() -> None:
    """Whom one source trusts another may not; other kinds of connections are never shared."""
    known, other = (supplied(url="mqtts://plant", topic="heat", ca=ca) for ca in ("", "-----BEGIN CERTIFICATE-----"))
    assert known != other
    opcua = '{"kind":"opcua","url":"opc.tcp://plc","nodes":{"heat":"i=1"}}'
    assert not shared_feed(ConnectorSupply(connector=opcua))
