"""A host's store: what a restored host has and what is refused, over a real API, and if it breaks anytime."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.files import make_folder
from bridge.machine import BackOff
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
from ring.fleet import STORE
from tests.engine.replicas.host_model import contents, faults
from tests.engine.replicas.scene import EVENTS, OTHER, MemoryStore, Scene, files, sent_bytes, until
from tests.engine.replicas.test_peer_sender import Watched, quick
from tests.s3 import serving_s3

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


@pytest.mark.full
def test_a_host_is_restored_from_a_bucket(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After objects were gathered and removed; the owner before ends, and a bucket that is not there is named."""
    monkeypatch.setattr(store_copy, "MOST_ROUNDS", 5)
    with serving_s3() as url:
        with pytest.raises(NothingStored):
            restorable(StoreObjects(url, "h"))
        with pytest.raises(StoreAway, match="is not there"):
            StoreObjects("s3://no-such-bucket", "h").put("claims/1", b"")
        replicator = Replicator(
            "h", scene.root, "a", on_kept=scene.kept.release, store=StoreAddress(url=url, identity="the root of a")
        )
        scene.replicators.append(replicator)
        replicator.order(1, [], frozenset({STORE}))
        for number in range(20):
            path = scene.append(number, b"x" * 10_000)
            replicator.settle(path.parent)
            if number > 2:
                (path.parent / f"{number - 3:020d}-{number - 2:020d}").unlink()
        replicator.settle()
        restore(StoreObjects(url, "h"), 2, tmp_path / "new", OTHER)
        assert files(scene.root) == files(tmp_path / "new")
        assert sum(map(len, (StoreObjects(url, "h").sizes(of) for of in ("rounds", "packs", "states")))) < 15
        scene.append(20)
        with pytest.raises(HostSuperseded):
            replicator.settle()


class WatchedStore(Watched):
    """A host with a store that breaks: what it acts upon is settled, and the store is kept as it is at many steps."""

    def __init__(self, scene: Scene, seed: int, *, breaks_after: int) -> None:
        self.moments: list[tuple[dict[str, bytes], dict[str, int], dict[str, int]]] = []
        self._left: int | None = None
        """How many steps this connection goes on for; None for ever."""
        self._breaks_after = breaks_after
        self._luck = Random(seed + 1)
        self.store = MemoryStore(self._step)
        super().__init__(scene, seed, cut_after=1)

    def _begin(self, scene: Scene) -> Replicator:
        return self._own(scene)

    def _own(self, scene: Scene) -> Replicator:
        replicator = Replicator("h", scene.root, "a", on_kept=scene.kept.release, store=self.store)
        scene.replicators.append(replicator)
        replicator.order(1, [], frozenset({self.store.machine}))
        return replicator

    def restart_owner(self) -> None:
        self.replicator.close()
        self.replicator = self._own(self.scene)

    def close(self) -> None:
        self.scene.close()
        self._pool.shutdown()

    def _step(self, name: str) -> None:
        if not self.copying or self.model is None:
            return
        if name.startswith("put claims"):
            # Sometimes long enough to get anywhere.
            self._left = self._luck.choice((None, self._luck.randint(0, self._breaks_after)))
        if self._luck.random() < 0.1 and len(self.moments) < 10:
            # Promises first: what is stored later has more.
            promised = dict(self.model.acknowledged), dict(self.model.followed)
            self.moments.append((self.store.contents(), *promised))
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise StoreAway(f"it broke at {name}")

    def check_moments(self, place: Path) -> None:
        """Hold that a host could have gone on from each moment, with everything that was promised."""
        for stored, acknowledged, followed in self.moments:
            then = MemoryStore()
            for name, content in stored.items():
                then.put(name, content)
            try:
                found = contents(then.restored(place))
            except NothingStored:
                # Nothing can have been promised before all was there once.
                assert set(acknowledged.values()) == {0}
                assert set(followed.values()) == {-1}
                continue
            assert [] == list(faults(found))
            self.check_promises(found, acknowledged, followed)


@settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32),
    breaks_after=st.sampled_from((5, 20, 100)),
    pack=st.sampled_from((200, 3_000, 1 << 20)),
    rounds=st.sampled_from((3, 20)),
)
def test_a_store_is_at_every_moment_what_a_crash_might_have_left(
    tmp_path_factory: pytest.TempPathFactory, seed: int, breaks_after: int, pack: int, rounds: int
) -> None:
    """Whatever breaks, a restored root has what was promised and what that needs, and in the end all of it."""
    chance = Random(seed)
    with quick(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(peer_sender, "_BACK_OFF", BackOff((0.001,)))
        patch.setattr("engine.replicas.store_copy.sync_all", lambda _place: None)
        patch.setattr(store_copy, "PACK_BYTES", pack)
        patch.setattr(store_copy, "SMALL_PACK", pack // 8)
        patch.setattr(store_copy, "MOST_ROUNDS", rounds)
        place = tmp_path_factory.mktemp("restored")
        watched = WatchedStore(Scene(tmp_path_factory.mktemp("scene")), seed, breaks_after=breaks_after)
        assert watched.model is not None
        try:
            for _ in range(6):
                watched.work(chance.choice((1, 10, 40)))
                chance.choice((watched.restart_owner, lambda: None))()
            watched.replicator.settle()
            watched.copying = False
            assert files(watched.scene.root) == files(watched.store.restored(place))
        finally:
            watched.close()
        watched.check_moments(place)


@settings(deadline=None, phases=[Phase.explicit, Phase.generate], max_examples=25)
@given(steps=st.integers(0, 60), rounds=st.sampled_from((1, 2, 5)), more=st.integers(0, 5))
def test_an_owner_that_was_only_slow_promises_nothing_that_a_restored_host_lacks(
    tmp_path_factory: pytest.TempPathFactory, steps: int, rounds: int, more: int
) -> None:
    """Whenever the host is restored elsewhere, what settled before or after that is there, and its files stay whole."""
    scene, place = Scene(tmp_path_factory.mktemp("scene")), tmp_path_factory.mktemp("restored")
    store, taken, left = MemoryStore(), [False], [steps]

    def step(_name: str) -> None:
        left[0] -= 1
        if left[0] == 0 and not taken[0]:
            taken[0] = True
            try:
                restore(StoreObjects(store.url, "h"), 2, place, OTHER)
            except NothingStored:
                taken[0] = False
                left[0] = 1

    store._step = step
    settled: list[str] = []
    with quick(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_copy, "MOST_ROUNDS", rounds)
        replicator = Replicator("h", scene.root, "a", on_kept=scene.kept.release, store=store)
        scene.replicators.append(replicator)
        replicator.order(1, [], frozenset({store.machine}))
        try:
            for number in range(20 + more):
                path = scene.append(number)
                replicator.settle(path.parent)
                settled.append(path.relative_to(scene.root).as_posix())
                if number % 3 == 2:
                    # The oldest one that is left.
                    (scene.root / settled.pop(0)).unlink()
        except HostSuperseded:
            assert taken[0]
        finally:
            scene.close()
    if taken[0]:
        kept = set(settled)
        assert kept <= files(place).keys()
        # The slow one removed nothing that the next owner needs.
        assert kept <= files(store.restored(tmp_path_factory.mktemp("again"), term=3)).keys()
