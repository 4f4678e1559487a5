"""Records of batches with several shards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dags.dataflow import GROUPS, evenly
from engine.offset import Offset
from engine.plan import Port
from engine.records.files import RecordDamaged
from engine.records.record import EmittedEvents, InstanceMeter, Record
from engine.records.state import InstanceStates, packed_key
from engine.records.store import RecordStore

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
