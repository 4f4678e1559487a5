"""Hosts, workers and the broker are killed while plans are swapped: nothing is lost, doubled, or different.

`BRAID_CHAOS_SEED` repeats a run as far as the machine lets it. `BRAID_CHAOS_KILLS` sets how often each of the long
tests kills a host and a worker; the broker is killed half as often.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import killing as arenas
from tests.chaos.killing import Arena, Kill, Moment, schedule, strike
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
