"""The machine over a real broker: which hosts it runs, from which folders, its key, and its warm-up."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bridge import Message, topics
from bridge.broker import start_broker
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from engine.host.keeper import CopyAddress, MachineOptions
from engine.machines import machine as machines
from engine.machines import warm_up as module
from engine.machines.carried_host import keep_deployment, link_common
from engine.machines.machine import CarriedElsewhere, Machine
from engine.machines.orders import OrderStore
from engine.machines.reports import MachineFigures, MachineKey, measured_speed, public_key, signed_content
from engine.machines.warm_up import keep_warm
from engine.outside import HostOutside, Vault
from engine.replicas.channel import TlsFiles
from engine.replicas.copies import Replicator
from engine.replicas.store_copy import StoreAddress, request_restoration
from ring.fleet import STORE
from tests import needs
from tests.authority import Authority

T = TypeVar("T")
_BOUND = 30.0


class IdleHost:
    """A host without Spark; made by the machine."""

    has_jobs = True

    def __init__(self, name: str, root: Path, **_given: object) -> None:
        self.name = name
        self.root = root
        self.runs = False
        self._stopping = threading.Event()
        RUN.append(self)

    def run(self) -> bool:
        """Run until stopped."""
        self.runs = True
        self._stopping.wait()
        self.runs = False
        return False

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping.set()

    def hang_up(self) -> None:
        """There is nothing to acknowledge."""

    def copies_grew(self) -> None:
        """Nothing waits for copies."""


RUN: list[IdleHost] = []
"""All hosts that were made."""


class MachineScene:
    """One broker, its machines, and an operator who orders and listens."""

    def __init__(self, folder: Path, address: Address, patch: pytest.MonkeyPatch) -> None:
        RUN.clear()
        patch.setattr(machines, "SparkHost", IdleHost)
        patch.setattr(machines, "cores_of", lambda _session: 1)
        patch.setattr(machines, "keep_warm", lambda _session, _stopping, _is_cold: None)
        patch.setattr(machines, "_ASK", 3.0)
        self.folder = folder
        self.statuses: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, bytes] = {}
        """The latest status of each machine as it came."""
        self.ended: dict[str, BaseException | None] = {}
        self._address = address
        self._machines: dict[str, tuple[Machine, threading.Thread]] = {}
        self._news = threading.Condition()
        self._line = MqttClient(address, "operator", topics=[topics.machine("+", "status")], on_message=self._take)
        self._line.start()

    def start(  # noqa: PLR0913 - its name, and all that it may offer
        self,
        name: str,
        *,
        copies: bool = True,
        hosts: int = 1,
        address: Address | None = None,
        files: TlsFiles | None = None,
        store: str = "",
    ) -> None:
        """Start a machine."""
        session: Any = object()
        copies_at = CopyAddress(host="127.0.0.1", port=0, files=files) if copies else None
        root = self.folder / (name if copies else "shared")
        options = MachineOptions(hosts=hosts, copies=copies_at, store=store)
        made = Machine(name, root, address or self._address, session, options, behaviours={})

        def run() -> None:
            try:
                made.run()
                self.ended[name] = None
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.ended[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        self._machines[name] = made, thread

    def stop(self, name: str) -> None:
        """Stop a machine, and wait until it has ended."""
        machine, thread = self._machines.pop(name)
        machine.stop()
        thread.join(_BOUND)
        assert not thread.is_alive()

    def close(self) -> None:
        """Stop everything."""
        for name in list(self._machines):
            self.stop(name)
        self._line.stop()

    def order(self, host: str, machine: str, term: int, version: int, **more: Any) -> None:
        """Order who carries a host, and wait until the broker has it."""
        content = {"host": host, "machine": machine, "term": term, "version": version, **more}
        answered = threading.Event()
        self._line.publish(
            topics.host(host, "carrier"),
            json.dumps(content).encode(),
            retain=True,
            answered=lambda _why: answered.set(),
        )
        assert answered.wait(_BOUND)

    def peer(self, name: str) -> dict[str, str]:
        """Where a machine takes copies."""
        status = self.until(lambda: self.statuses.get(name), f"a status of {name}")
        return {"machine": name, "at": status["at"], "secret": status["secret"]}

    def carried(self, name: str) -> dict[str, Any]:
        """What a machine last reported of its hosts."""
        found: dict[str, Any] = self.statuses.get(name, {}).get("hosts", {})
        return found

    def running(self) -> set[tuple[str, str]]:
        """The hosts that run now, and the folder of each below this scene's."""
        return {(host.name, str(host.root.relative_to(self.folder))) for host in RUN if host.runs}

    def until(self, found: Callable[[], T | None], what: str) -> T:
        """Wait until something is so."""
        deadline = time.monotonic() + _BOUND
        with self._news:
            while not (value := found()):
                assert time.monotonic() < deadline, what
                # Hosts begin and end without news.
                self._news.wait(0.05)
        return value

    def _take(self, message: Message) -> None:
        with self._news:
            if message.payload:
                name = message.topic.split("/")[3]
                self.statuses[name], self.messages[name] = json.loads(message.payload), message.payload
            self._news.notify_all()
        self._line.acknowledge([message.token])


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MachineScene]:
    with start_broker(tmp_path / "broker", {"braid": "secret"}) as broker:
        made = MachineScene(tmp_path / "machines", broker.address("braid"), monkeypatch)
        yield made
        made.close()


