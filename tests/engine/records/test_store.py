"""The store of a job's records: its laws, and crashes at any step of writing or pruning."""

import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.files import clear_unfinished
from engine.offset import Offset
from engine.plan import Port
from engine.records.files import RecordDamaged
from engine.records.record import EmittedEvents, Record, Table
from engine.records.state import NUMBERS, InstanceStates
from engine.records.store import RecordStore
from tests.engine.records.unpacked import group_of, record_in, unpacked_value

EVENTS = pa.record_batch({"n": pa.array([1, 2], pa.int64())})


def work_off(store: RecordStore, state: InstanceStates, **puts: int) -> Record:
    """A batch that puts values under keys of instance 1 and emits two events."""
    for key, value in puts.items():
        state.of(1).put((key,), value)
    first = state.of(1).advance("out", 2)
    batch = state.version + 1
    emitted = EmittedEvents(origin=Port(1, "out"), first=first, events=EVENTS)
    made = Record(
        batch=batch,
        start=Offset(at={"s": batch}),
        end=Offset(at={"s": batch + 1}),
        changes=state.changes(),
        emitted=(emitted,),
    )
    record = state.settle(made)
    assert store.write(record)
    return record


def test_a_record_is_found_and_read(tmp_path: Path) -> None:
    """By its batch, as a whole or the header alone. Other batches have none."""
    store = RecordStore(tmp_path)
    record = work_off(store, InstanceStates(), a=1)
    found = store.find(0)
    assert found is not None
    assert (record.start, record.end, record.base) == (found.header.start, found.header.end, found.header.base)
    assert record == record_in(store.file(0))
    assert store.find(1) is None
    assert range(1) == store.batches()


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    """Before the first batch there are no records, and the state is empty."""
    store = RecordStore(tmp_path)
    assert (0, -1, {}) == (len(store.batches()), store.state(0).version, store.state(0).kept)
    assert {} == store.state_at(-1, (1,))
    store.prune(0)


def test_the_first_record_of_a_batch_counts(tmp_path: Path) -> None:
    """A second one is rejected, and the first does not change."""
    store = RecordStore(tmp_path)
    record = work_off(store, InstanceStates(), a=1)
    assert not store.write(replace(record, dropped=(9,)))
    assert record == record_in(store.file(0))


def test_a_state_is_made_from_records(tmp_path: Path) -> None:
    """A new worker begins a batch with the state that all earlier batches left."""
    store, state = RecordStore(tmp_path), InstanceStates()
    for batch in range(5):
        work_off(store, state, **{f"k{batch}": batch, "same": batch})
    assert [{"k0": 0, "k4": 4, "same": 4, "n": 10}, {"k0": 0, "k4": None, "same": 2, "n": 6}] == [
        {**{key: made.of(1).get((key,)) for key in ("k0", "k4", "same")}, "n": made.of(1).number("out")}
        for made in (store.state(5), store.state(3))
    ]


@pytest.mark.parametrize("seen", [-1, 1, 4, 7, 9])
def test_a_worker_catches_up_from_any_version(tmp_path: Path, seen: int) -> None:
    """From older versions, the same version, and a later one."""
    store, state = RecordStore(tmp_path), InstanceStates()
    for batch in range(10):
        work_off(store, state, **{f"k{batch % 3}": batch})
    behind = store.state(seen + 1)
    behind.of(1).put(("left over",), 1)
    store.catch_up(behind, 8)
    expected = store.state(8)
    assert (7, expected.kept, {}) == (behind.version, behind.kept, behind.changes())
    again = Record(batch=8, start=Offset(at={"s": 8}), end=Offset(at={"s": 9}))
    assert expected.settle(again) == behind.settle(again)


def test_a_moved_instance_takes_its_state_as_of_the_cut(tmp_path: Path) -> None:
    """All its state at a version, with its numbers, and no state of others."""
    store, state = RecordStore(tmp_path), InstanceStates()
    for batch in range(6):
        state.of(2).put(("other",), batch)
        work_off(store, state, a=batch)
    here = InstanceStates()
    here.bring(store.state_at(3, (1,)))
    assert (3, 8, None) == (here.of(1).get(("a",)), here.of(1).number("out"), here.of(2).get(("other",)))
    assert {1, 2} == set(store.state_at(3, (1, 2)))
    assert {} == store.state_at(3, (5,))


