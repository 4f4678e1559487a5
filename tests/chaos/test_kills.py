"""Hosts, workers and the broker are killed, or the disk is full: nothing is lost, doubled, or different.

`BRAID_CHAOS_SEED` repeats a run as far as the machine lets it. `BRAID_CHAOS_KILLS` sets how often each of the long
tests kills a host and a worker; the broker is killed half as often.

The operating system limits the files of a running process to a few bytes, which fails like a full disk.
"""

import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from bridge import topics
from bridge.spools.log import LOG
from engine.records.job_folder import spool_folder
from tests.chaos import killing as arenas
from tests.chaos.killing import HOST, Arena, Kill, Moment, Victim, newest, processes, schedule, strike
from tests.chaos.scenes import Scene, one_job, sharded_job, sharded_jobs, two_jobs

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

KILLS = int(os.environ.get("BRAID_CHAOS_KILLS", "50"))
WHOLE = tuple(moment for moment in Moment if moment is not Moment.LONG_BATCH)
"""The moments of a job with one shard, whose long batch goes on."""
JUDGED_EVERY = 15
"""Kills between two judgements; few, so that the one to blame is found."""


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A host, a broker and a subscriber for all tests here."""
    with pytest.MonkeyPatch.context() as patch, arenas.arena(tmp_path_factory.mktemp("chaos"), patch) as made:
        yield made


@pytest.fixture
def seeded(request: pytest.FixtureRequest) -> random.Random:
    """The random numbers; their seed is printed, and shown if a test fails. Only the long tests draw a new seed."""
    anew = random.SystemRandom().randrange(1_000_000) if request.node.get_closest_marker("chaos") else 1
    seed = int(os.environ.get("BRAID_CHAOS_SEED", anew))
    print(f"BRAID_CHAOS_SEED={seed}")  # noqa: T201 - needed to repeat a failure
    return random.Random(seed)


def play(scene: Scene, kills: list[Kill], drawn: random.Random) -> None:
    """Kill, swap plans meanwhile, and judge now and then."""
    scene.start()
    begun = time.monotonic()
    for turn, kill in enumerate(kills, 1):
        job, swaps = drawn.choice(list(scene.plans)), drawn.random() < 0.5
        # Another number of shards ends the long batch.
        begin = partial(scene.swap, drawn, job) if swaps or kill.moment is Moment.LONG_BATCH else lambda: None
        at = time.monotonic()
        strike(scene.arena, scene.arena.folder(job), kill, begin)
        print(f"{turn:3} {kill.victim:6} {kill.moment:9} {job:12} {time.monotonic() - at:5.1f} s")  # noqa: T201 - as above
        if turn % JUDGED_EVERY == 0 or turn == len(kills):
            scene.await_swaps()
            print(f"    {scene.judge():,} events as they should be, {time.monotonic() - begun:.0f} s")  # noqa: T201 - as above
    for job in scene.plans:
        scene.arena.end(job)


@pytest.mark.slow
def test_few_kills_cost_nothing(arena: Arena, tmp_path: Path, seeded: random.Random) -> None:
    """Two jobs joined by a bridge agree with the oracle although JVM, driver, workers and broker were killed."""
    kills = schedule(seeded, hosts=1, workers=2, brokers=1, moments=WHOLE)
    play(two_jobs(arena, "few", 100, tmp_path), kills, seeded)


@pytest.mark.slow
def test_few_kills_cost_nothing_while_shards_change(arena: Arena, tmp_path: Path, seeded: random.Random) -> None:
    """A job that grows and shrinks agrees with the oracle although JVM, driver and workers of shards were killed."""
    play(sharded_job(arena, "few-shards", 150, tmp_path), schedule(seeded, hosts=1, workers=3, brokers=0), seeded)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("make", "base"),
    [(one_job, 200), (two_jobs, 300), (sharded_job, 400), (sharded_jobs, 500)],
    ids=["one job", "two jobs", "a job with shards", "two jobs with shards"],
)
def test_many_kills_cost_nothing(
    arena: Arena,
    tmp_path: Path,
    seeded: random.Random,
    make: Callable[[Arena, str, int, Path], Scene],
    base: int,
) -> None:
    """One job, and two joined by a bridge, agree with the oracle however often anything was killed."""
    scene = make(arena, make.__name__.replace("_", "-"), base, tmp_path)
    moments = WHOLE if scene.shards == (1,) else tuple(Moment)
    kills = schedule(seeded, hosts=KILLS, workers=KILLS, brokers=KILLS // 2, moments=moments)
    play(scene, kills, seeded)


FEW = 16
"""Bytes that a file may have."""
BASES = {Victim.DRIVER: 500, Victim.WORKER: 520}


@pytest.fixture(scope="module")
def full_arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A host, a broker and a subscriber for all tests here."""
    with pytest.MonkeyPatch.context() as patch, arenas.arena(tmp_path_factory.mktemp("full"), patch) as made:
        yield made