@pytest.mark.parametrize("copies", [False, True])
def test_a_machine_of_which_nobody_knows_carries_its_own_host(scene: MachineScene, *, copies: bool) -> None:
    """It does not wait for a manager."""
    scene.start("ash", copies=copies)
    scene.until(lambda: scene.running() == {("ash", "ash" if copies else "shared")}, "its own host")
    scene.until(lambda: scene.carried("ash"), "a report")
    assert {"ash": 0} == {host: each["version"] for host, each in scene.carried("ash").items()}


def test_a_machine_begins_with_all_its_own_hosts(scene: MachineScene) -> None:
    """Each with files of its own; the status names them, also the last one, and they may go elsewhere one by one."""
    scene.start("ash", hosts=3)
    expected = {("ash", "ash"), ("ash.2", "ash/copies/ash.2"), ("ash.3", "ash/copies/ash.3")}
    scene.until(lambda: scene.running() == expected, "its own hosts")
    scene.until(lambda: len(scene.carried("ash")) == 3, "a report")
    assert ["ash", "ash.2", "ash.3"] == scene.statuses["ash"]["own"]
    scene.order("ash.2", "ash", 1, 1, heir="elm")
    scene.until(lambda: scene.carried("ash").get("ash.2", {}).get("released"), "the release")
    scene.order("ash.2", "elm", 2, 2)
    scene.until(lambda: set(scene.carried("ash")) == {"ash", "ash.3"}, "the end of the report")
    scene.stop("ash")
    scene.until(lambda: not scene.statuses["ash"]["alive"], "its last word")
    assert ["ash", "ash.2", "ash.3"] == scene.statuses["ash"]["own"]


def test_the_hosts_of_a_machine_share_its_figures() -> None:
    """Its CPU is reported once, by the first of its own that is there, and each has an equal part of its cores."""
    figures = MachineFigures("ash", ("ash", "ash.2"), lambda: 3)
    reported = {host: figures.figures(host, ["ash", "ash.2", "elm"]) for host in ("ash", "ash.2", "elm")}
    assert [True, False, False] == [bool(each["cpu"]) for each in reported.values()]
    assert {(1.0, "ash")} == {(each["cores"], each["machine"]) for each in reported.values()}
    assert figures.figures("ash.2", ["elm"])["cpu"]


