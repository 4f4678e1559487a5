"""The files of records, also of batches with several shards, and the folder of a job."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.wire import Birth
from dags.dataflow import GROUPS, evenly
from engine.offset import Offset
from engine.plan import Entry, Plan, Port
from engine.records.files import RecordDamaged, RecordFile, written_record
from engine.records.job_folder import JobFolder, KeptCut, job_folder, spool_folder
from engine.records.record import CodeTraceback, Cut, Dead, EmittedEvents, InstanceMeter, Record
from engine.records.state import InstanceStates, packed_key
from engine.records.store import RecordStore
from tests.engine.records.unpacked import record_in

EVENTS = pa.record_batch({"sensor": pa.array(["a", None, "é"]), "value": pa.array([1.5, 2.5, None])})
OTHERS = pa.record_batch({"n": pa.array([7], pa.int64())})
RECORD = Record(
    batch=12,
    start=Offset(run=2, entry=3, at={"street": 5}),
    end=Offset(run=2, entry=4, at={"street": 8}, held={"river": "m"}, cuts={"m": ("street",), "w": ("a", "b")}),
    dropped=(4, 5),
    changes={1: {0: {b"\x91\x01": b"\x02", b"\x91\x02": None}, 128: {b"out": b"\x07"}}},
    opened=((Port(1, "out"), 5), (Port(2, "left"), 0)),
    emitted=(
        EmittedEvents(origin=Port(1, "out"), first=5, events=EVENTS, births=(Birth(1, 99), Birth(2, 100))),
        EmittedEvents(origin=Port(1, "out"), first=8, marker="m"),
        EmittedEvents(origin=Port(2, "left"), first=2**62, events=OTHERS),
    ),
    dead=(
        Dead(instance=2, port="in", reason="ZeroDivisionError: division by zero", events=OTHERS),
        Dead(instance=2, port="in", reason="no", events=OTHERS, traceback=CodeTraceback("ann", "line 1")),
    ),
    meters={1: InstanceMeter(cpu_ns=5_000, taken=3, emitted=3), 2: InstanceMeter(taken=2, emitted=1, dead=1)},
    cuts=(Cut(name="m", instances=(1, 2), positions={"street": 8}),),
    imaged={7: {1: {b"\x91\x05": b"\x06"}}, 9: {}},
    base=3,
    credit=77,
)
SCALARS = st.integers(-9, 9) | st.text(max_size=3) | st.none()
TABLES = st.dictionaries(
    st.integers(0, 2**62),
    st.dictionaries(
        st.integers(0, 128), st.dictionaries(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3
    ),
    max_size=3,
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
BATCHES = st.lists(st.none() | st.integers(-9, 9), max_size=4).map(
    lambda numbers: pa.record_batch({"n": pa.array(numbers, pa.int64())})
)
PORTS = st.builds(Port, st.integers(0, 2**62), TEXT)
BIRTHS = st.lists(st.builds(Birth, st.integers(1, 9), st.integers(0, 2**62)), max_size=2).map(tuple)
RECORDS = st.builds(
    Record,
    batch=st.integers(0, 10**15),
    start=st.builds(Offset, at=st.dictionaries(TEXT, st.integers(0, 2**62), max_size=2)),
    end=st.builds(Offset, cuts=st.dictionaries(TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2)),
    dropped=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    changes=TABLES,
    emitted=st.lists(
        st.builds(EmittedEvents, origin=PORTS, first=st.integers(0, 2**62), events=BATCHES, births=BIRTHS)
        | st.builds(EmittedEvents, origin=PORTS, first=st.integers(0, 2**62), marker=TEXT),
        max_size=3,
    ).map(tuple),
    dead=st.lists(st.builds(Dead, instance=st.integers(0, 9), port=TEXT, reason=TEXT, events=BATCHES), max_size=2).map(
        tuple
    ),
    meters=st.dictionaries(st.integers(0, 2**62), st.builds(InstanceMeter, cpu_ns=st.integers(0, 2**62)), max_size=2),
    cuts=st.lists(
        st.builds(
            Cut,
            name=TEXT,
            instances=st.lists(st.integers(0, 9), max_size=2).map(tuple),
            positions=st.dictionaries(TEXT, st.integers(0, 2**62), max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    imaged=st.dictionaries(
        st.integers(0, 128),
        st.dictionaries(st.integers(0, 9), st.dictionaries(st.binary(max_size=5), st.binary(max_size=5))),
        max_size=2,
    ),
    base=st.integers(0, 2**62),
    credit=st.integers(0, 2**62),
)


def stored(folder: Path, record: Record) -> Path:
    path = folder / "record"
    path.write_bytes(written_record(record))
    return path


@given(RECORDS)
def test_a_record_survives_as_a_file(tmp_path_factory: pytest.TempPathFactory, record: Record) -> None:
    """Down to the last event and key."""
    assert record == record_in(RecordFile(stored(tmp_path_factory.mktemp("record"), record)))


def test_the_example_survives_as_a_file(tmp_path: Path) -> None:
    """A record with some of everything, read by parts and as a whole."""
    file = RecordFile(stored(tmp_path, RECORD))
    assert RECORD == record_in(file)
    assert RECORD.changes == file.changes()
    assert RECORD.imaged[7] == file.image(file.header.imaged[7])
    assert RECORD.emitted == file.emitted()
    assert RECORD.emitted[:2] == file.emitted(Port(1, "out"))
    assert RECORD.dead == file.dead()


def test_a_record_without_births_is_read(tmp_path: Path) -> None:
    """Its events are of unknown birth."""
    path = stored(tmp_path, replace(RECORD, emitted=RECORD.emitted[:1]))
    before = path.read_bytes()
    line, rest = before.split(b"\n", 1)
    size = int(line.split()[4])
    header = rest[:size].replace(b',"births":[[1,99],[2,100]]', b"")
    line = line.replace(b"%010d" % size, b"%010d" % len(header)).replace(line.split()[-1], b"%08x" % crc32(header))
    assert len(header) < size
    path.write_bytes(b"\n".join((line, header + rest[size:])))
    assert (replace(RECORD.emitted[0], births=()),) == RecordFile(path).emitted()


def test_the_header_has_the_numbers_of_emitted_events(tmp_path: Path) -> None:
    """Without reading an event: one number per event, one per marker."""
    emitted = RecordFile(stored(tmp_path, RECORD)).header.emitted
    assert [(1, 5, 3, ""), (1, 8, 1, "m"), (2, 2**62, 1, "")] == [
        (each.origin.instance, each.first, each.count, each.marker) for each in emitted
    ]
    assert [each.count for each in RECORD.emitted] == [each.count for each in emitted]


def test_parts_are_read_alone(tmp_path: Path) -> None:
    """Damage to events does not affect reading the state, and vice versa."""
    path = stored(tmp_path, RECORD)
    content = path.read_bytes()
    header = RecordFile(path).header
    events = header.emitted[0].events
    assert events is not None
    parts = len(content) - max(each.events.first + each.events.size for each in header.dead)

    def damaged(at: int) -> RecordFile:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        return RecordFile(path)

    assert RECORD.changes == damaged(parts + events.first).changes()
    assert RECORD.emitted == damaged(parts + header.changes.first).emitted()
    with pytest.raises(RecordDamaged, match="a checksum does not match"):
        damaged(parts + events.first).emitted()
    with pytest.raises(RecordDamaged, match="a checksum does not match"):
        damaged(parts + header.changes.first).changes()


def test_a_long_header_is_read_whole(tmp_path: Path) -> None:
    """A record of thousands of instances is read like any other."""
    record = replace(RECORD, meters={number: InstanceMeter(taken=number) for number in range(5_000)})
    assert record == record_in(RecordFile(stored(tmp_path, record)))


def test_a_reason_with_lone_surrogates_is_kept_as_far_as_possible(tmp_path: Path) -> None:
    """The message of an exception does not prevent the record of a batch."""
    record = replace(RECORD, dead=(replace(RECORD.dead[0], reason="no file \udce9"),))
    assert "no file ?" == RecordFile(stored(tmp_path, record)).dead()[0].reason


@pytest.mark.parametrize("kept", [0, 1, 8, 100, 500, -1], ids="{} bytes".format)
def test_a_torn_file_is_damage(tmp_path: Path, kept: int) -> None:
    """The file is named, with a remedy, before any of its content is used."""
    path = stored(tmp_path, RECORD)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RecordDamaged) as damaged:
        RecordFile(path)
    assert str(damaged.value).startswith(f"{path} cannot be read: it ")
    assert str(damaged.value).endswith("; restore it")


def test_another_version_is_refused(tmp_path: Path) -> None:
    """The error names the version."""
    path = stored(tmp_path, RECORD)
    path.write_bytes(path.read_bytes().replace(b"braid record 1 ", b"braid record 12 "))
    with pytest.raises(RecordDamaged, match="it has version 12, but this Braid reads version 1; restore it"):
        RecordFile(path)


@given(st.data())
def test_a_damaged_file_is_detected(tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject) -> None:
    """Wherever its bytes change, reading all of it fails, and never gives another record."""
    path = stored(tmp_path_factory.mktemp("record"), RECORD)
    content = bytearray(path.read_bytes())
    at = draw.draw(st.integers(0, len(content) - 1))
    content[at : at + 4] = draw.draw(st.binary(min_size=1, max_size=4))
    changed = bytes(content) != path.read_bytes()
    path.write_bytes(content)
    read: Any = None
    try:
        read = record_in(RecordFile(path))
    except RecordDamaged as damaged:
        assert changed
        assert str(path) in str(damaged)  # noqa: PT017 - what is not damaged raises nothing
    else:
        assert RECORD == read


def test_a_file_that_is_not_there_is_no_damage(tmp_path: Path) -> None:
    """A missing record is distinguished from a damaged one."""
    with pytest.raises(FileNotFoundError):
        RecordFile(tmp_path / "record")


def made(path: Path) -> JobFolder:
    folder = JobFolder(path)
    folder.make()
    return folder


def entry(number: int) -> Entry:
    return Entry(number=number, plan=Plan(job="j", host="h", version=number * 10), starts={"s": number})


def test_a_name_of_a_job_or_stream_is_no_path(tmp_path: Path) -> None:
    """Its folder is always among those of its kind, for any name."""
    for name in ("../..", "a/b", "ü"):
        assert tmp_path / "jobs" == job_folder(tmp_path, name).path.parent
        assert tmp_path / "spools" == spool_folder(tmp_path, name).parent


def test_spools_of_streams_with_long_names_have_folders_of_their_own(tmp_path: Path) -> None:
    """A port may have 200 characters of four bytes each, which is too long for a file name."""
    first, second = (spool_folder(tmp_path, f"bridge/7:{chr(0x1F600) * 199}{last}") for last in "ab")
    first.mkdir(parents=True)
    assert not second.exists()


def test_entries_are_found_as_they_were_logged(tmp_path: Path) -> None:
    """In the order of their numbers, from any number on."""
    folder = made(tmp_path)
    for number in range(1, 12):
        folder.log(entry(number))
    assert [entry(number) for number in range(9, 12)] == folder.entries(9)
    assert entry(3) == folder.entry(3)


def test_entries_are_forgotten_up_to_a_number(tmp_path: Path) -> None:
    """The others do not change."""
    folder = made(tmp_path)
    for number in range(1, 12):
        folder.log(entry(number))
    folder.forget_entries(10)
    assert [entry(10), entry(11)] == folder.entries(1)
    with pytest.raises(RecordDamaged, match="00000009"):
        folder.entry(9)


def test_an_entry_is_that_of_the_job_that_has_the_name_now(tmp_path: Path) -> None:
    """An entry read for an earlier job is not reused."""
    for version in (1, 2):
        folder = made(tmp_path / "j")
        logged = replace(entry(1), plan=replace(entry(1).plan, version=version))
        folder.log(logged)
        # Clocks of file systems tick slowly, and no two jobs have a name at the same moment.
        os.utime(folder.plans / f"{1:08d}", (version, version))
        assert logged == folder.entry(1)
        shutil.rmtree(tmp_path / "j")


def test_a_folder_that_was_just_begun_has_no_entries(tmp_path: Path) -> None:
    """A crash right after making the folder leaves a job without plans."""
    (tmp_path / "j").mkdir()
    assert [] == JobFolder(tmp_path / "j").entries(1)


def test_each_run_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Runs count up, over restarts too, and leave one file."""
    assert [1, 2, 3] == [made(tmp_path).begin_run() for _ in range(3)]
    assert ["00000003"] == [path.name for path in (tmp_path / "runs").iterdir() if path.is_file()]


