"""The owner's side of copies: what is sent and waited for, and laws over connections that break."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.files import make_folder
from engine.plan import Entry, Ingress, Plan, Subscribed
from engine.records.job_folder import job_folder
from engine.replicas import copy_folder, peer_sender
from engine.replicas.copies import HostSuperseded, Replicator, ReplicatorClosed
from engine.replicas.copy_folder import CopyFolder
from engine.replicas.peer_sender import PeerAddress
from tests.engine.replicas.host_model import STREAMS, HostModel, contents, faults
from tests.engine.replicas.scene import EVENTS, Cutter, Scene, files, sent_bytes, until
from tests.faulty_way import Fault, faulty_way


def test_a_settled_file_is_at_the_peer_byte_for_byte(scene: Scene) -> None:
    """What `settle` has waited for has the same content and the same time in the copy."""
    replicator = scene.own(scene.serve())
    path = scene.append(0, b"one")
    replicator.settle(scene.root / EVENTS)
    copied = scene.place("b") / path.relative_to(scene.root)
    until(copied.exists)
    assert (b"one", path.stat().st_mtime_ns) == (copied.read_bytes(), copied.stat().st_mtime_ns)
    assert replicator.has(path)


def test_everything_of_a_host_and_nothing_else_is_copied(scene: Scene) -> None:
    """Jobs, spools and hosts come with empty folders; unfinished, hidden and foreign files do not."""
    sent = (
        "jobs/.j/lease",
        "jobs/j/plans/00000001",
        "jobs/j/cuts/.cut.00000000000000000003",
        "jobs/j/attempts/00000000000000000003.1.0.0.json",
        "jobs/j/records/ends/00000000000000000003",
        "jobs/tmp/lease",
        "spools/s/consumers/.j.position",
        "hosts/h/received/digest",
    )
    unsent = (
        "jobs/j/plans/tmp/00000002",
        "jobs/j/spark/offsets/0",
        "jobs/j/records/.0.crc",
        "jobs/j/attempts/00000000000000000003-00000000000000000001-ab",
        "hosts/h/swept/k/lease",
        "files/tenant/table",
        "jobs/stray",
    )
    for name in (*sent, *unsent):
        make_folder((scene.root / name).parent)
        (scene.root / name).write_bytes(name.encode())
    make_folder(scene.root / "spools/s/log")
    make_folder(scene.root / "jobs/j/records/shards")
    (scene.root / "jobs/link").symlink_to(scene.root / "files")
    (scene.root / "jobs/j/link").symlink_to(scene.root / "files/tenant/table")
    scene.own(scene.serve()).settle()
    copy = scene.place("b")
    until(lambda: set(sent) <= files(copy).keys())
    assert set(sent) == set(files(copy))
    assert (copy / "spools/s/log").is_dir()
    assert (copy / "jobs/j/records/shards").is_dir()
    assert {"jobs", "spools", "hosts", "copying"} == {path.name for path in copy.iterdir()}


def test_what_is_gone_at_the_owner_goes_at_the_peer(scene: Scene) -> None:
    """A copy follows removals of files and of whole jobs, and replaced files."""
    replicator = scene.own(scene.serve())
    for name in ("jobs/j/plans/00000001", "jobs/j/stopped", "jobs/k/plans/00000001", f"{EVENTS}/high-water"):
        scene.write(name, b'{"end": 0, "producers": "{}"}')
    replicator.settle()
    (scene.root / "jobs/j").rename(scene.root / "away")
    (scene.root / "jobs/k/plans/00000001").unlink()
    scene.write(f"{EVENTS}/high-water", b'{"end": 1, "producers": "{}"}')
    replicator.settle()
    until(lambda: files(scene.root) == files(scene.place("b")))
    until(lambda: not (scene.place("b") / "jobs/j").exists())


def test_without_peers_that_count_nothing_is_waited_for(scene: Scene) -> None:
    """A host without copies goes on as ever, and so does one whose peer has only begun."""
    path = scene.append(0)
    alone = scene.own()
    alone.settle()
    assert alone.has(path)
    nowhere = PeerAddress(machine="b", at="127.0.0.1:1", secret="s")  # noqa: S106 - of nothing
    begun = scene.own(nowhere, counted=False)
    begun.settle(path.parent)
    assert begun.has(path)


def test_a_counted_peer_that_is_away_is_waited_for_until_it_is_dropped(scene: Scene) -> None:
    """The owner waits rather than weakening the promise; without the peer it goes on at once."""
    nowhere = PeerAddress(machine="b", at="127.0.0.1:1", secret="s")  # noqa: S106 - of nothing
    replicator = scene.own(nowhere)
    path = scene.append(0)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(replicator.settle, path.parent)
        until(lambda: bool(replicator.report().troubles))
        assert not settled.done()
        assert not replicator.has(path)
        replicator.order(1, [], frozenset())
        settled.result(timeout=30)
    assert replicator.has(path)


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.HELD, Fault.HALF_OPEN])
def test_a_peer_that_cannot_be_reached_is_waited_for_until_it_does_not_count(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """Where no other machine can replace it, it stays a peer, and counts again only once it has everything again."""
    monkeypatch.setattr("engine.replicas.peer_sender.BROKEN_SECONDS", 0.3)
    peer = scene.serve()
    with faulty_way(int(peer.at.rpartition(":")[2])) as way, ThreadPoolExecutor(1) as pool:
        through = PeerAddress(machine="b", at=f"127.0.0.1:{way.port}", secret=peer.secret)
        replicator = scene.own(through)
        scene.append(0)
        replicator.settle()
        way.breaks(fault)
        path = scene.append(1)
        settled = pool.submit(replicator.settle, path.parent)
        until(lambda: replicator.report().broken == {"b"})
        assert (frozenset({"b"}), False) == (replicator.report().in_sync, settled.done())
        replicator.order(1, [through], frozenset())
        settled.result(timeout=30)
        assert frozenset() == replicator.report().in_sync
        way.heals()
        until(lambda: replicator.report().in_sync == {"b"} and files(scene.root) == files(scene.place("b")))


def test_a_counted_peer_without_an_address_is_waited_for(scene: Scene) -> None:
    """That nobody knows where a peer is does not make the promise weaker."""
    replicator = scene.own()
    replicator.order(1, [], frozenset({"b"}))
    assert not replicator.has(scene.append(0))


def test_a_new_peer_is_in_sync_only_once_it_is_waited_for(scene: Scene) -> None:
    """It has everything, is reported, and counts from then on, though it is not committed yet."""
    path = scene.append(0)
    replicator = scene.own(scene.serve(), counted=False)
    until(lambda: replicator.report().in_sync == {"b"})
    assert replicator.has(path)
    scene.servers["b"].close()
    later = scene.append(1)
    assert not replicator.has(later)


def test_a_peer_that_comes_back_is_brought_up_to_date(scene: Scene) -> None:
    """A peer that was killed gets what it missed, under another address and secret, and what was asked for is done."""
    replicator = scene.own(scene.serve())
    scene.append(0)
    replicator.settle()
    scene.servers["b"].close()
    for first in range(1, 20):
        scene.append(first)
    until(lambda: replicator.report().behind_bytes == 19 * len(b"events"))
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(replicator.settle, scene.root / EVENTS)
        replicator.order(1, [scene.serve()], frozenset({"b"}))
        settled.result(timeout=30)
    until(lambda: files(scene.root) == files(scene.place("b")))


def test_an_owner_that_starts_again_sends_only_the_difference(scene: Scene) -> None:
    """What the peer has already is not sent again."""
    scene.append(0, b"x" * 500_000)
    peer = scene.serve()
    first = scene.own(peer)
    first.settle()
    first.close()
    scene.append(1, b"y" * 1000)
    second = scene.own(peer)
    second.settle()
    assert 1000 < sent_bytes(second) < 10_000
    until(lambda: files(scene.root) == files(scene.place("b")))


def test_files_of_an_older_owner_are_replaced(scene: Scene) -> None:
    """A copy that has files of another carrier, even with the same size and time, becomes exactly the new one's."""
    older = scene.path / "older"
    peer = scene.serve()
    for root, content in ((older, b"old"), (scene.root, b"new")):
        for name in ("jobs/j/records/00000000000000000001", "jobs/j/records/ends/1"):
            make_folder((root / name).parent)
            (root / name).write_bytes(content)
        (root / "jobs/j/records/ends/.1.crc").write_bytes(content)
    same = (scene.root / "jobs/j/records/ends/1").stat().st_mtime_ns
    os.utime(older / "jobs/j/records/ends/1", ns=(same, same))
    (older / "jobs/j/records/00000000000000000002").write_bytes(b"never followed")
    first = scene.own(peer, root=older)
    first.settle()
    first.close()
    until((scene.place("b") / "jobs/j/records/ends/1").exists)
    (scene.place("b") / "jobs/j/records/ends/.1.crc").write_bytes(b"of the time as a carrier")
    scene.own(peer, term=2).settle()
    until(lambda: files(scene.place("b")).keys() == files(scene.root).keys() - {"jobs/j/records/ends/.1.crc"})
    assert b"new" == (scene.place("b") / "jobs/j/records/ends/1").read_bytes()
    assert b"new" == (scene.place("b") / "jobs/j/records/00000000000000000001").read_bytes()