def test_what_a_machine_reports_is_signed(scene: MachineScene) -> None:
    """Its status, and its last word, so that both are known to be its own."""
    scene.start("ash")
    scene.until(lambda: scene.carried("ash"), "a report")
    key = signed_content(scene.messages["ash"])["key"]
    scene.stop("ash")
    scene.until(lambda: not scene.statuses["ash"]["alive"], "its last word")
    assert signed_content(scene.messages["ash"])["key"] == key


def test_a_host_that_is_taken_over_runs_in_the_folder_of_its_copy(scene: MachineScene) -> None:
    """Beside the machine's own host."""
    scene.start("ash")
    scene.order("elm", "ash", 2, 5)
    scene.until(lambda: scene.running() == {("ash", "ash"), ("elm", "ash/copies/elm")}, "both")
    scene.until(lambda: scene.carried("ash").get("elm", {}).get("version") == 5, "a report")


def test_machines_with_certificates_keep_copies_of_each_other(scene: MachineScene, tmp_path: Path) -> None:
    """One that has none is broken to those that do."""
    needs.openssl()
    authority = Authority(tmp_path / "authority")
    for name in ("ash", "elm"):
        certificate, key = authority.certify(name, "IP:127.0.0.1")
        scene.start(name, files=TlsFiles(certificate=certificate, key=key, authority=authority.certificate))
    scene.start("oak")
    scene.order("ash", "ash", 1, 1, peers=[scene.peer("elm"), scene.peer("oak")])
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("in_sync") == ["elm"], "a copy at elm")
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("broken") == ["oak"], "none at oak")
    assert ["elm"] == scene.carried("ash")["ash"]["in_sync"]


def test_machines_with_one_root_run_hosts_where_they_are(scene: MachineScene) -> None:
    """Nothing is copied, so nothing lies elsewhere."""
    scene.start("ash", copies=False)
    scene.order("elm", "ash", 2, 2)
    scene.until(lambda: scene.running() == {("ash", "shared"), ("elm", "shared")}, "both")


def test_a_host_that_is_handed_over_is_released_once_it_has_stopped(scene: MachineScene) -> None:
    """If it stays after all, it runs again; if it goes, the machine goes on without it."""
    scene.start("ash")
    scene.order("ash", "ash", 1, 1)
    scene.until(scene.running, "its own host")
    scene.order("ash", "ash", 1, 2, heir="elm")
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("released"), "the release")
    assert set() == scene.running()
    scene.order("ash", "ash", 1, 3)
    scene.until(lambda: scene.running() == {("ash", "ash")}, "the host again")
    scene.order("ash", "ash", 1, 4, heir="elm")
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("released"), "the release")
    scene.order("ash", "elm", 2, 5)
    scene.until(lambda: not scene.carried("ash"), "the end of the report")
    assert {} == scene.ended


def test_a_machine_whose_host_was_taken_over_ends(scene: MachineScene) -> None:
    """It was held up; what its workers know is not what others do."""
    scene.start("ash")
    scene.order("ash", "ash", 1, 1)
    scene.until(scene.running, "its own host")
    scene.order("ash", "elm", 2, 2)
    scene.until(lambda: "ash" in scene.ended, "its end")
    assert isinstance(scene.ended["ash"], CarriedElsewhere)
    assert set() == scene.running()


def test_an_older_order_changes_nothing(scene: MachineScene) -> None:
    """A leader that was replaced may still publish."""
    scene.start("ash")
    scene.order("ash", "ash", 3, 7)
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("version") == 7, "a report")
    scene.order("ash", "elm", 2, 9)
    scene.order("oak", "ash", 1, 1)
    scene.until(lambda: scene.running() == {("ash", "ash"), ("oak", "ash/copies/oak")}, "the next order")
    assert {} == scene.ended


