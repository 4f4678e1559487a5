"""The moments at which a batch with several shards can break: in each record, between two, and in the whole one."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.sharded_chain import ChainWorker, ShardedChain

LINKING = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
SHARDS = 3
OWN, WHOLE = 1, 2
"""The record of a shard is written first, and the whole one after that of the last shard."""


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ShardedChain]:
    """A chain through which some events went already, by three shards."""
    made = ShardedChain(tmp_path)
    made.events()
    made.whole()
    made.divide(SHARDS)
    made.whole()
    made.events()
    yield made
    made.close()


def settled(chain: ShardedChain) -> None:
    """Check that after a few more events everything is as if nothing had happened."""
    chain.events()
    chain.settle()
    chain.check()


@pytest.mark.parametrize("at", LINKING)
@pytest.mark.parametrize("before", range(SHARDS))
def test_a_worker_killed_while_it_records_its_shard(chain: ShardedChain, at: str, before: int) -> None:
    """If it dies at any step of its own record, its shard is run again or counts, and the others are not run again."""
    chain.dying_batch(at, OWN, before=before)
    settled(chain)


@pytest.mark.parametrize("at", LINKING)
def test_a_worker_killed_while_it_makes_the_whole_record(chain: ShardedChain, at: str) -> None:
    """All shards have their records by then, and any shard that is run again makes the whole one from them."""
    chain.dying_batch(at, WHOLE, before=SHARDS - 1)
    chain.begin_host()
    settled(chain)


def test_a_host_killed_between_the_records_of_two_shards(chain: ShardedChain) -> None:
    """The next host's Spark runs the batch with the same shards, although the plan has another number by now."""
    chain.dying_batch("open", OWN, before=1)
    chain.divide(2)
    chain.begin_host()
    settled(chain)


def test_a_batch_with_shards_killed_between_its_whole_record_and_its_commit(chain: ShardedChain) -> None:
    """It computes nothing when Spark runs its shards again."""
    chain.batch()
    chain.begin_host()
    chain.again()
    settled(chain)


def test_a_process_that_was_away_for_long_catches_up(chain: ShardedChain) -> None:
    """The records since it last had a shard are pruned by then, so it loads the state anew."""
    chain.batch()
    away, version = chain.processes, chain.job.store.batches().stop
    chain.processes = [ChainWorker(chain.root, chain)]
    while chain.job.store.batches().start <= version:
        chain.events()
        chain.whole()
        chain.pass_time()
    chain.processes = away
    settled(chain)


@pytest.mark.parametrize("at", LINKING)
def test_a_worker_killed_while_it_runs_again_what_others_ended_early(chain: ShardedChain, at: str) -> None:
    """The shards end at the same places all the same, and what a process kept of an overtaken run does not count."""
    chain.hasty = True
    for _ in range(8):
        chain.events()
        chain.dying_batch("nothing", OWN, before=SHARDS)
        chain.dying_batch(at, OWN, before=1)
        chain.batch()
    settled(chain)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_batch_of_which_a_shard_is_recorded_is_run_again_as_planned(chain: ShardedChain, shards: int) -> None:
    """Even if its host died: it ends where it ended, whatever came and whatever plan was logged since."""
    chain.dying_batch("open", OWN, before=1)
    chain.forget_planned()
    chain.divide(shards)
    chain.events()
    chain.begin_host()
    settled(chain)


ACTIONS: dict[str, Callable[[ShardedChain], None]] = {
    "events": ShardedChain.events,
    "batch": ShardedChain.batch,
    "again": ShardedChain.again,
    "one shard": lambda chain: chain.divide(1),
    "two shards": lambda chain: chain.divide(2),
    "five shards": lambda chain: chain.divide(5),
    "worker dies": lambda chain: chain.dying_batch(
        chain.drawn.choice(LINKING), chain.drawn.choice([OWN, WHOLE]), before=chain.drawn.randrange(5)
    ),
    "follow": ShardedChain.follow,
    "tidy": ShardedChain.tidy,
    "send": ShardedChain.send,
    "receive": ShardedChain.receive,
    "whole": ShardedChain.whole,
    "host dies": ShardedChain.begin_host,
    "plan lost": ShardedChain.forget_planned,
    "subscriber dies": ShardedChain.begin_receiver,
    "broker will lose": lambda chain: chain.armed.append("lose"),
}


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=40), st.randoms(use_true_random=False))
def test_whatever_happens_to_shards_in_whatever_order(
    tmp_path_factory: pytest.TempPathFactory, happens: list[str], drawn: random.Random
) -> None:
    """In whatever order shards die, end early, and their number changes, each key's events come once, in order."""
    chain = ShardedChain(tmp_path_factory.mktemp("chain"), drawn, hasty=True)
    try:
        for each in happens:
            ACTIONS[each](chain)
        chain.settle()
        chain.check()
    finally:
        chain.close()
