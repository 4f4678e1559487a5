"""Spark's Python workers, and the source: which events it reads again of a batch that is partly gone."""

import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pyarrow as pa
import pytest

from bridge import Item, Lease, PositionsGone, Spool, SpoolIndex, commit
from bridge.spools.log import packed
from engine.host.consumers import HostConsumers
from engine.job.looks import JobLooks
from engine.job.pace import next_batch
from engine.job.pace_keeper import LongBatch, PaceKeeper, PlannedBatch, ReaderOrder
from engine.job.pace_server import PaceServer
from engine.job.plan_log import past_gone
from engine.job.query import HostParts, SparkJob
from engine.kernel.batch_rows import ShardRows, read_rows, written_rows
from engine.kernel.worker import Worker
from engine.offset import Offset, Span
from engine.port_events import read_samples
from engine.records.files import RecordDamaged
from engine.records.job_folder import job_folder, spool_folder
from engine.spark import batch_task
from engine.spark.batch_task import GarbageGuard
from engine.spark.programs import forking_python
from engine.spark.session import start_session, workers_named
from engine.spark.source import LongBatchShard, PaceLine, SpoolStreamReader
from tests.chaos.chain import BEHAVIOURS, JOB, PLAN, STREAM
from tests.twins.memory_clock import MemoryClock
from tests.twins.twin_job import TwinJob

HOST = """
import sys
from engine.spark.programs import forking_python

print(forking_python(sys.executable), flush=True)
sys.stdin.read()
"""
SHOWS = """
import json, os, sys
from pathlib import Path

if __name__ == "__main__":
    print(json.dumps([sys.argv[1:], os.environ["SHOWN"], str(Path.cwd()), sys.stdin.read(), hash("a"), __name__]))
    print("trouble", file=sys.stderr)
    sys.exit("also trouble" if "fails" in sys.argv else 0)
"""
SESSION = """
import json
import psutil
from engine.machines.warm_up import warm_up
from engine.spark.session import start_session

session = start_session("forks", master="local[1]")
warm_up(session, lambda: False)
server, java = sorted(psutil.Process().children(), key=lambda each: each.name() == "java")
loading = [each.name() for each in java.children(recursive=True) if "python" in each.name()]
forks = server.children(recursive=True)
session.stop()
_, left = psutil.wait_procs(forks, 30)
print(json.dumps([loading, len(forks), len(left)]))
"""


_BOUND = 30.0