def test_a_job_is_stopped_until_it_is_marked_as_running(tmp_path: Path) -> None:
    """A restarted host finds the last mark."""
    folder = made(tmp_path)
    assert not folder.is_stopped()
    folder.mark_stopped()
    folder.mark_stopped()
    assert made(tmp_path).is_stopped()
    folder.mark_running()
    folder.mark_running()
    assert not made(tmp_path).is_stopped()


def test_a_cut_is_kept_until_it_is_released(tmp_path: Path) -> None:
    """All its parts, for any name. Cuts whose names begin alike stay."""
    folder = made(tmp_path)
    cuts = [
        KeptCut("a/b", 3, (1, 2), {"s": 4}),
        KeptCut("a/b", 12, (3,), {"t": 1}),
        KeptCut("a/b.c", 5, (4,), {}),
        KeptCut("*", 6, (4,), {}),
    ]
    for cut in cuts:
        folder.cuts.keep(cut)
        folder.cuts.keep(cut)
    assert sorted(cuts) == sorted(folder.cuts.all())
    folder.cuts.release("a/b")
    folder.cuts.release("a/b")
    assert sorted(cuts[2:]) == sorted(folder.cuts.all())
    folder.cuts.release("*")
    assert cuts[2:3] == folder.cuts.all()


def test_lost_positions_are_kept_until_more_are_lost(tmp_path: Path) -> None:
    """Without a loss there are none."""
    folder = made(tmp_path)
    assert {} == folder.gone()
    for gone in ({"raw/ü": 4}, {"raw/ü": 6, "s": 1}):
        folder.save_gone(gone)
        assert gone == made(tmp_path).gone()