def test_a_later_carrier_at_a_peer_ends_an_older_one_for_good(scene: Scene) -> None:
    """Of two owners the higher term wins; the other one can settle nothing any more."""
    peer = scene.serve()
    old, path = scene.own(peer), scene.append(0)
    old.settle()
    scene.own(peer, term=2, root=scene.path / "other").settle()
    until(lambda: old.is_superseded)
    with pytest.raises(HostSuperseded, match="term 2"):
        old.settle(path.parent)
    assert old.is_superseded
    assert not old.has(path)
    old.order(3, [peer], frozenset({"b"}))
    with pytest.raises(HostSuperseded):
        old.settle()


def test_a_waiting_caller_hears_of_the_end(scene: Scene) -> None:
    """`close` ends a `settle` that waits, and nothing is settled afterwards."""
    replicator = scene.own(PeerAddress(machine="b", at="127.0.0.1:1", secret="s"))  # noqa: S106 - of nothing
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(replicator.settle)
        until(lambda: bool(replicator.report().troubles))
        replicator.close()
        with pytest.raises(ReplicatorClosed):
            settled.result(timeout=30)
    with pytest.raises(ReplicatorClosed):
        replicator.settle()


def test_one_round_serves_all_who_wait(scene: Scene) -> None:
    """Many threads that settle at once share rounds, and each has its file at the peer."""
    replicator = scene.own(scene.serve())
    replicator.settle()

    def settle(number: int) -> bool:
        path = scene.write(f"spools/s{number}/log/{0:020d}-{1:020d}", b"%d" % number)
        replicator.settle(path.parent)
        return replicator.has(path)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(settle, range(64)))


