"""The machine: which hosts it runs, from which folders, and when it gives one up."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bridge.broker import start_broker
from bridge.transport.address import Address
from engine.machines.machine import CarriedElsewhere
from engine.machines.orders import OrderStore
from engine.machines.reports import MachineFigures, signed_content
from engine.replicas.channel import TlsFiles
from engine.replicas.copies import Replicator
from engine.replicas.store_copy import StoreAddress, request_restoration
from ring.fleet import STORE
from tests import needs
from tests.authority import Authority
from tests.engine.machines.scene import MachineScene


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
