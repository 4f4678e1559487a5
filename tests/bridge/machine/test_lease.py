"""Leases: one writer for each folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.machine.lease import Lease, LeaseTaken

HOLDER = """
import sys
from pathlib import Path
from bridge.machine.lease import Lease
lease = Lease(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    """A second lease of the same folder is refused, with the folder and what to do."""
    with Lease(tmp_path), pytest.raises(LeaseTaken) as taken:
        Lease(tmp_path)
    assert tmp_path == taken.value.folder
    assert f"{tmp_path} belongs to a process that still runs; stop it first, or use another folder" == str(taken.value)


def test_a_refused_lease_does_not_disturb_the_holder(tmp_path: Path) -> None:
    """The lease stays taken: the next attempt is refused as well."""
    with Lease(tmp_path):
        for _ in range(2):
            with pytest.raises(LeaseTaken):
                Lease(tmp_path)


def test_other_folders_are_free(tmp_path: Path) -> None:
    """A lease makes its folder, with its parents, and affects no other folder."""
    with Lease(tmp_path / "deep" / "one"), Lease(tmp_path / "deep" / "two"):
        assert ["one", "two"] == sorted(path.name for path in (tmp_path / "deep").iterdir())


def test_a_released_folder_is_free(tmp_path: Path) -> None:
    """After its release a lease can be taken again; a second release of the old one does not affect the new holder."""
    first = Lease(tmp_path)
    first.release()
    with Lease(tmp_path):
        first.release()
        with pytest.raises(LeaseTaken):
            Lease(tmp_path)


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


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """The lease of another process counts as long as it lives, and is free once it was killed."""
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        with pytest.raises(LeaseTaken):
            Lease(tmp_path)
        holder.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == holder.wait()
    Lease(tmp_path).release()