def test_a_machine_that_starts_again_does_what_was_ordered_meanwhile(scene: MachineScene) -> None:
    """It starts no host that another machine carries by now, nor one that it was handing over."""
    scene.start("ash")
    scene.order("ash", "ash", 1, 1)
    scene.order("oak", "ash", 4, 4)
    scene.until(lambda: len(scene.running()) == 2, "both")
    scene.stop("ash")
    scene.order("ash", "elm", 2, 2)
    scene.order("oak", "ash", 4, 5, heir="elm")
    scene.start("ash")
    scene.until(lambda: scene.carried("ash").get("oak", {}).get("released"), "the release")
    assert {"oak"} == set(scene.carried("ash"))
    assert set() == scene.running()


def test_a_machine_without_a_broker_starts_what_it_carried_last(scene: MachineScene) -> None:
    """As long as the broker is away nobody can have taken its hosts over and published."""
    scene.start("ash")
    scene.order("oak", "ash", 4, 4)
    scene.until(lambda: len(scene.running()) == 2, "both")
    scene.stop("ash")
    scene.start("ash", address=Address.parse("mqtt://braid:secret@127.0.0.1:1"))
    scene.until(lambda: scene.running() == {("ash", "ash"), ("oak", "ash/copies/oak")}, "both again")


def test_a_machine_with_an_empty_disk_does_not_begin_its_host_anew(scene: MachineScene) -> None:
    """Others have its files, under the id of the disk that is lost."""
    scene.order("ash", "ash", 1, 3, root="another disk")
    scene.start("ash")
    scene.until(lambda: scene.statuses.get("ash", {}).get("alive"), "a status")
    assert set() == scene.running()
    assert {} == scene.carried("ash")


def test_a_peer_that_was_reported_counts_after_a_crash_too(scene: MachineScene) -> None:
    """The leader may rely on it before the machine hears so."""
    scene.start("ash")
    scene.start("elm")
    scene.order("ash", "ash", 1, 2, peers=[scene.peer("elm")])
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("in_sync") == ["elm"], "a copy")
    (order,) = (each for each in OrderStore(scene.folder / "ash", "ash").all() if each.host == "ash")
    assert frozenset({"elm"}) == order.kept_by
    scene.stop("ash")
    scene.start("ash")
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("in_sync") == ["elm"], "the same report")
    scene.order("ash", "ash", 1, 3)
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("version") == 3, "the next version")
    (order,) = (each for each in OrderStore(scene.folder / "ash", "ash").all() if each.host == "ash")
    assert frozenset() == order.kept_by


def test_a_peer_that_was_reported_and_breaks_is_reported_as_both(scene: MachineScene) -> None:
    """The machine goes on waiting for it, and only an order of the leader can end that."""
    scene.start("ash")
    scene.start("elm")
    scene.order("ash", "ash", 1, 2, peers=[scene.peer("elm")])
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("in_sync") == ["elm"], "a copy")
    scene.stop("elm")
    scene.until(lambda: scene.carried("ash")["ash"]["broken"] == ["elm"], "the break")
    assert ["elm"] == scene.carried("ash")["ash"]["in_sync"]
    scene.order("ash", "ash", 1, 3)
    scene.until(lambda: scene.carried("ash")["ash"]["in_sync"] == [], "the end of waiting")


def _stored(scene: MachineScene, files: Iterable[str] = ("hosts/ash/deployment", "jobs/j/lease")) -> str:
    """A store with host ash as it was in term 1, on a disk that is lost."""
    url = f"file://{scene.folder}/store"
    root = scene.folder / "lost"
    for name in files:
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(name.encode())
    replicator = Replicator("ash", root, "ash", on_kept=lambda: None, store=StoreAddress(url=url, identity="lost"))
    replicator.order(1, [], frozenset({STORE}))
    replicator.settle()
    replicator.close()
    return url


