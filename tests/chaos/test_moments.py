"""The moments that random kills rarely hit, of batches and of shards; and files that are torn."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import PositionsGone, Spool, SpoolDamaged, topics
from bridge.files import no_steps, write_whole
from bridge.sender import OPENINGS
from bridge.spools.log import LOG
from bridge.wire import Frame, encode
from engine.delivery import follower
from engine.delivery.publisher import RUNS
from engine.records.files import RecordDamaged
from engine.records.job_folder import spool_folder
from tests.chaos.chain import AVERAGED, COUNTED, STREAM, Chain, ChainWorker, Death, ShardedChain, dying, full

LINKING = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
WRITING = ["open", "write", "sync", "rename", "sync folder", "done"]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """A chain through which some events went already."""
    made = Chain(tmp_path)
    made.events()
    made.whole()
    made.events()
    yield made
    made.close()


def settled(chain: Chain) -> None:
    """Check that after a few more events everything is as if nothing had happened."""
    chain.events()
    chain.settle()
    chain.check()


def much(chain: Chain) -> None:
    """Send more events through than fit into one file."""
    for _ in range(4):
        chain.events(40)
        chain.whole()


@pytest.mark.parametrize("at", LINKING)
def test_a_worker_killed_while_it_records(chain: Chain, at: str) -> None:
    """If a worker dies at any step of writing a record, the batch is run again or its record counts."""
    chain.job._worker._store._step = dying(at)
    with pytest.raises(Death):
        chain.batch()
    chain.begin_host()
    settled(chain)


@pytest.mark.parametrize("at", ["open", "write", "sync", "link"])
def test_a_worker_whose_disk_is_full(chain: Chain, at: str) -> None:
    """A record that does not fit leaves nothing behind, and the same worker writes it again."""
    chain.job._worker._store._step = full(at)
    with pytest.raises(OSError, match="No space left"):
        chain.batch()
    assert [] == list((chain.folder.records / "tmp").iterdir())
    chain.job._worker._store._step = no_steps
    settled(chain)


@pytest.mark.parametrize("at", ["open", "write", "sync", "rename"])
def test_a_subscriber_whose_disk_is_full(chain: Chain, at: str) -> None:
    """A receiver that cannot spool acknowledges nothing, so that the next one gets everything again."""
    chain.begin_receiver(full(at))
    with pytest.raises(OSError, match="No space left"):
        much(chain)
    assert [] == [path for spool in chain.spools.values() for path in (spool.folder / LOG / "tmp").glob("*")]
    chain.begin_receiver()
    settled(chain)


def test_a_host_killed_between_record_and_publishing(chain: Chain) -> None:
    """The next host publishes what was recorded and not published."""
    chain.batch()
    chain.begin_host()
    settled(chain)


def test_a_host_killed_before_a_tenant_has_its_output(chain: Chain) -> None:
    """Messages that the sender had not sent are handed over again, even after everything was tidied up."""
    chain.whole(chain.batch, chain.follow, chain.tidy)
    chain.begin_host()
    settled(chain)


def test_a_worker_killed_behind_a_record_that_it_has_not_reported(chain: Chain) -> None:
    """A recorded batch that is run again computes nothing."""
    chain.batch()
    chain.again()
    chain.begin_host()
    chain.again()
    settled(chain)


def test_a_host_killed_between_publishing_and_its_answer(chain: Chain) -> None:
    """The next host publishes it again, and the subscriber drops it."""
    chain.whole(chain.batch, chain.follow, chain.send)
    chain.begin_host()
    chain.whole(chain.follow, chain.send, chain.receive)
    settled(chain)


@pytest.mark.parametrize("at", WRITING)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_subscriber_killed_between_spooling_and_acknowledging(chain: Chain, at: str, nth: int) -> None:
    """If a receiver dies at any step of writing its spool, unacknowledged frames come again and count once."""
    chain.begin_receiver(dying(at, nth))
    with pytest.raises(Death):
        much(chain)
    chain.begin_receiver()
    settled(chain)


@pytest.mark.parametrize("at", WRITING)
def test_a_host_killed_while_it_notes_what_was_published(
    chain: Chain, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The written progress may be old or new: what is published twice counts once."""
    chain.whole(chain.batch, chain.follow, chain.send, chain.receive, chain.send)
    with monkeypatch.context() as patch:
        patch.setattr(follower, "write_whole", partial(write_whole, step=dying(at)))
        with pytest.raises(Death):
            chain.tidy()
    chain.begin_host()
    settled(chain)


