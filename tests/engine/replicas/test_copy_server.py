"""A peer's side: whom it lets in, which terms it takes, which paths, and what becomes of a full disk."""

import errno
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.replicas.channel import (
    Channel,
    Commit,
    Confirmed,
    Disconnected,
    Frame,
    Greeting,
    PeerRefusal,
    Piece,
    PresentFiles,
    SentFiles,
    WrongSecret,
)
from engine.replicas.copies import HostSuperseded
from engine.replicas.copy_server import CopyRoom
from tests.engine.replicas.scene import SECRET, Scene, files, until


def piece(path: str, content: bytes = b"x", *, digest: bytes | None = None) -> Piece:
    """A whole small file."""
    return Piece(path, len(content), 1, 0, content, sha256(content).digest() if digest is None else digest)


def round_of(*pieces: Piece) -> SentFiles:
    """A whole round."""
    return SentFiles(list(pieces), Commit(whole=False))


class _Usage(NamedTuple):
    total: int
    free: int


class Caller:
    """An owner that says what it likes."""

    def __init__(self, scene: Scene, *, term: int = 1, machine: str = "b") -> None:
        _, port = scene.address(machine)
        self.channel = Channel.to(f"127.0.0.1:{port}", SECRET)
        scene.channels.append(self.channel)
        self.channel.send(Greeting(host="h", term=term, machine="a"))
        self.first = self.channel.receive()

    def say(self, *frames: Frame) -> Frame:
        """Send frames, and return the answer."""
        for frame in frames:
            self.channel.send(frame)
        return self.channel.receive()


def test_who_does_not_know_the_secret_gets_nothing(scene: Scene) -> None:
    """A wrong secret ends in a hang-up before anything is said, and nothing is kept."""
    peer = scene.serve()
    with pytest.raises((WrongSecret, Disconnected)):
        Channel.to(peer.at, "another secret")
    with socket.create_connection(scene.address()) as stranger:
        stranger.settimeout(30)
        stranger.sendall(b"braid copies 2\n")
        said = stranger.recv(1000)
        stranger.sendall(b"\0" * 64)
        assert (32, b"") == (len(said), stranger.recv(1000))
    assert not scene.place("b").exists()