def test_a_machine_restores_its_host_once_the_leader_says_so(scene: MachineScene) -> None:
    """Until then it carries nothing; then it has the files, under the old id of the deployment, and goes on storing."""
    url = _stored(scene)
    request_restoration(scene.folder / "ash", "ash", url, accepts_loss=False)
    scene.order("ash", "ash", 1, 3, root="lost", kept_by=[STORE])
    scene.start("ash", store=url)
    scene.until(lambda: scene.statuses.get("ash", {}).get("restores") == "lost", "the offer")
    assert {} == scene.carried("ash")
    scene.order("ash", "ash", 2, 4, root=scene.statuses["ash"]["root"], kept_by=[STORE])
    scene.until(lambda: scene.running() == {("ash", "ash")}, "its host")
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("in_sync") == [STORE], "a report")
    assert "hosts/ash/deployment" == (scene.folder / "ash" / "deployment").read_text()
    assert (scene.folder / "ash/jobs/j/lease").exists()
    scene.until(lambda: scene.statuses["ash"]["restores"] == "", "the end of the offer")
    scene.stop("ash")
    scene.start("ash", store=url)
    scene.until(lambda: scene.running() == {("ash", "ash")}, "its host again")


def test_a_host_that_others_send_copies_of_is_not_restored(scene: MachineScene) -> None:
    """They have newer files, and once it is handed back it goes on from those."""
    url = _stored(scene)
    request_restoration(scene.folder / "ash", "ash", url, accepts_loss=False)
    scene.start("ash", store=url)
    scene.start("elm")
    scene.order("ash", "elm", 2, 4, peers=[scene.peer("ash")])
    scene.until(lambda: scene.statuses["ash"]["restores"] == "", "the end of the offer")
    scene.until(lambda: "ash" in scene.carried("elm").get("ash", {}).get("in_sync", []), "a copy")
    scene.order("ash", "elm", 2, 5, peers=[scene.peer("ash")], heir="ash")
    scene.until(lambda: scene.carried("elm")["ash"]["released"], "the release")
    scene.order("ash", "ash", 3, 6, root=scene.statuses["ash"]["root"])
    scene.until(lambda: ("ash", "ash") in scene.running(), "its host")
    assert not (scene.folder / "ash/jobs/j").exists()


def test_a_machine_whose_host_goes_on_under_its_name_elsewhere_ends(scene: MachineScene) -> None:
    """It was taken for lost, and restored on another disk, while it was only slow."""
    scene.start("ash")
    scene.order("ash", "ash", 1, 1)
    scene.until(lambda: scene.carried("ash").get("ash", {}).get("version") == 1, "a report")
    scene.order("ash", "ash", 2, 2, root="another disk")
    scene.until(lambda: "ash" in scene.ended, "its end")
    assert isinstance(scene.ended["ash"], CarriedElsewhere)


def test_secrets_of_the_common_folder_are_found_in_each_root(tmp_path: Path) -> None:
    """Whether they were kept before the root was linked, or after."""
    common, root = tmp_path / "common", tmp_path / "root"
    link_common(root, common)
    link_common(root, common)
    Vault(common).put("ann", "token", "hush")
    assert "hush" == HostOutside(root).secret("ann", "token")