@pytest.mark.parametrize("what", ["lose", "double", "hold"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_broker_that_keeps_no_promise(chain: Chain, what: str, nth: int) -> None:
    """Frames that a broker lost after it took them, delivered twice, or delivered last make no difference."""
    for turn in range(4):
        chain.events()
        if turn == nth:
            chain.armed = [what] * 2
        chain.whole()
    chain.release()
    settled(chain)


@pytest.mark.parametrize("count", [1, 2])
def test_a_broker_that_loses_the_last(chain: Chain, count: int) -> None:
    """Lost frames without any after them to show the gap are sent again, because they were not confirmed."""
    chain.armed = ["lose"] * count
    chain.whole()
    chain.settle()
    chain.check()


@pytest.mark.parametrize("away", [10.0, 90.0, 3_600.0])
def test_a_broker_loses_frames_of_a_host_that_dies(chain: Chain, away: float) -> None:
    """Missing frames are awaited however long the host is away, because its records hold them."""
    chain.whole()
    chain.events(40)
    chain.armed = ["lose", "lose"]
    chain.whole(chain.batch, chain.follow, chain.send)
    chain.events(40)
    chain.whole(chain.batch, chain.follow, chain.send, chain.receive)
    chain.pass_time(away)
    chain.receive()
    chain.begin_host()
    settled(chain)


def test_a_host_thought_dead_comes_back(chain: Chain) -> None:
    """Whatever the replaced host still publishes in its old epoch is refused."""
    old, client = chain.sender, chain.sender_client
    chain.whole(chain.batch, chain.follow)
    chain.begin_host()
    chain.whole(chain.follow, chain.send, chain.receive)
    # It still holds frames, and connects once more to publish them, so that the broker cuts the new one off.
    client.start()
    old.work()
    chain.receive()
    assert sum(intake.counts.refused for intake in chain.receiver.intakes.values()) > 0
    chain.sender_client.start()
    settled(chain)


def test_an_old_epoch_is_refused(chain: Chain) -> None:
    """Events of an epoch before are counted as refused and never spooled."""
    chain.settle()
    before = chain.received(COUNTED)
    events = pa.RecordBatch.from_pylist(before[:2])
    stale = Frame(instance=3, port="out", epoch=1 * RUNS * OPENINGS, first=len(before), events=events)
    chain.broker.publish(topics.stream(*COUNTED), encode(stale))
    chain.receive()
    assert before == chain.received(COUNTED)
    assert stale.count == chain.receiver.intakes[topics.stream(*COUNTED)].counts.refused


ACTIONS: dict[str, Callable[[Chain], None]] = {
    "events": Chain.events,
    "batch": Chain.batch,
    "again": Chain.again,
    "follow": Chain.follow,
    "tidy": Chain.tidy,
    "send": Chain.send,
    "receive": Chain.receive,
    "whole": Chain.whole,
    "time": Chain.pass_time,
    "release": Chain.release,
    "host dies": Chain.begin_host,
    "subscriber dies": Chain.begin_receiver,
    "broker will lose": lambda chain: chain.armed.append("lose"),
    "broker will double": lambda chain: chain.armed.append("double"),
    "broker will hold": lambda chain: chain.armed.append("hold"),
}


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=40))
def test_whatever_happens_in_whatever_order(tmp_path_factory: pytest.TempPathFactory, happens: list[str]) -> None:
    """In whatever order deaths, losses and steps of the work come, the subscriber agrees with the oracle."""
    chain = Chain(tmp_path_factory.mktemp("chain"))
    try:
        for each in happens:
            ACTIONS[each](chain)
        chain.settle()
        chain.check()
    finally:
        chain.close()


