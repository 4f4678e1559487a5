"""Laws of states and records after any sequence of batches, prunes and late workers."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.offset import Offset
from engine.records.record import Record, Table
from engine.records.state import NUMBERS, InstanceStates
from engine.records.store import RecordStore
from tests.engine.records.unpacked import group_of, record_in, unpacked_value

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
    """A state as a plain dictionary; each key lies in its group, and nothing empty is kept."""
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
