"""Leases: one writer for each folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bridge.files import Lease, LeaseTaken, RowLease

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