SHARDS = 3
OWN, WHOLE = 1, 2
"""The record of a shard is written first, and the whole one after that of the last shard."""


@pytest.fixture
def sharded(tmp_path: Path) -> Iterator[ShardedChain]:
    """A chain through which some events went already, by three shards."""
    made = ShardedChain(tmp_path)
    made.events()
    made.whole()
    made.divide(SHARDS)
    made.whole()
    made.events()
    yield made
    made.close()


@pytest.mark.parametrize("at", LINKING)
@pytest.mark.parametrize("before", range(SHARDS))
def test_a_worker_killed_while_it_records_its_shard(sharded: ShardedChain, at: str, before: int) -> None:
    """If it dies at any step of its own record, its shard is run again or counts, and the others are not run again."""
    sharded.dying_batch(at, OWN, before=before)
    settled(sharded)


@pytest.mark.parametrize("at", LINKING)
def test_a_worker_killed_while_it_makes_the_whole_record(sharded: ShardedChain, at: str) -> None:
    """All shards have their records by then, and any shard that is run again makes the whole one from them."""
    sharded.dying_batch(at, WHOLE, before=SHARDS - 1)
    sharded.begin_host()
    settled(sharded)


def test_a_host_killed_between_the_records_of_two_shards(sharded: ShardedChain) -> None:
    """The next host's Spark runs the batch with the same shards, although the plan has another number by now."""
    sharded.dying_batch("open", OWN, before=1)
    sharded.divide(2)
    sharded.begin_host()
    settled(sharded)


def test_a_batch_with_shards_killed_between_its_whole_record_and_its_commit(sharded: ShardedChain) -> None:
    """It computes nothing when Spark runs its shards again."""
    sharded.batch()
    sharded.begin_host()
    sharded.again()
    settled(sharded)


def test_a_process_that_was_away_for_long_catches_up(sharded: ShardedChain) -> None:
    """The records since it last had a shard are pruned by then, so it loads the state anew."""
    sharded.batch()
    away, version = sharded.processes, sharded.job.store.batches().stop
    sharded.processes = [ChainWorker(sharded.root, sharded)]
    while sharded.job.store.batches().start <= version:
        sharded.events()
        sharded.whole()
        sharded.pass_time()
    sharded.processes = away
    settled(sharded)


@pytest.mark.parametrize("at", LINKING)
def test_a_worker_killed_while_it_runs_again_what_others_ended_early(sharded: ShardedChain, at: str) -> None:
    """The shards end at the same places all the same, and what a process kept of an overtaken run does not count."""
    sharded.hasty = True
    for _ in range(8):
        sharded.events()
        sharded.dying_batch("nothing", OWN, before=SHARDS)
        sharded.dying_batch(at, OWN, before=1)
        sharded.batch()
    settled(sharded)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_batch_of_which_a_shard_is_recorded_is_run_again_as_planned(sharded: ShardedChain, shards: int) -> None:
    """Even if its host died: it ends where it ended, whatever came and whatever plan was logged since."""
    sharded.dying_batch("open", OWN, before=1)
    sharded.forget_planned()
    sharded.divide(shards)
    sharded.events()
    sharded.begin_host()
    settled(sharded)


