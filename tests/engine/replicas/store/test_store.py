"""A host's store: what a restored host has, what is refused, and what is removed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.files import make_folder
from engine.replicas import peer_sender, store_copy
from engine.replicas.copies import HostSuperseded, Replicator
from engine.replicas.store_copy import (
    NoRestoration,
    NothingStored,
    RestorationRequest,
    StoreAddress,
    request_restoration,
    restorable,
    restore,
)
from engine.replicas.store_objects import HigherTerm, NoStore, StoreAway, StoreDamaged, StoreObjects
from tests.engine.replicas.scene import EVENTS, Scene, files, sent_bytes, until
from tests.engine.replicas.store.stores import OTHER, MemoryStore

DEPLOYMENT = "hosts/h/deployment"


def own(
    scene: Scene, store: MemoryStore, *, term: int = 1, root: Path | None = None, counted: bool = True
) -> Replicator:
    """Keep the host of a scene in a store."""
    replicator = Replicator("h", root or scene.root, "a", on_kept=scene.kept.release, store=store)
    scene.replicators.append(replicator)
    replicator.order(term, [], frozenset({store.machine}) if counted else frozenset())
    return replicator


def test_a_host_is_restored_byte_for_byte(scene: Scene, tmp_path: Path) -> None:
    """With times and empty folders; another owner goes on with it and sends only what is new."""
    store = MemoryStore()
    scene.append(0, b"one")
    scene.write("jobs/j/plans/00000001", b"x" * 3_000_000)
    make_folder(scene.root / "jobs/j/records/shards")
    own(scene, store).settle()
    place = store.restored(tmp_path / "new", term=2)
    assert files(scene.root) == files(place)
    assert (place / "jobs/j/records/shards").is_dir()
    scene.replicators[0].close()
    moved = MemoryStore(identity=OTHER.root)
    moved.url = store.url
    went_on = own(scene, moved, term=2, root=place)
    went_on.settle()
    assert sent_bytes(went_on) < 10_000


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_restoration_that_was_cut_off_is_done_again(scene: Scene, tmp_path: Path, steps: int) -> None:
    """In the same term, and over what the first attempt left."""
    store, left, place = MemoryStore(), [steps], tmp_path / "new"
    for number in range(4):
        scene.append(number)
    own(scene, store).settle()
    scene.replicators[0].close()

    def step(_name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("the machine is lost")

    with pytest.raises(OSError, match="lost"):
        restore(store.objects(), 2, place, OTHER, step=step)
    (place / EVENTS / "stray").write_bytes(b"left")
    restore(store.objects(), 2, place, OTHER)
    assert files(scene.root) == files(place)


def test_a_folder_can_be_a_store(scene: Scene, tmp_path: Path) -> None:
    """Such as one that is mounted from elsewhere."""
    url = f"file://{tmp_path}/mounted"
    replicator = Replicator(
        "h", scene.root, "a", on_kept=scene.kept.release, store=StoreAddress(url=url, identity="the root of a")
    )
    scene.replicators.append(replicator)
    replicator.order(1, [], frozenset({"the store"}))
    scene.append(0)
    replicator.settle()
    restore(StoreObjects(url, "h"), 2, tmp_path / "new", OTHER)
    assert files(scene.root) == files(tmp_path / "new")


def test_a_store_counts_once_it_has_everything(scene: Scene) -> None:
    """It is reported like a machine with a copy; a host of which no leader knows has none."""
    store = MemoryStore()
    scene.append(0)
    unknown = own(scene, store, term=0, counted=False)
    unknown.settle()
    assert [] == store.names()
    unknown.order(1, [], frozenset())
    until(lambda: unknown.report().in_sync == {store.machine})


def test_a_carrier_without_a_store_waits_until_the_leader_says_so(scene: Scene) -> None:
    """Its last carrier had one, so it counts, and is reported as broken."""
    replicator = Replicator("h", scene.root, "a", on_kept=scene.kept.release)
    scene.replicators.append(replicator)
    replicator.order(2, [], frozenset({"the store"}))
    assert {"the store"} == replicator.report().broken
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(replicator.settle)
        replicator.order(2, [], frozenset())
        waiting.result()


def test_objects_and_bytes_of_a_store_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much came and went, there are few more objects than what is left needs, and twice its bytes."""
    monkeypatch.setattr(store_copy, "MOST_ROUNDS", 5)
    monkeypatch.setattr(store_copy, "PACK_BYTES", 4_000)
    monkeypatch.setattr(store_copy, "SMALL_PACK", 1_000)
    store = MemoryStore()
    replicator = own(scene, store)
    for number in range(120):
        path = scene.append(number, b"x" * 400)
        if number % 3:
            path.unlink()
        replicator.settle(path.parent)
    live = sum(len(content) for content, _ in files(scene.root).values())
    names = store.names()
    assert 1 == sum(name.startswith("claims") for name in names)
    assert len(names) <= 2 * live / 1_000 + 10
    contents = sum(size for of in ("packs", "rounds") for size in store.objects().sizes(of).values())
    assert contents <= 2 * live + 10_000


def test_an_owner_of_an_older_term_ends(scene: Scene, tmp_path: Path) -> None:
    """From the claim of a later one on, nothing that it sends counts, and it may not begin again."""
    store = MemoryStore()
    replicator = own(scene, store)
    replicator.settle()
    store.restored(tmp_path / "new", term=2)
    scene.append(0)
    with pytest.raises(HostSuperseded, match="of term 2"):
        replicator.settle()
    with pytest.raises(HigherTerm):
        restore(store.objects(), 1, tmp_path / "older", OTHER)