def test_an_owner_does_not_talk_to_a_peer_that_does_not_know_the_secret(scene: Scene) -> None:
    """A process that took the address of a peer learns nothing, and its copy does not count."""
    scene.append(0, b"secret events")
    heard = bytearray()
    length = len("braid copies 2\n") + 64

    def listen(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            connection.sendall(b"n" * 32)
            while len(heard) < length:
                heard.extend(connection.recv(1000))
            connection.sendall(b"p" * 32)
            while data := connection.recv(1000):
                heard.extend(data)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        heard_all = pool.submit(listen, server)
        with pytest.raises(WrongSecret):
            Channel.to(f"127.0.0.1:{server.getsockname()[1]}", SECRET)
        heard_all.result(timeout=30)
    assert length == len(heard)
    assert SECRET.encode() not in heard


def test_silent_strangers_hold_up_nobody(scene: Scene) -> None:
    """Connections that say nothing, or half of what they should, delay no owner."""
    peer = scene.serve()
    strangers = [socket.create_connection(scene.address()) for _ in range(20)]
    for stranger in strangers[::2]:
        stranger.sendall(b"half")
    scene.append(0)
    scene.own(peer).settle()
    for stranger in strangers:
        stranger.close()


def test_an_owner_of_an_older_term_is_refused_on_its_open_connection(scene: Scene) -> None:
    """After `refuse_below` nothing of a connected older owner counts, and it learns the term."""
    replicator = scene.own(scene.serve())
    scene.append(0)
    replicator.settle()
    before = files(scene.root)
    scene.servers["b"].refuse_below("h", 2)
    path = scene.append(1)
    with pytest.raises(HostSuperseded, match="term 2"):
        replicator.settle(path.parent)
    assert before == files(scene.place("b"))


def test_a_refusal_outlives_the_process(scene: Scene) -> None:
    """The term is on disk: a peer that was started again still refuses the older owner."""
    scene.serve()
    scene.servers["b"].refuse_below("h", 7)
    scene.servers["b"].close()
    scene.serve()
    assert PeerRefusal(term=7, why="h has another carrier, of term 7") == Caller(scene, term=6).first
    assert isinstance(Caller(scene, term=7).first, PresentFiles)


def test_a_machine_that_carries_the_host_takes_no_copy(scene: Scene) -> None:
    """The files of a running host are nobody else's; the owner waits."""
    scene.serve(carries=True)
    assert PeerRefusal(term=0, why="machine b keeps no copy of h") == Caller(scene).first


def test_an_older_connection_of_one_owner_gives_way(scene: Scene) -> None:
    """An owner that connects again does not have to wait until the peer notices that the first connection is dead."""
    scene.serve()
    first = Caller(scene)
    second = Caller(scene)
    with pytest.raises(Disconnected):
        first.say(round_of())
    assert Confirmed() == second.say(round_of(piece("jobs/j/lease")))


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "jobs/../../outside",
        "jobs/j/../../../outside",
        "/etc/outside",
        "jobs//lease",
        "jobs/./lease",
        "jobs/j/",
        "jobs",
        "jobs/j",
        "copying/term",
        "files/tenant/table",
        "jobs/j/plans/tmp/1",
        "jobs/j/.hidden",
        "jobs/j/records/.x/1",
        "jobs/j/spark/offsets/1",
        "jobs/j/a\0b",
        "",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(scene: Scene, path: str) -> None:
    """A file that is not a host's is written nowhere, and removed nowhere, no matter who sends it."""
    scene.serve()
    answer = Caller(scene).say(round_of(piece(path)))
    assert isinstance(answer, PeerRefusal)
    assert "path" in answer.why
    assert {} == files(scene.place("b"))
    assert not (scene.path / "outside").exists()


@pytest.mark.parametrize("path", ["../a", "/a", "jobs/../a", "copying/term", "jobs"])
def test_removals_stay_inside_the_copy(scene: Scene, path: str) -> None:
    """What is no host's is not removed, neither as a file nor as a folder."""
    scene.serve()
    scene.servers["b"].refuse_below("h", 1)
    before = {found for found in scene.path.rglob("*") if found.is_file()}
    for commit in (Commit(whole=False, removed=[path]), Commit(whole=False, removed_folders=[path])):
        answer = Caller(scene).say(SentFiles(commit=commit))
        assert isinstance(answer, PeerRefusal)
        assert "is no path in a host's folders" in answer.why
    assert before <= {found for found in scene.path.rglob("*") if found.is_file()}


@pytest.mark.parametrize("link", ["jobs", "jobs/j", "jobs/j/plans"])
def test_links_are_not_followed(scene: Scene, link: str) -> None:
    """A link in the copy leads no file out of it."""
    scene.serve()
    outside = scene.path / "outside"
    outside.mkdir()
    (outside / "1").write_bytes(b"kept")
    (scene.place("b") / link).parent.mkdir(parents=True)
    (scene.place("b") / link).symlink_to(outside)
    caller = Caller(scene)
    answer = caller.say(round_of(piece(f"{link}/1" if link.count("/") else "jobs/j/1")))
    assert isinstance(answer, PeerRefusal)
    assert "is a link" in answer.why
    assert ["1"] == [path.name for path in outside.iterdir()]
    assert b"kept" == (outside / "1").read_bytes()


def test_a_file_that_changed_on_its_way_does_not_count(scene: Scene) -> None:
    """With a wrong digest nothing of the round takes effect, not even its other files."""
    scene.serve()
    good, bad = piece("jobs/j/lease", b""), piece("jobs/j/published", b"12", digest=sha256(b"13").digest())
    answer = Caller(scene).say(round_of(good, bad))
    assert isinstance(answer, PeerRefusal)
    assert "changed on its way" in answer.why
    assert {} == files(scene.place("b"))


def test_what_is_no_frame_ends_the_connection(scene: Scene) -> None:
    """Whatever somebody with the secret sends, the peer goes on for others."""
    scene.serve()
    for content in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x00"):
        caller = Caller(scene)
        caller.channel._socket.sendall(content)
        with pytest.raises(Disconnected):
            caller.channel.receive()
    assert Confirmed() == Caller(scene).say(round_of())


def test_a_full_disk_at_a_peer_is_reported_and_loses_nothing(scene: Scene) -> None:
    """The owner waits and says why; when there is room again, everything arrives."""
    full = True

    def step(name: str) -> None:
        if full and name in {"log", "rename"}:
            raise OSError(errno.ENOSPC, "No space left on device")

    replicator = scene.own(scene.serve(step=step))
    for first in range(3):
        scene.append(first)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(replicator.settle)
        until(lambda: "No space left" in replicator.report().troubles.get("b", ""))
        assert not settled.done()
        full = False
        settled.result(timeout=30)
    until(lambda: files(scene.root) == files(scene.place("b")))
    assert {} == replicator.report().troubles


def test_a_machine_without_room_takes_no_copies(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its owner says why and counts it as broken, so that another one gets copies; the log is not filled with it."""
    monkeypatch.setattr("engine.replicas.peer_sender.BROKEN_SECONDS", 0.5)
    free = [10**9]
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: _Usage(total=10**12, free=free[0]))
    room = CopyRoom(scene.path)
    replicator = scene.own(scene.serve(check_room=room.check), counted=False)
    scene.append(0)
    until(lambda: replicator.report().broken == {"b"})
    said = "machine b cannot keep it: [Errno 28] 1.0 GB of its disk are free, and copies leave 1.1; make room there"
    assert replicator.report().troubles == {"b": said}
    assert [each.message.count(said) for each in caplog.records if each.message.startswith("the copy of host")] == [1]
    assert files(scene.place("b")) == {}
    free[0] = 2 * 10**9
    until(lambda: replicator.report().in_sync == {"b"})
    assert (replicator.report().troubles, files(scene.place("b"))) == ({}, files(scene.root))
    assert room.shortage() == "2.0 GB of its disk are free, and copies leave 2.1; make room there"
    free[0] = 3 * 10**9
    assert room.shortage() == ""


def test_a_copy_that_nobody_needs_is_removed(scene: Scene) -> None:
    """With all its files; who carried the host before is refused all the same, and a new copy is whole."""
    replicator = scene.own(scene.serve(), term=3)
    scene.append(0)
    replicator.settle()
    replicator.close()
    scene.servers["b"].remove("h")
    assert files(scene.place("b")) == {}
    scene.servers["b"].remove("another")
    assert PeerRefusal(term=3, why="h has another carrier, of term 3") == Caller(scene, term=2).first
    scene.own(scene.serve(), term=3).settle()
    # A peer that does not count is not waited for.
    until(lambda: files(scene.place("b")) == files(scene.root))


def test_a_peer_that_confirmed_a_round_finishes_it_however_it_ends(scene: Scene) -> None:
    """A round that was confirmed, and whose files could not be written, is complete before the copy is used."""
    full = False

    def step(name: str) -> None:
        if full and name == "rename":
            raise OSError(errno.ENOSPC, "No space left on device")

    replicator = scene.own(scene.serve(step=step))
    replicator.settle()
    full = True
    path = scene.append(0)
    replicator.settle(path.parent)
    replicator.close()
    scene.servers["b"].close()
    assert {} == files(scene.place("b"))
    scene.serve()
    scene.servers["b"].refuse_below("h", 2)
    assert files(scene.root) == files(scene.place("b"))


def test_an_unreachable_peer_is_reported_broken(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was not reached for some seconds is named, and one that is reached again is not."""
    monkeypatch.setattr("engine.replicas.peer_sender.BROKEN_SECONDS", 0.2)
    replicator = scene.own(scene.serve())
    replicator.settle()
    scene.servers["b"].close()
    until(lambda: replicator.report().broken == {"b"})
    assert {"b"} == replicator.report().in_sync
    monkeypatch.setattr("engine.replicas.peer_sender.BROKEN_SECONDS", 60.0)
    replicator.order(1, [scene.serve()], frozenset({"b"}))
    until(lambda: replicator.report().in_sync == {"b"})
    assert frozenset() == replicator.report().broken


def test_times_are_kept_to_the_nanosecond(scene: Scene, tmp_path: Path) -> None:
    """A job that differs from another one by the time of its lease is the same job at the peer."""
    lease = scene.write("jobs/j/lease", b"")
    replicator = scene.own(scene.serve())
    replicator.settle()
    until((scene.place("b") / "jobs/j/lease").exists)
    assert lease.stat().st_mtime_ns == (scene.place("b") / "jobs/j/lease").stat().st_mtime_ns
    assert time.time_ns() > lease.stat().st_mtime_ns
    assert tmp_path.exists()