def until(found: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + _BOUND
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Host:
    """A process that has a fork server, and the program that asks for forks."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.program = self.process.stdout.readline().strip()
        (self.server,) = psutil.Process(self.process.pid).children()

    def start(self, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
        """Start the module that shows what it was given, in a folder."""
        (folder / "shows.py").write_text(SHOWS)
        return subprocess.Popen(  # noqa: S603 - our own module
            [self.program, "-m", "shows", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), "SHOWN": "yes", "PYTHONHASHSEED": "0"},
            text=True,
        )

    def forks(self, number: int) -> list[psutil.Process]:
        """The forks, once there are so many."""
        until(lambda: len(self.server.children()) == number)
        return self.server.children()


@pytest.fixture
def host() -> Iterator[Host]:
    """A host that is killed in the end, so that its server ends."""
    made = Host()
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()
        made.server.wait(_BOUND)


def test_a_fork_is_like_the_process_that_was_asked_for(host: Host, tmp_path: Path) -> None:
    """It has the arguments, the environment, the folder, the streams and the hashes of one."""
    shown = []
    for program in (host.program, sys.executable):
        host.program = program
        process = host.start(tmp_path, "one", "-m", "two words")
        out, trouble = process.communicate("input")
        assert "trouble\n" == trouble
        shown.append(json.loads(out))
    assert shown[0] == shown[1]
    assert [["one", "-m", "two words"], "yes", str(tmp_path), "input"] == shown[0][:4]


def test_what_a_fork_says_when_it_fails_is_seen(host: Host, tmp_path: Path) -> None:
    """Its errors come where those of its client go, and its client ends with it."""
    process = host.start(tmp_path, "fails")
    _, trouble = process.communicate("")
    assert "trouble\nalso trouble\n" == trouble
    host.forks(0)


def test_a_fork_ends_with_its_client(host: Host, tmp_path: Path) -> None:
    """Spark ends what it has started, however it does so; other forks stay."""
    kept, ended = host.start(tmp_path), host.start(tmp_path)
    host.forks(2)
    ended.kill()
    host.forks(1)
    out, _ = kept.communicate("kept")
    assert "kept" == json.loads(out)[3]
    ended.communicate()


def test_forks_and_their_server_end_with_their_host(host: Host, tmp_path: Path) -> None:
    """Also if it is killed; nothing is left in the folder for temporary files."""
    client = host.start(tmp_path)
    (fork,) = host.forks(1)
    host.process.kill()
    fork.wait(_BOUND)
    host.server.wait(_BOUND)
    client.communicate()
    assert not Path(host.program).parent.exists()


def test_without_a_server_python_runs_by_itself(host: Host, tmp_path: Path) -> None:
    """A server that was killed costs time, and nothing else."""
    host.server.kill()
    until(lambda: not host.server.is_running())
    out, trouble = host.start(tmp_path, "alone").communicate("input")
    assert (["alone"], "trouble\n") == (json.loads(out)[0], trouble)


def test_a_server_that_was_killed_is_started_again(host: Host, tmp_path: Path) -> None:
    """Python processes are forked from the next one."""
    host.server.kill()
    until(lambda: not host.server.is_running() and bool(psutil.Process(host.process.pid).children()))
    (host.server,) = psutil.Process(host.process.pid).children()
    client = host.start(tmp_path)
    host.forks(1)
    out, _ = client.communicate("again")
    assert "again" == json.loads(out)[3]


def test_a_server_that_is_busy_loses_no_request(host: Host, tmp_path: Path) -> None:
    """It was asked while it could not answer; the fork comes once it can."""
    host.server.suspend()
    client = host.start(tmp_path)
    host.server.resume()
    out, _ = client.communicate("late")
    assert "late" == json.loads(out)[3]


def test_a_python_that_someone_chose_is_not_forked() -> None:
    """It may have other modules."""
    assert "/opt/other/python" == forking_python("/opt/other/python")


def test_where_no_socket_can_be_python_starts_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A path that is too long for one is said, and leaves nothing behind."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    forking_python.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert sys.executable == forking_python(sys.executable)
    forking_python.cache_clear()
    assert str(folder) in caplog.text
    assert not list(folder.iterdir())


@pytest.mark.spark
def test_every_python_process_of_a_session_is_forked() -> None:
    """On real Spark, with a job: below the JVM is no Python that loads anything, and no fork outlives the session."""
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, check=True, text=True)  # noqa: S603 - ours
    loading, forks, left = json.loads(done.stdout)
    assert ([], 0) == (loading, left)
    assert forks


def _pids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"pid": pa.array([os.getpid()] * batch.num_rows, pa.int64())})


@pytest.mark.spark
def test_processes_are_shared_under_one_name_only() -> None:
    """Without a name, the second job gets the process of the first; with a name it gets another, and keeps it."""
    session = start_session("named workers", master="local[1]")
    try:

        def ran(name: str) -> set[int]:
            with workers_named(session, name):
                frame = session.range(3).mapInArrow(_pids, "pid long")
            return {row.pid for row in frame.collect()}

        common, own = ran(""), ran("eve")
        assert common == ran("")
        assert own == ran("eve")
        assert not common & own
        assert not ran("mallory") & (common | own)
    finally:
        session.stop()


class Knot:
    """An object that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def sparing() -> Iterator[GarbageGuard]:
    """A guard that has begun, in a process that freezes nothing else and only collects when a test says so."""
    guard, others = GarbageGuard(), gc.callbacks[:]
    # An earlier test of this process may have begun a guard, which knows nothing of this one's batches.
    gc.callbacks.clear()
    gc.disable()
    gc.collect()
    gc.freeze()
    guard.begin()
    yield guard
    gc.callbacks[:] = others
    gc.unfreeze()
    gc.enable()


def much() -> list[list[int]]:
    """So many objects that a collection takes long."""
    return [[number] for number in range(300_000)]


def test_objects_that_outlive_a_long_collection_are_not_scanned_again(sparing: GarbageGuard) -> None:
    """Objects that a process keeps between two batches are frozen by the first long collection."""
    with sparing.batch():
        kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_few_objects_are_not_frozen(sparing: GarbageGuard) -> None:
    """A short collection freezes nothing, so that objects can still be freed later."""
    del sparing
    knot = Knot()
    gc.collect()
    ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None


def test_a_batch_frees_its_garbage(sparing: GarbageGuard) -> None:
    """Collections within a batch do not freeze its objects."""
    with sparing.batch():
        knot, kept = Knot(), much()
        gc.collect()
        ended = weakref.ref(knot)
    del knot
    gc.collect()
    assert ended() is None
    assert kept


def test_a_failed_batch_is_over(sparing: GarbageGuard) -> None:
    """Collections freeze again after a batch that raised."""
    with pytest.raises(RuntimeError), sparing.batch():
        raise RuntimeError
    kept = much()
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_a_guard_begins_once_however_often_it_is_asked() -> None:
    """On a cluster each task asks, because nobody else has begun there."""
    guard, before = GarbageGuard(), len(gc.callbacks)
    guard.begin()
    guard.begin()
    assert before + 1 == len(gc.callbacks)
    gc.callbacks.remove(guard._on_collection)


@pytest.fixture
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_task, "_workers", {})


