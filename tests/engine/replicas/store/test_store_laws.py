"""Laws of a store that breaks at any moment, while the host works: a restored host could always go on."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.machine import BackOff
from engine.replicas import peer_sender, store_copy
from engine.replicas.copies import HostSuperseded, Replicator
from engine.replicas.store_copy import NothingStored, restore
from engine.replicas.store_objects import StoreAway, StoreObjects
from tests.engine.replicas.crash_oracle import contents, faults
from tests.engine.replicas.scene import Scene, files
from tests.engine.replicas.store.stores import OTHER, MemoryStore
from tests.engine.replicas.test_copy_laws import Watched, quick


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