@pytest.mark.parametrize("of", ["packs", "rounds", "states"])
@pytest.mark.parametrize("how", ["missing", "damaged", "cut"])
def test_a_store_without_one_of_its_objects_is_refused(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, how: str
) -> None:
    """With its name; only that of the last round may as well never have been."""
    if of != "rounds":
        # There is a pack as soon as rounds are gathered, which are gone then.
        monkeypatch.setattr(store_copy, "PACK_BYTES", 100)
    monkeypatch.setattr(peer_sender, "WHOLE_SECONDS", 3600.0)
    store = MemoryStore()
    replicator = own(scene, store)
    names: list[str] = []
    for number in range(40):
        path = scene.append(number, b"x" * 99)
        scene.write(f"jobs/j/plans/{number:08d}", b"y" * 99)
        replicator.settle(path.parent)
        replicator.settle()
        names = [each for each in store.names() if each.startswith(of)]
        if number >= 3 and len(names) >= 2:
            break
    name = names[-2 if of == "rounds" else -1]
    if how == "missing":
        store.remove(name)
    else:
        content = store.contents()[name]
        store.put(name, content[: len(content) // 2] if how == "cut" else b"?" + content[1:])
    if of == "states" and how == "missing":
        with pytest.raises(NothingStored):
            restorable(store.objects())
        return
    with pytest.raises(StoreDamaged, match=name):
        restore(store.objects(), 2, tmp_path / "new", OTHER)


def test_nothing_begins_from_a_store_that_never_got_everything(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first files came in portions, and it broke in between."""
    monkeypatch.setattr(peer_sender, "PORTION", 1_000)
    breaks = [True]

    def step(name: str) -> None:
        if breaks[0] and name.startswith("put rounds") and name.endswith("3"):
            raise StoreAway("it broke")

    store = MemoryStore(step)
    with pytest.raises(NothingStored, match="has no files"):
        restore(store.objects(), 2, tmp_path / "new", OTHER)
    for number in range(9):
        scene.append(number, b"x" * 600)
    replicator = own(scene, store, counted=False)
    until(lambda: "it broke" in replicator.report().troubles.get(store.machine, ""))
    with pytest.raises(NothingStored, match="never got all"):
        restore(store.objects(), 2, tmp_path / "new", OTHER)
    breaks[0] = False
    until(lambda: replicator.report().in_sync == {store.machine})
    replicator.close()
    assert files(scene.root) == files(store.restored(tmp_path / "new", term=2))


def test_a_state_that_was_whole_is_restored_while_a_later_one_comes_in_portions(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was added meanwhile is left out."""
    monkeypatch.setattr(peer_sender, "PORTION", 1_000)
    store = MemoryStore()
    scene.append(0)
    own(scene, store).settle()
    before = files(scene.root)
    scene.replicators[0].close()

    def step(name: str) -> None:
        if name.startswith("put rounds") and name.endswith("3"):
            raise StoreAway("it broke")

    store._step = step
    for number in range(1, 9):
        scene.append(number, b"x" * 600)
    replicator = own(scene, store, counted=False)
    until(lambda: "it broke" in replicator.report().troubles.get(store.machine, ""))
    replicator.close()
    assert before == files(store.restored(tmp_path / "new", term=2))


def test_another_deployment_s_store_is_left_alone(scene: Scene, tmp_path: Path) -> None:
    """Whatever its term; the host says which URL is wrong."""
    store = MemoryStore()
    scene.write(DEPLOYMENT, b"one")
    own(scene, store).settle()
    scene.replicators[0].close()
    before = store.contents()
    other = Scene(tmp_path / "other")
    other.write(DEPLOYMENT, b"two")
    replicator = own(other, store, term=7, counted=False)
    try:
        until(lambda: "another deployment" in replicator.report().troubles.get(store.machine, ""))
    finally:
        other.close()
    assert before == store.contents()


def test_a_store_that_does_not_answer_breaks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader may drop it then; it is used again once it answers."""
    monkeypatch.setattr(peer_sender, "BROKEN_SECONDS", 0.05)
    away = [False]

    def step(_name: str) -> None:
        if away[0]:
            raise StoreAway("it does not answer")

    store = MemoryStore(step)
    replicator = own(scene, store)
    replicator.settle()
    away[0] = True
    scene.append(0)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(replicator.settle, scene.root / EVENTS)
        until(lambda: store.machine in replicator.report().broken)
        assert not waiting.done()
        away[0] = False
        waiting.result()


def test_a_restoration_is_asked_for_once(scene: Scene, tmp_path: Path) -> None:
    """On an empty folder, and with a store that has the host; after it is done, nothing is asked any more."""
    store, root = MemoryStore(), tmp_path / "new"
    with pytest.raises(NoRestoration, match="has no files of a host; see"):
        request_restoration(root, "h", store.url, accepts_loss=False)
    scene.append(0)
    own(scene, store).settle()
    assert "1 files of machine a in term 1" == request_restoration(root, "h", store.url, accepts_loss=False)
    assert "1 files of machine a in term 1" == request_restoration(root, "h", store.url, accepts_loss=True)
    RestorationRequest(restores="the root of a", accepts_loss=True, done=True).keep(root)
    assert "" == request_restoration(root, "h", store.url, accepts_loss=False)
    with pytest.raises(NoRestoration, match="give an empty folder"):
        request_restoration(scene.root, "h", store.url, accepts_loss=False)


@pytest.mark.parametrize(
    ("url", "why"),
    [("bucket/folder", "is no URL"), ("s3x://bucket", "is no URL"), ("", "is no URL"), ("gs://b", "needs a package")],
)
def test_what_is_no_store_is_refused(url: str, why: str) -> None:
    """With an example of one, or the package that is missing."""
    with pytest.raises(NoStore, match=why):
        StoreObjects(url, "h")
