"""A full disk: a process that cannot write reports it and tries again, and nothing is lost meanwhile.

The operating system limits the files of a running process to a few bytes, which fails like a full disk.
"""

import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bridge import topics
from bridge.spools.log import LOG
from engine.records.job_folder import spool_folder
from tests.chaos import killing as arenas
from tests.chaos.killing import HOST, Arena, Victim, newest, processes
from tests.chaos.scenes import one_job, two_jobs

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto, pytest.mark.full]

FEW = 16
"""Bytes that a file may have."""
BASES = {Victim.DRIVER: 500, Victim.WORKER: 520}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A host, a broker and a subscriber for all tests here."""
    with pytest.MonkeyPatch.context() as patch, arenas.arena(tmp_path_factory.mktemp("full"), patch) as made:
        yield made


@pytest.mark.parametrize("victim", BASES)
def test_a_full_disk_costs_nothing(arena: Arena, tmp_path: Path, victim: Victim) -> None:
    """The disk may be full for the host or a worker: the job stands still, and goes on once there is space."""
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


def test_a_job_begins_once_spark_can_write(arena: Arena, tmp_path: Path) -> None:
    """Spark itself writes when a job begins, and hardly afterwards: until it can, the job says its trouble."""
    scene = one_job(arena, "full-jvm", 510, tmp_path)
    arena.until(lambda: bool(arena.heard.get(topics.host(HOST, "status"))), "the host has begun")
    for process in _all(arena, Victim.JVM):
        _limit(process, FEW)
    arena.send(scene.plans[scene.name])
    arena.until(lambda: bool(arena.status(scene.name).get("trouble")), "the job says its trouble")
    for process in _all(arena, Victim.JVM):
        _limit(process, resource.RLIM_INFINITY)
    scene.start()
    scene.judge()
    arena.end(scene.name)


def test_a_generator_that_cannot_write(arena: Arena, tmp_path: Path) -> None:
    """A source that cannot write into its spool reports it in the host's status, and goes on once it can."""
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
    """A stream that cannot be spooled reports it in the host's status, and goes on once it can."""
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
    """Put a file in the place of a folder, which a writer may make again before that."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileExistsError):
        folder.touch(exist_ok=False)
    return folder.is_file()


def _all(arena: Arena, victim: Victim) -> set[psutil.Process]:
    """The processes of a kind, with the daemons that fork them."""
    found = processes(arena.keeper.pid, victim)
    return {*found, *(process.parent() or process for process in found)} if victim is Victim.WORKER else {*found}


def _limit(process: psutil.Process, most: int) -> None:
    """Limit the files of a process to the given bytes; one that has just ended writes none anyway."""
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