def test_a_damaged_file_of_lost_positions_is_named(tmp_path: Path) -> None:
    """To ignore it would let the job wait for events that are lost."""
    (made(tmp_path).path / "gone").write_text("[")
    with pytest.raises(RecordDamaged, match=f"{tmp_path / 'gone'}"):
        made(tmp_path).gone()


OUT = Port(1, "out")


class Died(Exception):
    """The writer is killed here."""


@dataclass
class Batches:
    """Writes batches in which each key counts what is put under it."""

    folder: Path
    batch: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, shards: int, keys: Sequence[str], *, dies: Mapping[int, str] | None = None) -> None:
        """One batch; `dies` has the step at which the worker of a shard is killed first."""
        for shard in range(shards):
            if step := (dies or {}).get(shard):
                with pytest.raises(Died):
                    self._work_off(shards, shard, keys, RecordStore(self.folder, step=_killer(step)))
        # Spark runs every task again that did not end well, and others may have ended before.
        for shard in reversed(range(shards)):
            self._work_off(shards, shard, keys, RecordStore(self.folder))
        self.batch += 1
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1

    def _work_off(self, shards: int, shard: int, keys: Sequence[str], store: RecordStore) -> None:
        if store.find(self.batch) is not None:
            return
        if shards > 1 and store.find_shard(self.batch, shard) is not None:
            store.complete(self.batch, shards)
            return
        groups = evenly(shards)

        def owns(_instance: int, group: int) -> bool:
            return group >= GROUPS or groups[group] == shard

        state: InstanceStates = store.state(self.batch) if shards == 1 else store.shard_state(self.batch, shard, owns)
        own = [key for key in keys if owns(1, crc32(packed_key((key,))) % GROUPS)]
        staged = state.of(1)
        for key in own:
            staged.put((key,), (staged.get((key,)) or 0) + 1)
        emitted = [
            EmittedEvents(origin=OUT, first=staged.advance("out", 1), events=pa.record_batch({"k": [key]}))
            for key in own
        ]
        record = state.settle(
            Record(
                batch=self.batch,
                start=Offset(at={"s": self.batch}, shards=shards),
                end=Offset(at={"s": self.batch + 1}, shards=shards),
                changes=state.changes(),
                emitted=tuple(emitted),
                meters={1: InstanceMeter(taken=len(own))},
            )
        )
        if shards == 1:
            store.write(record)
        else:
            store.write_shard(record, shard)
            store.complete(self.batch, shards)