def begin(root: Path, name: str, at: int = 1) -> None:
    folder = job_folder(root, name)
    folder.make()
    Lease(folder.path).release()
    # Clocks of file systems tick slowly, and no two jobs have one name at the same moment.
    os.utime(folder.path / "lease", (at, at))
    folder.mark_running()


@pytest.mark.usefixtures("nothing_remembered")
def test_a_job_that_runs_is_remembered_with_its_state(tmp_path: Path) -> None:
    """Over any number of batches, and batches of other jobs."""
    for name in ("a", "b"):
        begin(tmp_path, name)
    met = batch_task._worker(tmp_path, "a")
    assert met is not batch_task._worker(tmp_path, "b")
    assert met is batch_task._worker(tmp_path, "a")


@pytest.mark.usefixtures("nothing_remembered")
def test_the_state_of_a_stopped_job_is_forgotten(tmp_path: Path) -> None:
    """With the next job; otherwise it would take memory until the process ends."""
    for name in ("a", "b", "c"):
        begin(tmp_path, name)
        batch_task._worker(tmp_path, name)
    for name in ("a", "b"):
        job_folder(tmp_path, name).mark_stopped()
    begin(tmp_path, "d")
    batch_task._worker(tmp_path, "d")
    assert {"c", "d"} == {job for _, job in batch_task._workers}


@pytest.mark.usefixtures("nothing_remembered")
def test_a_job_has_no_state_of_an_earlier_job_of_its_name(tmp_path: Path) -> None:
    """It begins without state after the folder of the earlier job was removed."""
    begin(tmp_path, "a")
    met = batch_task._worker(tmp_path, "a")
    shutil.rmtree(job_folder(tmp_path, "a").path)
    begin(tmp_path, "a", at=2)
    assert met is not batch_task._worker(tmp_path, "a")