def test_needed_records_cannot_be_pruned(tmp_path: Path) -> None:
    """Pruning refuses to remove what the newest state is made from."""
    store, state = RecordStore(tmp_path), InstanceStates()
    state.of(1).put_many([b"%d" % n for n in range(500)], [b"value"] * 500)
    for batch in range(40):
        work_off(store, state, a=batch)
    base = store.base(39)
    assert 0 == base
    store.prune(base)
    assert range(40) == store.batches()
    with pytest.raises(ValueError, match=f"{tmp_path} cannot be pruned before batch 1: 0 and later are needed"):
        store.prune(1)
    base = next(record.base for record in (work_off(store, state, a=0) for _ in range(1_000)) if record.base >= 5)
    kept = {
        instance: {group: dict(items) for group, items in groups.items()} for instance, groups in state.kept.items()
    }
    store.prune(base)
    assert range(base, state.version + 1) == store.batches()
    assert kept == store.state(state.version + 1).kept


def test_a_missing_record_is_damage(tmp_path: Path) -> None:
    """It is named, instead of a state that lacks something."""
    store, state = RecordStore(tmp_path), InstanceStates()
    for batch in range(3):
        work_off(store, state, **{f"k{batch}": 1})
    gone = tmp_path / f"{1:020d}"
    gone.unlink()
    behind = InstanceStates()
    for making in (lambda: store.state(3), lambda: store.file(1), lambda: store.catch_up(behind, 2)):
        with pytest.raises(RecordDamaged, match=f"{gone} is missing; restore it"):
            making()


@pytest.mark.parametrize("seen", [-1, 6, 12], ids=["loads", "catches up", "goes back"])
def test_catching_up_that_failed_can_be_repeated(tmp_path: Path, seen: int) -> None:
    """Once a damaged record is restored, the state becomes right."""
    store, state = RecordStore(tmp_path), InstanceStates()
    for batch in range(13):
        work_off(store, state, **{f"k{batch}": batch, **{f"same{n}": batch for n in range(50)}})
    assert 0 < store.base(9) < 9
    behind = store.state(seen + 1)
    path = tmp_path / f"{9:020d}"
    content = path.read_bytes()
    changes = content.index(msgspec.msgpack.encode(store.file(9).changes()))
    path.write_bytes(content[:changes] + b"damaged" + content[changes + 7 :])
    with pytest.raises(RecordDamaged, match="a checksum does not match; restore it"):
        store.catch_up(behind, 10)
    path.write_bytes(content)
    store.catch_up(behind, 10)
    assert (9, store.state(10).kept) == (behind.version, behind.kept)


def test_a_batch_without_predecessor_is_damage(tmp_path: Path) -> None:
    """A job that lost its records does not start from nothing."""
    with pytest.raises(RecordDamaged, match="is missing; restore it"):
        RecordStore(tmp_path).state(17)


def test_a_partly_written_file_is_no_record(tmp_path: Path) -> None:
    """Nor are other files in the folder."""
    store = RecordStore(tmp_path)
    work_off(store, InstanceStates(), a=1)
    (tmp_path / ".nfs0001").write_bytes(b"")
    (tmp_path / "tmp" / f"{1:020d}").write_bytes(b"")
    assert range(1) == store.batches()
    assert store.find(1) is None


INSTANCES = st.integers(1, 4)
KEYS = st.integers(0, 11)
# A few values are large, so that some groups wait long for their images.
VALUES = st.integers(0, 9) | st.integers(0, 3).map(lambda times: "x" * 100 * times)
DOING = st.lists(
    st.tuples(st.just("put"), INSTANCES, KEYS, VALUES)
    | st.tuples(st.just("delete"), INSTANCES, KEYS, st.none())
    | st.tuples(st.just("advance"), INSTANCES, st.just("out"), st.integers(0, 3)),
    max_size=6,
)
Content = dict[tuple[int, Any], Any]