SHARD_ACTIONS: dict[str, Callable[[ShardedChain], None]] = {
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


@given(st.lists(st.sampled_from(sorted(SHARD_ACTIONS)), max_size=40), st.randoms(use_true_random=False))
def test_whatever_happens_to_shards_in_whatever_order(
    tmp_path_factory: pytest.TempPathFactory, happens: list[str], drawn: random.Random
) -> None:
    """In whatever order shards die, end early, and their number changes, each key's events come once, in order."""
    sharded = ShardedChain(tmp_path_factory.mktemp("chain"), drawn, hasty=True)
    try:
        for each in happens:
            SHARD_ACTIONS[each](sharded)
        sharded.settle()
        sharded.check()
    finally:
        sharded.close()


Tear = Callable[[bytes], bytes]

TEARS: dict[str, Tear] = {
    "emptied": lambda _whole: b"",
    "cut in its first line": lambda whole: whole[:30],
    "cut in the middle": lambda whole: whole[: len(whole) // 2],
    "without its last byte": lambda whole: whole[:-1],
    # In an event, where only a checksum shows it.
    "with a byte changed": lambda whole: whole.replace(b"k1", b"k2", 1),
}


@pytest.fixture
def written_chain(tmp_path: Path) -> Iterator[Chain]:
    """A chain through which some events went already."""
    made = Chain(tmp_path)
    for _ in range(3):
        made.events()
        made.whole()
    yield made
    made.close()


def torn(path: Path, tear: Tear) -> bytes:
    """Tear a file, and return what it held."""
    whole = path.read_bytes()
    assert tear(whole) != whole
    path.write_bytes(tear(whole))
    return whole


def go_on(chain: Chain) -> None:
    """Begin again and run everything that is there, like a host that was started again."""
    chain.begin_host()
    chain.settle()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_record(written_chain: Chain, tear: Tear) -> None:
    """A job whose last record is torn names it and computes nothing on top; once restored, it goes on as ever."""
    written_chain.events()
    written_chain.batch()
    path = written_chain.folder.records / f"{written_chain.job.batch - 1:020d}"
    whole = torn(path, tear)
    sent = written_chain.received(AVERAGED)
    with pytest.raises(RecordDamaged, match=f"{path.name} cannot be read.*restore it"):
        go_on(written_chain)
    assert sent == written_chain.received(AVERAGED)
    path.write_bytes(whole)
    go_on(written_chain)
    written_chain.check()


def test_a_missing_record(written_chain: Chain) -> None:
    """A record that is missing among others is named."""
    written_chain.events()
    written_chain.batch()
    written_chain.events()
    written_chain.batch()
    path = written_chain.folder.records / f"{written_chain.job.batch - 2:020d}"
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(RecordDamaged, match=f"{path.name} is missing; restore it"):
        go_on(written_chain)
    path.write_bytes(whole)
    go_on(written_chain)
    written_chain.check()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_file_of_a_spool(written_chain: Chain, tear: Tear) -> None:
    """A job whose spool has a torn file names it and reads nothing beyond; once restored, all of it is read."""
    written_chain.events()
    path = max((spool_folder(written_chain.root, STREAM) / LOG).glob("0*"))
    whole = torn(path, tear)
    for _ in range(2):
        with pytest.raises(SpoolDamaged, match=f"{path.name} cannot be read.*restore it"):
            go_on(written_chain)
    path.write_bytes(whole)
    go_on(written_chain)
    written_chain.check()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_file_is_not_appended_to(written_chain: Chain, tear: Tear) -> None:
    """A spool whose last file is torn is not opened for writing, so that nothing is received behind a gap."""
    folder = written_chain.spools[AVERAGED].folder
    written_chain.spools[AVERAGED].close()
    path = max((folder / LOG).glob("0*"))
    whole = torn(path, tear)
    with pytest.raises(SpoolDamaged, match=f"{path.name} cannot be read.*restore it"):
        Spool(folder, most_bytes=1 << 30)
    path.write_bytes(whole)
    written_chain.begin_receiver()
    go_on(written_chain)
    written_chain.check()


def test_a_file_of_a_spool_that_is_gone(written_chain: Chain) -> None:
    """A job whose unread events were removed says where the rest begin; it does not pass over them."""
    written_chain.events()
    written_chain.events()
    log = spool_folder(written_chain.root, STREAM) / LOG
    for path in sorted(log.glob("0*"))[:-1]:
        path.unlink()
    with pytest.raises(PositionsGone, match="was removed"):
        go_on(written_chain)
