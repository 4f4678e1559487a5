"""Laws of copies over connections that break, while the host works."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.replicas import copy_folder, peer_sender
from engine.replicas.copies import Replicator
from engine.replicas.copy_folder import CopyFolder
from tests.engine.replicas.crash_oracle import contents, faults
from tests.engine.replicas.host_model import STREAMS, HostModel
from tests.engine.replicas.scene import Cutter, Scene, files, until


class Snapshot(NamedTuple):
    """A copy as a crash of its machine would have left it, and what had been promised by then."""

    place: Path
    acknowledged: dict[str, int]
    followed: dict[str, int]


class Watched:
    """A host with a peer: what it acts upon is settled, and its copy is watched at every step."""

    def __init__(self, scene: Scene, seed: int, *, cut_after: int) -> None:
        self.scene = scene
        self.snapshots: list[Snapshot] = []
        self.copying = False
        self._chance = Random(seed)
        self._pool = ThreadPoolExecutor(8)
        self._asked: set[Future[None]] = set()
        self._cut_after = cut_after
        self.model: HostModel | None = None
        self.replicator = self._begin(scene)
        self.model = HostModel(scene.root, seed, kept=self._kept)
        self.copying = True

    def _begin(self, scene: Scene) -> Replicator:
        self.cutter = Cutter(scene.serve(step=self._step), self._cut)
        return scene.own(self.cutter.address)

    def work(self, waits: int) -> None:
        """Let the host work until its parts have waited for the copies so many times."""
        assert self.model is not None
        done = self.model.waits_done + waits
        while self.model.waits_done < done:
            for _ in range(20):
                self.model.step()
            # Most parts wait now, for other threads.
            wait(self._asked, timeout=0.002, return_when=FIRST_COMPLETED)
            self._asked = {each for each in self._asked if not each.done()}

    def restart_owner(self) -> None:
        """Another process of the owner goes on with its root; what it waited for it waits for again."""
        self.replicator.close()
        self.replicator = self.scene.own(self.cutter.address)

    def restart_peer(self) -> None:
        """Another process of the peer goes on with its copy."""
        self.cutter.close()
        self.scene.servers["b"].close()
        self.cutter = Cutter(self.scene.serve(step=self._step), self._cut)
        self.replicator.order(1, [self.cutter.address], frozenset({"b"}))

    def close(self) -> None:
        self.scene.close()
        self.cutter.close()
        self._pool.shutdown()

    def _cut(self) -> int | None:
        # Sometimes long enough to get anywhere.
        return self._chance.choice((None, self._chance.randint(100, self._cut_after)))

    def _kept(self, folder: Path) -> Callable[[], bool]:
        waiting: Future[None] | None = None
        by: Replicator | None = None

        def is_kept() -> bool:
            nonlocal waiting, by
            if by is not self.replicator:
                by = self.replicator
                waiting = self._pool.submit(by.settle, folder)
                self._asked.add(waiting)
            assert waiting is not None
            if not waiting.done():
                return False
            # If the owner was started again meanwhile, nothing was settled.
            return waiting.exception() is None

        return is_kept

    def _step(self, name: str) -> None:
        """Sometimes take a copy of the copy, as it is at this very moment."""
        often = 0.05 if name == "log" else 0.01
        if self.copying and self.model is not None and self._chance.random() < often and len(self.snapshots) < 20:
            promised = dict(self.model.acknowledged), dict(self.model.followed)
            place = self.scene.path / f"snapshot{len(self.snapshots)}"
            shutil.copytree(self.scene.place("b"), place)
            self.snapshots.append(Snapshot(place, *promised))

    def check(self) -> None:
        """Hold that a host could have gone on from each snapshot, with everything that was promised."""
        for snapshot in self.snapshots:
            CopyFolder(snapshot.place).recover()
            found = contents(snapshot.place)
            assert [] == list(faults(found))
            self.check_promises(found, snapshot.acknowledged, snapshot.followed)

    def check_promises(self, found: dict[str, bytes], acknowledged: dict[str, int], followed: dict[str, int]) -> None:
        """Hold that files have everything that was promised."""
        for job, last in followed.items():
            assert last < 0 or any(path.endswith(f"jobs/{job}/records/{last:020d}") for path in found)
        for stream in STREAMS:
            assert acknowledged[stream] <= _end(found, f"spools/{stream.replace('/', '%2F')}")


def _end(found: dict[str, bytes], spool: str) -> int:
    ends = [int(path[-20:]) for path in found if path.startswith(f"{spool}/log/")]
    mark = found.get(f"{spool}/high-water")
    return max([*ends, int(mark.split(b'"end": ')[1].split(b",")[0]) if mark else 0])


@contextmanager
def quick() -> Iterator[None]:
    """No power fails, and looks at everything come often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        patch.setattr(copy_folder, "sync_all", lambda _place: None)
        patch.setattr(peer_sender, "WHOLE_SECONDS", 0.02)
        yield


@settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    max_examples=5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32),
    cut_after=st.sampled_from((2_000, 20_000, 200_000)),
    memory=st.sampled_from((0, 200, 1 << 20)),
    longest=st.sampled_from((500, 1 << 20)),
)
def test_a_copy_is_at_every_moment_what_a_crash_might_have_left(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cut_after: int, memory: int, longest: int
) -> None:
    """Whatever breaks, the copy always has what was promised and what that needs, and in the end all of it."""
    chance = Random(seed)
    with quick(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_folder, "IN_MEMORY", memory)
        patch.setattr(copy_folder, "LONGEST_LOG", longest)
        watched = Watched(Scene(tmp_path_factory.mktemp("scene")), seed, cut_after=cut_after)
        assert watched.model is not None
        try:
            for _ in range(6):
                watched.work(chance.choice((1, 10, 40)))
                chance.choice((watched.restart_owner, watched.restart_peer, lambda: None))()
            watched.replicator.settle()
            root, copy = watched.scene.root, watched.scene.place("b")
            until(lambda: files(root) == files(copy))
            assert [] == list(faults(contents(copy)))
        finally:
            watched.close()
        watched.check()