def _killer(step: str) -> Callable[[str], None]:
    name, _, nth = step.partition(" #")
    left = int(nth or 1)

    def killed(at: str) -> None:
        nonlocal left
        left -= at == name
        if at == name and left == 0:
            raise Died

    return killed


def check(batches: Batches) -> None:
    """The state has every key's count, and the numbers of what was emitted have no gap."""
    store = RecordStore(batches.folder)
    assert range(batches.batch) == store.batches()
    state = store.state(batches.batch)
    assert batches.counts == {key: state.of(1).get((key,)) for key in batches.counts}
    assert sum(batches.counts.values()) == state.of(1).number("out")
    number, found = 0, list[str]()
    for batch in store.batches():
        for each in store.file(batch).emitted():
            assert each.events is not None
            assert number == each.first
            number += each.count
            found += each.events.column("k").to_pylist()
    assert sorted(key for key, count in batches.counts.items() for _ in range(count)) == sorted(found)


keys = st.lists(st.sampled_from("abcdefghijklmnop"), max_size=8)
steps = st.sampled_from(["open", "write", "link", "unlink", "done", "link #2", "done #2"])


@settings(deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 4), keys, st.dictionaries(st.integers(0, 3), steps, max_size=2)), max_size=6))
def test_the_whole_record_is_the_same_whichever_worker_is_killed(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, list[str], dict[int, str]]]
) -> None:
    """Whatever the shards of each batch, and wherever their workers die: every event counts once."""
    batches = Batches(tmp_path_factory.mktemp("records"))
    for shards, put, deaths in drawn:
        # A step of the whole record is reached by the last shard alone.
        dies = {shard: step for shard, step in deaths.items() if shard < shards > 1 and "#" not in step}
        batches.run(shards, put, dies=dies)
    check(batches)