@pytest.mark.usefixtures("nothing_remembered")
def test_the_host_hears_of_a_worker_that_raises_before_spark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the reader of that shard end: until then, Spark would not look at the error."""
    asked = list[dict[str, Any]]()

    def ask(_line: PaceLine, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {}

    monkeypatch.setattr(PaceLine, "ask", ask)
    begin(tmp_path, "a")
    span = Span(Offset(), Offset(entry=7, shards=3))
    with pytest.raises(RecordDamaged):
        # The job has no such plan.
        list(batch_task.answer(str(tmp_path), "a", "nowhere", written_rows(0, span, [], shard=2)))
    assert [{"recorded": None}, {"raised": 2}] == asked


@pytest.mark.usefixtures("nothing_remembered")
def test_a_worker_reports_events_of_the_instances_that_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the record, and nothing more is reported of a batch that nobody looks at."""
    asked = list[dict[str, Any]]()

    def ask(_line: PaceLine, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {}

    instance = PLAN.slots[0].instance
    with ran(tmp_path, gone=0) as (span, _):
        items = read(tmp_path, span).items
        monkeypatch.setattr(PaceLine, "ask", ask)
        for looked_at in ([], [instance]):
            unrecorded(tmp_path)
            asked.clear()
            batch_task._workers.clear()
            list(batch_task.answer(str(tmp_path), JOB, "nowhere", written_rows(1, span, items, 0, looked_at)))
            assert [{"recorded": None}, {"recorded": 1}] == asked[:2]
            assert bool(looked_at) == (len(asked) == 3)
    samples = read_samples(asked[-1]["sampled"])
    assert [instance] == asked[-1]["of"]
    assert {instance} == {sample.at.instance for sample in samples}
    assert 5 == next(sample.count for sample in samples if sample.at.is_input)


def test_the_reader_passes_on_who_is_looked_at_when_a_batch_begins(tmp_path: Path) -> None:
    """As the host says then."""
    with ran(tmp_path, gone=0) as (span, _):
        assert [] == list(read(tmp_path, span).looked_at)
        assert [7] == list(read(tmp_path, span, looked_at=7).looked_at)


NO_SPARK = cast("Any", None)
NO_HOST = cast("Any", SimpleNamespace(need=lambda *_ingress: None))


def events(many: int) -> Item:
    return Item(count=many, stamp=1, payload=packed(pa.record_batch({"k": ["a"] * many, "v": [30.0] * many})))


@contextmanager
def ran(root: Path, *, gone: int = 5) -> Iterator[tuple[Span, Spool]]:
    """A batch of three and two events that a job ran; some were removed after the job had left the spool."""
    spool = Spool(spool_folder(root, STREAM), most_bytes=1 << 30)
    for many in (3, 2):
        spool.append([events(many)])
    job = TwinJob(root, JOB, BEHAVIOURS)
    job.log(PLAN)
    job.settle()
    spool.append([events(4)])
    commit(spool.folder, "another", gone)
    spool.prune()
    latest = job.store.file(job.batch - 1).header
    assert 5 == latest.end.at[STREAM]
    yield Span(latest.start, latest.end), spool
    spool.close()


def unrecorded(root: Path) -> None:
    """Undo the record of the last batch, as if the job was stopped before it."""
    max((job_folder(root, JOB).records).glob("0*")).unlink()


def come_back(root: Path) -> None:
    """Do what the job's host does first when it starts the job again."""
    job = SparkJob(
        JOB,
        HostParts(
            root=root,
            session=NO_SPARK,
            pace=NO_SPARK,
            sender=NO_SPARK,
            clock=MemoryClock(),
            on_record=lambda _job: None,
            owned_spool=lambda _stream: None,
        ),
    )
    HostConsumers(root, NO_HOST).rejoin(job)
    job.release()


class Given(PaceKeeper):
    """A keeper that gives the reader of a long batch one batch."""

    def __init__(self, batch: PlannedBatch) -> None:
        self._batch = batch
        self.looks = JobLooks()

    def batch_after(
        self, within: LongBatch, shard: int, reader: str, last: tuple[int, int] | None
    ) -> PlannedBatch | ReaderOrder:
        assert (LongBatch(1, 1), 0) == (within, shard)
        assert reader
        return self._batch if last is None else ReaderOrder.END

    def is_timed(self, batch: PlannedBatch) -> bool:  # noqa: ARG002 - as the keeper has it
        """No batch is traced."""
        return False

    def stop(self) -> None:
        """There is nothing to stop."""


def read(root: Path, span: Span, *, looked_at: int | None = None) -> ShardRows:
    """What the worker gets of a batch that the reader of a long batch was given."""
    folder = Path(tempfile.mkdtemp(dir=root))
    with closing(PaceServer(folder / "pace")) as server:
        keeper = Given(PlannedBatch(1, span))
        if looked_at is not None:
            keeper.looks.renew(looked_at, 60.0)
        server.add(JOB, keeper)
        reader = SpoolStreamReader({"job": JOB, "root": str(root), "pace": server.address})
        with closing(reader):
            (rows,) = read_rows(reader.read(LongBatchShard(long_batch=1, shards=1, shard=0)))
    return rows


@pytest.mark.parametrize("shards", [1, 3])
def test_a_long_batch_is_one_task_of_spark_for_each_shard(tmp_path: Path, shards: int) -> None:
    """A long batch that does not begin has no task."""
    reading = SpoolStreamReader({"job": JOB, "root": str(tmp_path), "pace": ""})
    start, end = {"long_batch": 3, "shards": 1}, {"long_batch": 4, "shards": shards}
    assert [LongBatchShard(4, shards, shard) for shard in range(shards)] == reading.partitions(start, end)
    assert not reading.partitions(start, start)


def test_an_unrecorded_batch_does_not_run_without_its_events(tmp_path: Path) -> None:
    """No event is lost in silence."""
    with ran(tmp_path) as (span, _):
        unrecorded(tmp_path)
        with pytest.raises(PositionsGone):
            read(tmp_path, span)


@pytest.mark.parametrize(("gone", "left"), [(3, [(3, 2)]), (5, []), (9, [])])
def test_a_job_that_was_stopped_in_a_batch_runs_it_with_the_events_that_are_left(
    tmp_path: Path, gone: int, left: list[tuple[int, int]]
) -> None:
    """It runs with the same events each time until it is recorded, and none of them comes in the next batch again."""
    with ran(tmp_path, gone=gone) as (span, spool):
        unrecorded(tmp_path)
        come_back(tmp_path)
        items = read(tmp_path, span).items
        assert left == [(item.first, item.count) for item in items]
        # Other jobs read on.
        commit(spool.folder, "another", 9)
        spool.prune()
        come_back(tmp_path)
        assert (1, span, items, 0, [], False) == read(tmp_path, span)
        assert [True, True] == [Worker(tmp_path, JOB).work_off(1, span, items) for _ in range(2)]


@pytest.mark.parametrize("gone", [3, 9])
def test_the_batch_after_the_one_a_job_was_stopped_in_reads_what_is_left(tmp_path: Path, gone: int) -> None:
    """More events may be gone than the first batch was to hold."""
    with ran(tmp_path, gone=gone) as (span, spool):
        unrecorded(tmp_path)
        come_back(tmp_path)
        folder, end = job_folder(tmp_path, JOB), span.end
        entries = [past_gone(entry, folder.gone()) for entry in folder.entries(1)]
        warming = next_batch(end, run=2, entries=entries, spools={STREAM: SpoolIndex(spool.folder)})
        assert max(5, gone) == warming.end.at[STREAM]
        following = next_batch(warming.end, run=2, entries=entries, spools={STREAM: SpoolIndex(spool.folder)})
        assert 9 == following.end.at[STREAM]
        items = read(tmp_path, Span(warming.end, following.end)).items
        assert [(5, 4)] * (gone < 9) == [(item.first, item.count) for item in items]