def content(table: Table) -> Content:
    """A state as a plain dictionary; each key is in its group, and nothing empty is kept."""
    found: Content = {}
    for instance, groups in table.items():
        assert groups
        for group, items in groups.items():
            assert items
            for key, value in items.items():
                assert value is not None
                assert group == NUMBERS or group == group_of(key)
                name = key.decode() if group == NUMBERS else tuple(unpacked_value(key))
                found[instance, name] = unpacked_value(value)
    return found


class Job(RuleBasedStateMachine):
    """A job, with a worker that works, one that lags, and a model that is a dictionary for each version."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = RecordStore(self.folder)
        self.worker = InstanceStates()
        self.late = InstanceStates()
        self.model: list[Content] = [{}]

    @rule(done=DOING, undone=DOING, dropped=st.sets(INSTANCES, max_size=1), by_late=st.booleans())
    def batch(self, done: Any, undone: Any, dropped: set[int], by_late: bool) -> None:  # noqa: FBT001 - drawn
        """A batch whose last call raised; the worker that lags may take it, and makes the same record."""
        done = [action for action in done if action[1] not in dropped]
        undone = [action for action in undone if action[1] not in dropped]
        model = {(instance, key): value for (instance, key), value in self.model[-1].items() if instance not in dropped}
        for what, instance, key, value in done:
            if what == "put":
                model[instance, (key,)] = value
            elif what == "delete":
                model.pop((instance, (key,)), None)
            elif value:
                model[instance, key] = model.get((instance, key), 0) + value
        workers = [self.worker]
        if by_late:
            self.store.catch_up(self.late, len(self.model) - 1)
            workers.append(self.late)
        records = [self._settled(worker, done, undone, dropped) for worker in workers]
        assert records[0] == records[-1]
        assert self.store.write(records[-1])
        assert records[0] == record_in(self.store.file(records[0].batch))
        self.model.append(model)

    @rule(batches=st.integers(1, 20))
    def idle(self, batches: int) -> None:
        """Batches in which nothing changes."""
        for _ in range(batches):
            assert self.store.write(self._settled(self.worker, [], [], set()))
            self.model.append(self.model[-1])

    @rule(draw=st.data())
    def prune(self, draw: st.DataObject) -> None:
        """Records that no version from some on needs are removed."""
        versions = self._kept_versions()
        if versions:
            keep = draw.draw(st.sampled_from(versions))
            self.store.prune(self.store.base(keep))
            assert keep in self._kept_versions()

    @rule(draw=st.data())
    def restart(self, draw: st.DataObject) -> None:
        """The worker dies; its successor is as any version whose records are kept, and catches up."""
        versions = self._kept_versions()
        self.worker = self.store.state(draw.draw(st.sampled_from(versions)) + 1) if versions else InstanceStates()
        self.store.catch_up(self.worker, len(self.model) - 1)

    @rule(draw=st.data(), instances=st.sets(INSTANCES))
    def look(self, draw: st.DataObject, instances: set[int]) -> None:
        """Every version whose records are kept is what the model was, whole and by instance."""
        versions = self._kept_versions()
        if not versions:
            return
        version = draw.draw(st.sampled_from(versions))
        expected = self.model[version + 1]
        assert expected == content(self.store.state(version + 1).kept)
        moved = {key: value for key, value in expected.items() if key[0] in instances}
        assert moved == content(self.store.state_at(version, instances))

    @invariant()
    def the_newest_is_right(self) -> None:
        """The working state is what the model is, and so is the one that is made from the records."""
        if hasattr(self, "store"):
            assert self.model[-1] == content(self.worker.kept)
            assert self.model[-1] == content(self.store.state(len(self.model) - 1).kept)

    def teardown(self) -> None:
        """Remove what was written."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def _kept_versions(self) -> list[int]:
        batches = self.store.batches()
        return [version for version in batches if self.store.base(version) >= batches.start]

    def _settled(self, worker: InstanceStates, done: Any, undone: Any, dropped: set[int]) -> Record:
        _do(worker, done)
        tokens = {instance: worker.of(instance).mark() for instance in range(1, 5)}
        _do(worker, undone)
        for instance, token in tokens.items():
            worker.of(instance).rollback(token)
        batch = worker.version + 1
        return worker.settle(
            Record(batch=batch, start=Offset(), end=Offset(), dropped=tuple(sorted(dropped)), changes=worker.changes())
        )


