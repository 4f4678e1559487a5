"""Files that are complete or absent, leases for one writer, and the clocks and processes of a machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Barrier, Thread

import psutil
import pytest

from bridge.files import Lease, LeaseTaken, RowLease, clear_unfinished, link_whole, make_folder, write_whole
from bridge.machine import BackOff, SystemClock, began
from tests.clock import set_clock
from tests.twins.memory_clock import MemoryClock

STEPS = ["open", "write", "sync", "rename", "sync folder", "done"]
OLD, NEW = b"old " * 5_000, b"newer " * 5_000
WRITER = """
import os, signal, sys
from pathlib import Path
from bridge.files import write_whole

def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

write_whole(Path(sys.argv[1]), b"newer " * 5_000, step)
"""


def test_every_step_is_announced_in_order(tmp_path: Path) -> None:
    """A write announces each step once, before it is done."""
    announced: list[tuple[str, bool]] = []
    path = tmp_path / "file"
    write_whole(path, NEW, lambda name: announced.append((name, path.exists())))
    assert [(name, name in {"sync folder", "done"}) for name in STEPS] == announced
    assert NEW == path.read_bytes()


@pytest.mark.parametrize("before", [None, OLD], ids=["new", "replaced"])
@pytest.mark.parametrize("name", STEPS)
def test_a_killed_write_leaves_old_or_new(tmp_path: Path, name: str, before: bytes | None) -> None:
    """A process that dies at any step leaves the old content or all of the new, and clearing leaves nothing else."""
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    writer = subprocess.run([sys.executable, "-c", WRITER, str(path), name], check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == writer.returncode
    finished = name in {"sync folder", "done"}
    assert (NEW if finished else before) == (path.read_bytes() if path.exists() else None)
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.glob("tmp/*"))
    assert (NEW if finished else before) == (path.read_bytes() if path.exists() else None)


def test_incomplete_files_are_never_among_complete_ones(tmp_path: Path) -> None:
    """Until its last byte is durable, a file is in a folder of its own."""
    seen: list[list[str]] = []
    write_whole(tmp_path / "file", NEW, lambda _: seen.append(sorted(path.name for path in tmp_path.iterdir())))
    assert [[], *[["tmp"]] * 3, *[["file", "tmp"]] * 2] == seen


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """An error of a full disk is raised, the old content stays, and no incomplete file keeps the disk full."""
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def full(name: str) -> None:
        if name == "sync":
            raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left on device"):
        write_whole(path, NEW, full)
    assert ([], OLD) == (list(tmp_path.glob("tmp/*")), path.read_bytes())


def test_a_file_is_complete_even_after_partial_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a partial write is written after it."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7_000]))
    write_whole(tmp_path / "file", NEW)
    assert NEW == (tmp_path / "file").read_bytes()


def test_clearing_a_folder_without_writes_does_nothing(tmp_path: Path) -> None:
    """A folder in which nothing was written has no incomplete files."""
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    """A folder is made with its parents, and an existing one stays as it is."""
    folder = tmp_path / "a" / "b"
    make_folder(folder)
    (folder / "file").write_bytes(OLD)
    make_folder(folder)
    assert OLD == (folder / "file").read_bytes()


LINK_STEPS = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
AFTER_LINK = {"unlink", "sync folder", "done"}
LINKER = """
import os, signal, sys
from pathlib import Path
from bridge.files import link_whole

def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