@pytest.mark.full
@pytest.mark.parametrize("victim", BASES)
def test_a_full_disk_costs_nothing(full_arena: Arena, tmp_path: Path, victim: Victim) -> None:
    """The disk may be full for the host or a worker: the job stands still, and goes on once there is space."""
    scene = one_job(full_arena, f"full-{victim}", BASES[victim], tmp_path)
    scene.start()
    for process in _all(full_arena, victim):
        _limit(process, FEW)
    full_arena.until(lambda: bool(full_arena.status(scene.name).get("trouble")), "the job says its trouble")
    for process in _all(full_arena, victim):
        _limit(process, resource.RLIM_INFINITY)
    records = newest(full_arena.folder(scene.name).records)
    full_arena.until(lambda: newest(full_arena.folder(scene.name).records) > records + 2, "it goes on")
    scene.judge()
    full_arena.end(scene.name)


@pytest.mark.full
def test_a_job_begins_once_spark_can_write(full_arena: Arena, tmp_path: Path) -> None:
    """Spark itself writes when a job begins, and hardly afterwards: until it can, the job says its trouble."""
    scene = one_job(full_arena, "full-jvm", 510, tmp_path)
    full_arena.until(lambda: bool(full_arena.heard.get(topics.host(HOST, "status"))), "the host has begun")
    for process in _all(full_arena, Victim.JVM):
        _limit(process, FEW)
    full_arena.send(scene.plans[scene.name])
    full_arena.until(lambda: bool(full_arena.status(scene.name).get("trouble")), "the job says its trouble")
    for process in _all(full_arena, Victim.JVM):
        _limit(process, resource.RLIM_INFINITY)
    scene.start()
    scene.judge()
    full_arena.end(scene.name)


@pytest.mark.full
def test_a_generator_that_cannot_write(full_arena: Arena, tmp_path: Path) -> None:
    """A source that cannot write into its spool reports it in the host's status, and goes on once it can."""
    scene = one_job(full_arena, "generates", 530, tmp_path)
    scene.start()
    folder = spool_folder(full_arena.root, scene.raw) / LOG / "tmp"
    full_arena.until(lambda: _blocked(folder), "the folder for what is half written is none any more")
    full_arena.until(lambda: "Error" in full_arena.spool(scene.raw), "the host tells why")
    folder.unlink()
    full_arena.until(lambda: full_arena.spool(scene.raw) == "ready", "it writes again")
    scene.judge()
    full_arena.end(scene.name)


@pytest.mark.full
def test_a_receiver_that_cannot_write(full_arena: Arena, tmp_path: Path) -> None:
    """A stream that cannot be spooled reports it in the host's status, and goes on once it can."""
    scene = two_jobs(full_arena, "receives", 540, tmp_path)
    scene.start()
    folder = spool_folder(full_arena.root, "bridge/543:out") / LOG / "tmp"
    full_arena.until(lambda: _blocked(folder), "the folder for what is half written is none any more")
    full_arena.until(lambda: "Error" in full_arena.spool("bridge/543:out"), "the host tells why")
    folder.unlink()
    full_arena.until(lambda: full_arena.spool("bridge/543:out") == "ready", "it is written again")
    scene.judge()
    for job in scene.plans:
        full_arena.end(job)


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