def _do(worker: InstanceStates, actions: Any) -> None:
    for what, instance, key, value in actions:
        staged = worker.of(instance)
        if what == "put":
            staged.put((key,), value)
        elif what == "delete":
            staged.delete((key,))
        else:
            staged.advance(key, value)


TestJob = Job.TestCase
TestJob.settings = settings(stateful_step_count=30)


STEPS = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
AFTER_LINK = {"unlink", "sync folder", "done"}
WORKER = """
import os, signal, sys
from pathlib import Path
from engine.offset import Offset
from engine.records.record import Record
from engine.records.store import RecordStore

name, nth = sys.argv[2], int(sys.argv[3])

def step(done):
    global nth
    if done == name:
        nth -= 1
        if nth == 0:
            os.kill(os.getpid(), signal.SIGKILL)

store = RecordStore(Path(sys.argv[1]), step=step)
if name == "remove":
    store.prune(int(sys.argv[4]))
else:
    batch = int(sys.argv[4])
    state = store.state(batch)
    state.of(1).put(("a",), batch)
    store.write(state.settle(Record(batch=batch, start=Offset(), end=Offset(), changes=state.changes())))
"""


def die(folder: Path, step: str, nth: int, batch: int) -> None:
    command = [sys.executable, "-c", WORKER, str(folder), step, str(nth), str(batch)]
    worker = subprocess.run(command, check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == worker.returncode


def count_up(store: RecordStore, value: int) -> bool:
    batch = store.batches().stop
    state = store.state(batch)
    state.of(1).put(("a",), value)
    return store.write(state.settle(Record(batch=batch, start=Offset(), end=Offset(), changes=state.changes())))


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_worker_leaves_a_whole_record_or_none(tmp_path: Path, step: str) -> None:
    """And the next worker continues from there."""
    store = RecordStore(tmp_path)
    assert count_up(store, 0)
    die(tmp_path, step, 1, 1)
    found = store.find(1)
    assert (step in AFTER_LINK) == (found is not None)
    if found is None:
        state = store.state(1)
        state.of(1).put(("a",), 1)
        assert store.write(state.settle(Record(batch=1, start=Offset(), end=Offset(), changes=state.changes())))
    clear_unfinished(tmp_path)
    assert [] == list((tmp_path / "tmp").iterdir())
    assert 1 == store.state(2).of(1).get(("a",))
    assert count_up(store, 2)
    assert 2 == store.state(3).of(1).get(("a",))


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_killed_prune_leaves_no_gap(tmp_path: Path, nth: int) -> None:
    """The newest records stay complete, and the next prune removes the rest."""
    store = RecordStore(tmp_path)
    for value in range(6):
        assert count_up(store, value)
    die(tmp_path, "remove", nth, 5)
    assert list(range(nth - 1, 6)) == sorted(int(path.name) for path in tmp_path.iterdir() if path.name.isdigit())
    assert 5 == store.state(6).of(1).get(("a",))
    store.prune(5)
    assert range(5, 6) == store.batches()
    assert 5 == store.state(6).of(1).get(("a",))


def test_a_worker_whose_disk_is_full_leaves_no_record(tmp_path: Path) -> None:
    """The error is reported, nothing of the record stays, and the batch can be repeated."""
    full = True

    def step(name: str) -> None:
        if name == "sync" and full:
            raise OSError(28, "No space left on device")

    store = RecordStore(tmp_path, step=step)
    with pytest.raises(OSError, match="No space left on device"):
        count_up(store, 0)
    assert (None, []) == (store.find(0), list((tmp_path / "tmp").iterdir()))
    full = False
    assert count_up(store, 0)


def test_an_orphaned_worker_changes_nothing(tmp_path: Path) -> None:
    """A worker that was thought dead finds the existing record, which counts."""
    store = RecordStore(tmp_path)
    assert count_up(store, 0)
    orphan = store.state(1)
    orphan.of(1).put(("a",), "orphan")
    late = orphan.settle(Record(batch=1, start=Offset(), end=Offset(), changes=orphan.changes()))
    assert count_up(store, 1)
    assert not store.write(late)
    assert 1 == store.state(2).of(1).get(("a",))