link_whole(Path(sys.argv[1]), b"newer " * 5_000, step)
"""


def _meet(barrier: Barrier) -> None:
    barrier.wait(timeout=30)


def test_every_step_of_a_link_is_announced_in_order(tmp_path: Path) -> None:
    """A write announces each step once, before it is done."""
    announced: list[tuple[str, bool]] = []
    path = tmp_path / "file"
    assert link_whole(path, NEW, lambda name: announced.append((name, path.exists())))
    assert [(name, name in AFTER_LINK) for name in LINK_STEPS] == announced
    assert NEW == path.read_bytes()


def test_the_first_writer_wins(tmp_path: Path) -> None:
    """An existing file stays as it is; the second writer gets False, and leaves nothing behind."""
    path = tmp_path / "file"
    assert [True, False] == [link_whole(path, OLD), link_whole(path, NEW)]
    assert (OLD, []) == (path.read_bytes(), list(tmp_path.glob("tmp/*")))


def test_one_of_many_writers_wins(tmp_path: Path) -> None:
    """However many write at the same moment, one gets True, and its content is there."""
    for attempt in range(20):
        path = tmp_path / str(attempt)
        barrier, won = Barrier(4), list[bytes]()

        def write(content: bytes, path: Path = path, barrier: Barrier = barrier, won: list[bytes] = won) -> None:
            if link_whole(path, content, lambda name: _meet(barrier) if name == "link" else None):
                won.append(content)

        writers = [Thread(target=write, args=(bytes([number]) * 10_000,)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [path.read_bytes()] == won


@pytest.mark.parametrize("before", [None, OLD], ids=["first", "second"])
@pytest.mark.parametrize("name", LINK_STEPS)
def test_a_killed_write_leaves_all_or_nothing(tmp_path: Path, name: str, before: bytes | None) -> None:
    """A process that dies at any step leaves the existing file, or else nothing or all of its own."""
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    writer = subprocess.run([sys.executable, "-c", LINKER, str(path), name], check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == writer.returncode
    expected = before or (NEW if name in AFTER_LINK else None)
    assert expected == (path.read_bytes() if path.exists() else None)
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.glob("tmp/*"))
    assert expected == (path.read_bytes() if path.exists() else None)


@pytest.mark.parametrize("failing", ["write", "sync", "link"])
def test_a_link_that_fails_leaves_nothing_behind(tmp_path: Path, failing: str) -> None:
    """An error of a full disk is raised, and no incomplete file keeps the disk full."""

    def full(name: str) -> None:
        if name == failing:
            raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left on device"):
        link_whole(tmp_path / "file", NEW, full)
    assert ["tmp"] == [path.name for path in tmp_path.iterdir()]
    assert [] == list(tmp_path.glob("tmp/*"))


KINDS = pytest.mark.parametrize("kind", [Lease, RowLease])
HOLDER = """
import sys
from pathlib import Path
from bridge import files
held = getattr(files, sys.argv[1])(Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@KINDS
def test_a_folder_has_one_holder(kind: type[Lease | RowLease], tmp_path: Path) -> None:
    """A second lease of the same folder is refused, with the folder and what to do."""
    with kind(tmp_path), pytest.raises(LeaseTaken) as taken:
        kind(tmp_path)
    assert tmp_path == taken.value.folder
    assert f"{tmp_path} belongs to a process that still runs; stop it first, or use another folder" == str(taken.value)


@KINDS
def test_a_refused_lease_does_not_disturb_the_holder(kind: type[Lease | RowLease], tmp_path: Path) -> None:
    """The lease stays taken: the next attempt is refused as well."""
    with kind(tmp_path):
        for _ in range(2):
            with pytest.raises(LeaseTaken):
                kind(tmp_path)


@KINDS
def test_other_folders_are_free(kind: type[Lease | RowLease], tmp_path: Path) -> None:
    """A lease makes its folder, with its parents, and affects no other folder."""
    with kind(tmp_path / "deep" / "one"), kind(tmp_path / "deep" / "two"):
        assert ["one", "two"] == sorted(path.name for path in (tmp_path / "deep").glob("[a-z]*"))


@KINDS
def test_a_released_folder_is_free(kind: type[Lease | RowLease], tmp_path: Path) -> None:
    """After its release a lease can be taken again; a second release of the old one does not affect the new holder."""
    first = kind(tmp_path)
    first.release()
    with kind(tmp_path):
        first.release()
        with pytest.raises(LeaseTaken):
            kind(tmp_path)


def test_a_release_reaches_children_that_share_the_lease(tmp_path: Path) -> None:
    """A child that was just being started at the release does not keep the lease."""
    lease = Lease(tmp_path)
    assert lease._file is not None
    shared = os.dup(lease._file)  # what a child has between fork and exec
    try:
        lease.release()
        Lease(tmp_path).release()
    finally:
        os.close(shared)


def test_many_leases_beside_each_other_take_one_descriptor(tmp_path: Path) -> None:
    """And none once all are released; releasing one of them frees no other."""
    before = psutil.Process().num_fds()
    leases = [RowLease(tmp_path / str(number)) for number in range(50)]
    assert before + 1 == psutil.Process().num_fds()
    for lease in leases[1:]:
        lease.release()
    with pytest.raises(LeaseTaken):
        RowLease(tmp_path / "0")
    leases[0].release()
    assert before == psutil.Process().num_fds()


def test_reading_the_file_of_leases_releases_none(tmp_path: Path) -> None:
    """Whatever part of the process copies the folder around them."""
    lease = RowLease(tmp_path / "one")
    (tmp_path / ".leases").read_bytes()
    assert not _is_free(RowLease, tmp_path / "one")
    lease.release()
    assert _is_free(RowLease, tmp_path / "one")


@KINDS
def test_a_killed_holder_holds_nothing(kind: type[Lease | RowLease], tmp_path: Path) -> None:
    """The lease of another process counts as long as it lives, and is free once it was killed."""
    with _holder(kind, tmp_path) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        with pytest.raises(LeaseTaken):
            kind(tmp_path)
        holder.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == holder.wait()
    kind(tmp_path).release()


def _holder(kind: type[Lease | RowLease], folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", HOLDER, kind.__name__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _is_free(kind: type[Lease | RowLease], folder: Path) -> bool:
    """Whether another process can take a lease."""
    with _holder(kind, folder) as holder:
        answer, _ = holder.communicate()
    return answer == b"held\n"


def test_the_twin_stands_still_until_it_advances() -> None:
    """Time in memory changes only on request."""
    clock = MemoryClock(10.0)
    assert (10.0, 10.0) == (clock.now(), clock.now())
    clock.advance(2.5)
    assert 12.5 == clock.now()
    with pytest.raises(ValueError, match="time does not go back, so not by -1 seconds; advance by 0 or more"):
        clock.advance(-1)


def test_setting_the_twin_lets_no_time_pass() -> None:
    """It may be set back or forth, and time passes as before."""
    clock = MemoryClock(10.0)
    clock.set(4.0)
    assert (4.0, 10.0) == (clock.now(), clock.passed())
    clock.advance(2.5)
    assert (6.5, 12.5) == (clock.now(), clock.passed())


def test_the_clock_is_the_systems() -> None:
    """The real clock has the system's time."""
    before, begun = time.time(), time.monotonic()
    clock = SystemClock()
    assert before <= clock.now() <= time.time()
    assert begun <= clock.passed() <= time.monotonic()


def test_the_last_wait_repeats() -> None:
    """However often something fails, it is tried again."""
    back_off = BackOff((1.0, 5.0))
    assert [1.0, 5.0, 5.0, 5.0] == [back_off.after(failures) for failures in (1, 2, 3, 1_000)]
    assert 5.0 == back_off.longest


def test_nothing_is_waited_for_without_a_failure() -> None:
    """The first attempt begins at once."""
    assert 0.0 == BackOff((7.0,)).after(0)


def test_doubled_waits_end_at_the_longest() -> None:
    """The longest wait counts even if no doubling meets it."""
    assert (300.0, 600.0, 1_200.0, 2_400.0, 3_600.0) == BackOff.doubling(300.0, longest=3_600.0).waits
    assert (2.0,) == BackOff.doubling(2.0, longest=2.0).waits


@pytest.mark.parametrize("waits", [(), (1.0, -1.0)])
def test_waits_that_cannot_be_kept_are_refused(waits: tuple[float, ...]) -> None:
    """A back-off without a wait, or with one below 0, is an error where it is made."""
    with pytest.raises(ValueError, match="is no back-off; give at least one wait, and none below 0"):
        BackOff(waits)


@pytest.mark.parametrize("first", [0.0, 61.0])
def test_a_first_wait_that_cannot_double_up_to_the_longest_is_refused(first: float) -> None:
    """From 0 it would never grow, and above the longest it would have to shrink."""
    with pytest.raises(ValueError, match=f"the first wait is {first}; give one above 0, and at most 60.0"):
        BackOff.doubling(first, longest=60.0)


def test_a_process_keeps_its_identity_if_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start time of psutil moves with the clock; the identity does not."""
    this = psutil.Process()
    identity, reckoned = began(this), psutil.Process().create_time()
    set_clock(monkeypatch, by=-1.0)
    assert reckoned - 1.0 == pytest.approx(psutil.Process().create_time(), abs=0.1)
    assert identity == began(this) == began(psutil.Process(os.getpid()))


def test_processes_that_began_apart_differ() -> None:
    """Processes that began at different times differ, whatever their names are."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert began(psutil.Process()) != began(psutil.Process(child.pid))


@pytest.mark.skipif(not psutil.LINUX, reason="only Linux has names among what tells processes apart")
def test_a_name_may_be_anything(tmp_path: Path) -> None:
    """Brackets and blanks in a process's name change nothing."""
    odd = tmp_path / "a) 1 2 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as child:  # noqa: S603 - a link of our own
        process = psutil.Process(child.pid)
        assert began(process).split()[0] == str(round((process.create_time() - psutil.boot_time()) * 100))
        child.kill()


def test_a_process_that_is_gone_is_not_found() -> None:
    """The error is that of psutil."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = psutil.Process(child.pid)
    with pytest.raises(psutil.NoSuchProcess):
        began(process)