@pytest.mark.parametrize("step", ["open", "write", "sync", "link", "unlink", "sync folder", "done"])
def test_a_worker_killed_while_it_completes_a_batch_loses_nothing(tmp_path: Path, step: str) -> None:
    """Its own record is there by then; the next attempt makes the whole from what is there."""
    batches = Batches(tmp_path)
    batches.run(2, "abc")
    store = RecordStore(tmp_path, step=_killer(f"{step} #2"))
    batches._work_off(2, 0, "bcd", RecordStore(tmp_path))
    with pytest.raises(Died):
        batches._work_off(2, 1, "bcd", store)
    batches.run(2, "bcd")
    check(batches)


def test_a_record_has_the_sizes_of_states_over_all_shards(tmp_path: Path) -> None:
    """As many bytes as the state that is made of it."""
    batches = Batches(tmp_path)
    store = RecordStore(tmp_path)
    for shards, keys in ((1, "abc"), (3, "abcdefghijklmnop"), (2, "ijklmnopqrstuvwxyz")):
        batches.run(shards, [key * 6_000 for key in keys])
        assert {1: store.state(batches.batch).sizes[1]} == store.file(batches.batch - 1).header.sizes


def test_old_records_go_with_those_of_their_shards(tmp_path: Path) -> None:
    """Pruning leaves no file of a batch, and the state is made from what is left."""
    batches = Batches(tmp_path)
    for _ in range(3):
        batches.run(3, "abcdefgh")
    store = RecordStore(tmp_path)
    before = store.base(2)
    store.prune(before)
    left = {f"{batch:020d}.{shard:03d}" for batch in range(before, 3) for shard in range(3)}
    assert left == {path.name for path in (tmp_path / "shards").iterdir() if path.is_file()}
    assert batches.counts == {key: store.state(3).of(1).get((key,)) for key in batches.counts}


def test_a_missing_file_of_a_shard_is_damage(tmp_path: Path) -> None:
    """It is named, so that it can be restored."""
    batches = Batches(tmp_path)
    batches.run(2, "abcdefgh")
    (tmp_path / "shards" / f"{0:020d}.001").unlink()
    with pytest.raises(RecordDamaged, match=r"\.001 is missing; restore it"):
        RecordStore(tmp_path).file(0).emitted()
