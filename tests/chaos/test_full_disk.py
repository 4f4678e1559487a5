"""A disk that takes no more: whoever cannot write says so and tries again, and nothing is lost meanwhile.

The operating system lets a process that runs write no file beyond a few bytes, which fails as a full disk does.
"""

import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bridge.spools.log import LOG
from engine.records.job_folder import spool_folder
from tests.chaos import arena as arenas
from tests.chaos.arena import Arena, newest
from tests.chaos.killing import Victim, processes
from tests.chaos.scenes import one_job, two_jobs

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto, pytest.mark.chaos]

FEW = 16
"""Bytes that a file may have."""
BASES = {Victim.DRIVER: 500, Victim.JVM: 510, Victim.WORKER: 520}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A host, a broker and a subscriber for all tests here."""
    with pytest.MonkeyPatch.context() as patch, arenas.arena(tmp_path_factory.mktemp("full"), patch) as made:
        yield made


@pytest.mark.parametrize("victim", BASES)
def test_a_full_disk_costs_nothing(arena: Arena, tmp_path: Path, victim: Victim) -> None:
    """Host, Spark or worker may find the disk full: the job stands still, and goes on once there is space again."""
    scene = one_job(arena, f"full-{victim}", BASES[victim], tmp_path)
    scene.start()
    for process in _all(arena, victim):
        _limit(process, FEW)
    arena.until(lambda: bool(arena.status(scene.name).get("trouble")), "the job says its trouble")
    for process in _all(arena, victim):
        _limit(process, resource.RLIM_INFINITY)
    records = newest(arena.folder(scene.name).records)
    arena.until(lambda: newest(arena.folder(scene.name).records) > records + 2, "it goes on")
    scene.judge()
    arena.end(scene.name)


def test_a_generator_that_cannot_write(arena: Arena, tmp_path: Path) -> None:
    """A source that cannot write into its spool says why in the host's status, and goes on where it was once it can."""
    scene = one_job(arena, "generates", 530, tmp_path)
    scene.start()
    folder = spool_folder(arena.root, scene.raw) / LOG / "tmp"
    arena.until(lambda: _blocked(folder), "the folder for what is half written is none any more")
    arena.until(lambda: "Error" in arena.spool(scene.raw), "the host tells why")
    folder.unlink()
    arena.until(lambda: arena.spool(scene.raw) == "ready", "it writes again")
    scene.judge()
    arena.end(scene.name)


def test_a_receiver_that_cannot_write(arena: Arena, tmp_path: Path) -> None:
    """A stream that cannot be written into its spool says why in the host's status, and goes on once it can."""
    scene = two_jobs(arena, "receives", 540, tmp_path)
    scene.start()
    folder = spool_folder(arena.root, "bridge/543:out") / LOG / "tmp"
    arena.until(lambda: _blocked(folder), "the folder for what is half written is none any more")
    arena.until(lambda: "Error" in arena.spool("bridge/543:out"), "the host tells why")
    folder.unlink()
    arena.until(lambda: arena.spool("bridge/543:out") == "ready", "it is written again")
    scene.judge()
    for job in scene.plans:
        arena.end(job)


def _blocked(folder: Path) -> bool:
    """Put a file where a folder was; whoever writes there may have made the folder anew before."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileExistsError):
        folder.touch(exist_ok=False)
    return folder.is_file()


def _all(arena: Arena, victim: Victim) -> set[psutil.Process]:
    """The processes of a kind, with those that fork the next ones."""
    found = processes(arena, victim)
    return {*found, *(process.parent() or process for process in found)} if victim is Victim.WORKER else {*found}


def _limit(process: psutil.Process, most: int) -> None:
    """Let a process write files of so many bytes only; one that has just ended writes none anyway."""
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