def test_a_job_brings_the_events_that_its_plans_read(scene: Scene) -> None:
    """A settled job is complete with the spools that it reads, though they were not named."""
    replicator = scene.own(scene.serve())
    replicator.settle()
    path = scene.append(0)
    ingress = Ingress(stream="raw/a", instance=1, supply=Subscribed(topic="a"))
    folder = job_folder(scene.root, "j")
    make_folder(folder.path)
    folder.make()
    folder.log(Entry(number=1, plan=Plan(job="j", host="h", version=1, ingress=(ingress,)), starts={}))
    replicator.settle(folder.path)
    assert replicator.has(path)
    assert replicator.has(folder.plans / "00000001")


def test_shipped_files_arrive_and_are_announced(scene: Scene) -> None:
    """`ship` returns at once; `on_kept` is called when the file is there."""
    replicator = scene.own(scene.serve())
    replicator.settle()
    path = scene.append(0)
    replicator.ship(path.parent)
    while not replicator.has(path):
        assert scene.kept.acquire(timeout=30)


def test_folders_that_are_not_copied_cannot_be_settled(scene: Scene) -> None:
    """To wait for files that are never sent would be to wait for ever."""
    with pytest.raises(ValueError, match="is in none of the folders"):
        scene.own(scene.serve()).settle(scene.root / "files")


def test_large_files_arrive_in_parts(scene: Scene) -> None:
    """A file that is larger than a frame, and than what a round keeps in memory, is copied whole."""
    replicator = scene.own(scene.serve())
    content = bytes(range(256)) * 40_000
    path = scene.append(0, content)
    replicator.settle(path.parent)
    until(lambda: files(scene.root) == files(scene.place("b")))


def test_a_replaced_file_is_copied_again_even_within_a_tick_of_the_clock(scene: Scene) -> None:
    """The last of several versions of one size is what the copy ends with."""
    replicator = scene.own(scene.serve())
    for number in range(10, 60):
        scene.write("jobs/j/published", json.dumps({"batch": number}).encode())
        replicator.ship(scene.root / "jobs/j")
    replicator.settle(scene.root / "jobs/j")
    until(lambda: files(scene.root) == files(scene.place("b")))


def test_closing_does_not_wait_for_a_peer_that_hangs(scene: Scene) -> None:
    """A peer that takes a connection and says nothing holds up nobody."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.listen()
        peer = PeerAddress(machine="b", at=f"127.0.0.1:{silent.getsockname()[1]}", secret="s")  # noqa: S106 - of nothing
        replicator = scene.own(peer)
        closed = threading.Thread(target=replicator.close)
        closed.start()
        closed.join(timeout=30)
        assert not closed.is_alive()


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
