"""The store of a job's records."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.offset import Offset
from engine.plan import Port
from engine.records.files import RecordDamaged
from engine.records.record import EmittedEvents, Record
from engine.records.state import InstanceStates
from engine.records.store import RecordStore
from tests.engine.records.unpacked import record_in

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