def test_a_root_that_is_the_common_folder_is_not_linked(tmp_path: Path) -> None:
    """A link to itself would hide what comes."""
    link_common(tmp_path, tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_effects_outside_have_one_name_wherever_the_host_is_carried(tmp_path: Path) -> None:
    """The id is in a folder that is copied, so that a repeated batch writes under the same names."""
    first, second = tmp_path / "first", tmp_path / "second"
    keep_deployment(first, "ash")
    shutil.copytree(first / "hosts", second / "hosts")
    keep_deployment(second, "ash")
    assert HostOutside(first).deployment == HostOutside(second).deployment


def test_hosts_have_ids_of_their_own(tmp_path: Path) -> None:
    """Two that begin apart do not write under each other's names."""
    for name in ("ash", "elm"):
        keep_deployment(tmp_path / name, name)
    assert HostOutside(tmp_path / "ash").deployment != HostOutside(tmp_path / "elm").deployment


REPORT = {"machine": "m", "alive": True, "cores": 1.5, "hosts": {"m": {"version": 2, "in_sync": ["n"]}}}


def test_a_root_has_one_key(tmp_path: Path) -> None:
    """Machines that share it share the key, and another root has another one."""
    assert public_key(tmp_path / "a") == ""
    key = MachineKey(tmp_path / "a")
    assert {MachineKey(tmp_path / "a").public, public_key(tmp_path / "a")} == {key.public}
    assert MachineKey(tmp_path / "b").public != key.public


def test_nobody_else_reads_the_key(tmp_path: Path) -> None:
    """From its first moment on."""
    MachineKey(tmp_path)
    assert stat.S_IMODE((tmp_path / "machine.key").stat().st_mode) == 0o600


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    (tmp_path / "machine.key").write_bytes(b"?")
    with pytest.raises(OSError, match=r"machine\.key holds no key of a machine; remove it"):
        MachineKey(tmp_path)


def test_what_is_signed_is_the_report(tmp_path: Path) -> None:
    """A message holds all of it, and the public key."""
    message = MachineKey(tmp_path).signed(REPORT)
    found = signed_content(message)
    assert {name: found[name] for name in REPORT} == REPORT


@pytest.mark.parametrize(
    "forged",
    [
        {"alive": False},
        {"machine": "n"},
        {"later": 1},
        {"signature": ""},
        {"signature": "A" * 86},
        {"signature": None},
        {"key": "A" * 43},
        {"key": "?"},
        {"key": 1},
    ],
)
def test_a_changed_message_is_refused(tmp_path: Path, forged: dict[str, object]) -> None:
    """Whatever is changed, left out or added."""
    message = {**json.loads(MachineKey(tmp_path).signed(REPORT)), **forged}
    with pytest.raises(ValueError, match="not signed with the key"):
        signed_content(json.dumps(message).encode())


SCRIPT = """
import json
import tempfile
from pathlib import Path

from engine.machines.warm_up import warm_up
from engine.spark.session import start_session

session = start_session("warm", master="local[1]")
before = set(Path(tempfile.gettempdir()).glob("braid-*"))
warm_up(session, lambda: False)
left = set(Path(tempfile.gettempdir()).glob("braid-*")) - before
print(json.dumps([len(session.streams.active), len(left)]))
session.stop()
"""


def warmed(patch: pytest.MonkeyPatch, cold: list[bool], *, fails: bool = False) -> list[bool]:
    """Keep warm for as many looks as there are answers; for each whether the machine was warmed up."""
    stopping, done = threading.Event(), list[bool]()
    session: Any = object()
    patch.setattr(module, "_WARM_SECONDS", 0.0)

    def warm_up(_session: object, _is_over: object) -> None:
        done[-1] = True
        if fails:
            raise OSError("no JVM")

    def is_cold(*, begins: bool) -> bool:
        assert begins is (not done)
        done.append(False)
        if len(done) == len(cold):
            stopping.set()
        return cold[len(done) - 1]

    patch.setattr(module, "warm_up", warm_up)
    keep_warm(session, stopping, is_cold)
    return done


def test_a_machine_is_warmed_up_whenever_it_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only at its start, since idle workers go."""
    assert [True, False, True] == warmed(monkeypatch, [True, False, True])


def test_a_warm_up_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again when it is due."""
    assert [True, True] == warmed(monkeypatch, [True, True], fails=True)


@pytest.mark.spark
def test_a_warm_up_leaves_neither_a_query_nor_files(tmp_path: Path) -> None:
    """Its job has come to its end, on real Spark, before it returns."""
    command = [sys.executable, "-c", SCRIPT]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)  # noqa: S603 - our own command
    assert [0, 0] == json.loads(done.stdout)
    assert "aborted" not in done.stderr


def test_the_speed_of_a_core_is_measured_by_its_cpu() -> None:
    """However busy the computer is: what others take does not count. Nobody's core is far from the reference."""
    assert 0.05 < measured_speed() < 20.0
