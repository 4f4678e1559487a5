"""The spool as its owner, its readers and its consumers see it."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.intake import Expected
from bridge.lease import LeaseTaken
from bridge.log import Item, ItemKind, Placed, SpoolDamaged, log_files, unpacked
from bridge.spool import Spool, SpoolFull, SpoolState, commit, consumers, leave, read
from tests.bridge.test_log import data, marker

ROOMY = 10**9
HERE = {"p": Expected(epoch=1, next=7)}


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(tmp_path / "spool", most_bytes=ROOMY)
    yield opened
    opened.close()


def _reopened(spool: Spool) -> Spool:
    spool.close()
    return Spool(spool.folder, most_bytes=ROOMY)


def _entries(placed: Iterator[Placed]) -> list[tuple[int, int | str]]:
    """Events and markers with their positions."""
    found: list[tuple[int, int | str]] = []
    for first, item in placed:
        if item.kind is ItemKind.MARKER:
            found.append((first, item.payload.decode()))
        else:
            found += enumerate(unpacked(item.payload).column("n").to_pylist(), first)
    return found


def _all(folder: Path, start: int = 0) -> list[tuple[int, int | str]]:
    return _entries(read(folder, start, ROOMY))


def test_a_new_spool_is_empty(spool: Spool) -> None:
    """A spool begins at position 0, expects nothing and takes everything."""
    assert (0, 0, 0, {}, SpoolState.READY) == (spool.first, spool.end, spool.size, spool.producers, spool.state)
    assert [] == list(read(spool.folder, 0, ROOMY))


def test_what_is_appended_is_read_with_its_positions(spool: Spool) -> None:
    """Each event and marker gets the next position, and appending tells the first."""
    assert 0 == spool.append([data(10, 11), marker("cut")])
    assert 3 == spool.append([data(12)])
    assert (0, 4) == (spool.first, spool.end)
    assert [(0, 10), (1, 11), (2, "cut"), (3, 12)] == _all(spool.folder)


@pytest.mark.parametrize("start", range(8))
def test_reading_may_begin_anywhere(spool: Spool, start: int) -> None:
    """From any position on, inside an item too, exactly what lies there and after it is read."""
    spool.append([data(10, 11), marker("cut")])
    spool.append([data(12, 13, 14)])
    whole = [(0, 10), (1, 11), (2, "cut"), (3, 12), (4, 13), (5, 14)]
    assert whole[start:] == _all(spool.folder, start)


def test_reading_stops_at_its_limit(spool: Spool) -> None:
    """Items are read as long as their bytes fit together, across files, and nothing after the first that does not."""
    first, second, third = data(1, 2), data(3, 4), marker("m")
    spool.append([first])
    spool.append([second, third])
    both = len(first.payload) + len(second.payload)
    assert [Placed(0, first), Placed(2, second)] == list(read(spool.folder, 0, both))
    assert [Placed(0, first)] == list(read(spool.folder, 0, both - 1))
    assert [Placed(0, first), Placed(2, second), Placed(4, third)] == list(read(spool.folder, 0, both + 1))


def test_reading_gives_one_item_at_least(spool: Spool) -> None:
    """An item larger than the limit is read alone."""
    spool.append([data(1, 2), data(3)])
    assert [(0, 1), (1, 2)] == _entries(read(spool.folder, 0, 1))
    assert [(2, 3)] == _entries(read(spool.folder, 2, 1))


def test_a_reopened_spool_is_the_one_before(spool: Spool) -> None:
    """What was appended, expected and committed is there after closing and opening."""
    spool.append([data(1, 2)], {"q": Expected(epoch=0, next=None)})
    spool.append([marker("m")], HERE)
    commit(spool.folder, "job", 2)
    before = (spool.first, spool.end, spool.size, spool.producers, _all(spool.folder), consumers(spool.folder))
    assert {"q": Expected(epoch=0, next=None), **HERE} == spool.producers
    spool = _reopened(spool)
    assert before == (
        spool.first,
        spool.end,
        spool.size,
        spool.producers,
        _all(spool.folder),
        consumers(spool.folder),
    )
    spool.close()


def test_expectations_alone_are_durable(spool: Spool) -> None:
    """What is expected can change without events, takes no position, and outlives both older and newer files."""
    assert 0 == spool.append([], {"q": Expected(next=3)})
    spool = _reopened(spool)
    assert (0, {"q": Expected(next=3)}) == (spool.end, spool.producers)
    spool.append([data(1)])
    assert 1 == spool.append([], HERE)
    spool = _reopened(spool)
    assert (1, {"q": Expected(next=3), **HERE}) == (spool.end, spool.producers)
    spool.append([data(2)], {"q": Expected(next=9)})
    spool = _reopened(spool)
    assert (2, {"q": Expected(next=9), **HERE}) == (spool.end, spool.producers)
    assert [(0, 1), (1, 2)] == _all(spool.folder)
    spool.close()


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    """Appending nothing, with expectations that are known, touches no file."""
    steps: list[str] = []
    spool = Spool(tmp_path, most_bytes=ROOMY, step=steps.append)
    spool.append([], HERE)
    assert ["open", "write", "sync", "rename", "sync folder", "done"] == steps
    spool.append([])
    spool.append([], HERE)
    assert 6 == len(steps)
    spool.close()


def test_only_what_all_consumers_passed_is_removed(spool: Spool) -> None:
    """A file goes when the slowest consumer is past its last position, and no sooner."""
    for number in range(3):
        spool.append([data(number, number)])
    commit(spool.folder, "slow", 3)
    commit(spool.folder, "fast", 6)
    whole = spool.size
    spool.prune()
    assert (2, 6, [(2, 1), (3, 1), (4, 2), (5, 2)]) == (spool.first, spool.end, _all(spool.folder))
    assert sum(file.path.stat().st_size for file in log_files(spool.folder / "log")) == spool.size < whole
    commit(spool.folder, "slow", 4)
    spool.prune()
    assert [(4, 2), (5, 2)] == _all(spool.folder)


def test_a_consumer_that_left_holds_nothing_back(spool: Spool) -> None:
    """The files that only a consumer needed go after it left; leaving twice, or where nobody joined, is no error."""
    leave(spool.folder, "job")
    spool.append([data(1)])
    commit(spool.folder, "slow", 0)
    commit(spool.folder, "fast", 1)
    spool.prune()
    assert 0 == spool.first
    leave(spool.folder, "slow")
    leave(spool.folder, "slow")
    assert {"fast": 1} == consumers(spool.folder)
    spool.prune()
    assert 1 == spool.first


def test_each_consumer_has_its_own_position(spool: Spool) -> None:
    """Committing moves one consumer only, and the last commit counts."""
    assert {} == consumers(spool.folder)
    commit(spool.folder, "a", 1)
    commit(spool.folder, "b", 5)
    commit(spool.folder, "a", 2)
    assert {"a": 2, "b": 5} == consumers(spool.folder)


def test_the_high_water_mark_outlives_the_files(spool: Spool) -> None:
    """After everything was removed no position is given twice, and the expectations are still known."""
    spool.append([data(1, 2)], HERE)
    commit(spool.folder, "job", 2)
    spool.prune()
    assert ([], 0) == (log_files(spool.folder / "log"), spool.size)
    spool = _reopened(spool)
    assert (2, 2, HERE) == (spool.first, spool.end, spool.producers)
    assert 2 == spool.append([data(3)])
    spool = _reopened(spool)
    assert ([(2, 3)], 3, HERE) == (_all(spool.folder), spool.end, spool.producers)
    spool.close()


def test_a_full_spool_takes_nothing_until_it_was_pruned(tmp_path: Path) -> None:
    """At its limit a spool says that it is full, refuses what comes and is as it was; once pruned it takes more."""
    spool = Spool(tmp_path, most_bytes=1)
    commit(tmp_path, "job", 0)
    spool.append([data(1)])
    assert SpoolState.FULL is spool.state
    with pytest.raises(SpoolFull) as full:
        spool.append([data(2)], HERE)
    assert f"the spool {tmp_path} holds {spool.size:,} bytes; wait until its consumers have read" == str(full.value)
    assert ([(0, 1)], 1, {}) == (_all(tmp_path), spool.end, spool.producers)
    commit(tmp_path, "job", 1)
    spool.prune()
    assert (SpoolState.READY, 1) == (spool.state, spool.append([data(2)]))
    spool.close()


def test_the_limit_is_exact(tmp_path: Path) -> None:
    """A spool that holds one byte less than it may is not full."""
    spool = Spool(tmp_path, most_bytes=ROOMY)
    spool.append([data(1)])
    size = spool.size
    spool.close()
    for most_bytes, state in [(size, SpoolState.FULL), (size + 1, SpoolState.READY)]:
        again = Spool(tmp_path, most_bytes=most_bytes)
        assert state is again.state
        again.close()


def test_a_spool_has_one_owner(spool: Spool) -> None:
    """Nobody else may open a spool that is open, and anybody may once it was closed."""
    with pytest.raises(LeaseTaken):
        Spool(spool.folder, most_bytes=ROOMY)
    spool.close()
    Spool(spool.folder, most_bytes=ROOMY).close()


def _torn(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1])
    return path


@pytest.mark.parametrize("damaged", ["last file", "hole", "last file gone", "mark"])
def test_a_damaged_spool_does_not_open(spool: Spool, damaged: str) -> None:
    """Damage is named when a spool is opened, and once it was repaired the same process may open it."""
    for number in range(3):
        spool.append([data(number)])
    spool.append([], HERE)
    spool.close()
    shutil.copytree(spool.folder, spool.folder.parent / "kept")
    files = log_files(spool.folder / "log")
    match damaged:
        case "last file":
            message = f"{_torn(files[2].path)} cannot be read: "
            # Without the mark, which knows more than the last file.
            (spool.folder / "high-water").unlink()
        case "hole":
            files[1].path.unlink()
            message = f"{files[2].path} does not follow {files[0].path}; restore what lay between them"
        case "last file gone":
            files[2].path.unlink()
            message = f"{files[1].path} is not the last file, the log went up to 3; restore what came after it"
        case _:
            message = f"{_torn(spool.folder / 'high-water')} cannot be read: "
    with pytest.raises(SpoolDamaged) as told:
        Spool(spool.folder, most_bytes=ROOMY)
    assert str(told.value).startswith(message)
    shutil.copytree(spool.folder.parent / "kept", spool.folder, dirs_exist_ok=True)
    repaired = Spool(spool.folder, most_bytes=ROOMY)
    assert ([(0, 0), (1, 1), (2, 2)], HERE) == (_all(spool.folder), repaired.producers)
    repaired.close()


def test_damage_is_told_to_its_reader_only(spool: Spool) -> None:
    """Whoever reads at a torn file is told its name; whoever reads behind it is not disturbed."""
    spool.append([data(1)])
    spool.append([data(2)])
    torn = _torn(log_files(spool.folder / "log")[0].path)
    assert [(1, 2)] == _all(spool.folder, 1)
    with pytest.raises(SpoolDamaged, match=str(torn)):
        _all(spool.folder)


def test_a_damaged_commit_is_told(spool: Spool) -> None:
    """A consumer whose position cannot be read is named, and nothing is removed on a guess."""
    spool.append([data(1)])
    commit(spool.folder, "job", 1)
    (spool.folder / "consumers" / "job").write_bytes(b"")
    with pytest.raises(SpoolDamaged, match=str(spool.folder / "consumers" / "job")):
        spool.prune()
    assert [(0, 1)] == _all(spool.folder)


def test_what_a_crash_left_half_written_is_cleared(spool: Spool) -> None:
    """Unfinished files of the log do not pile up."""
    spool.append([data(1)])
    (spool.folder / "log" / "tmp" / "half").write_bytes(b"x")
    _reopened(spool).close()
    assert [] == list((spool.folder / "log" / "tmp").iterdir())


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """An append that fails is told and changes nothing, and the next one takes the same positions."""
    full = False

    def step(name: str) -> None:
        if full and name == "sync":
            raise OSError(28, "No space left on device")

    spool = Spool(tmp_path, most_bytes=ROOMY, step=step)
    spool.append([data(1)])
    full = True
    with pytest.raises(OSError, match="No space left on device"):
        spool.append([data(2, 3)], HERE)
    full = False
    assert (1, {}, [(0, 1)]) == (spool.end, spool.producers, _all(tmp_path))
    assert 1 == spool.append([data(4)], HERE)
    spool.close()
    assert [(0, 1), (1, 4)] == _all(tmp_path)


def test_reading_goes_on_while_the_owner_appends_and_prunes(spool: Spool) -> None:
    """A consumer that commits what it read sees every position once, whatever the owner does meanwhile."""
    commit(spool.folder, "job", 0)

    def own() -> None:
        for number in range(60):
            spool.append([data(number)])
            spool.prune()

    owner = Thread(target=own)
    owner.start()
    seen: list[tuple[int, int | str]] = []
    while len(seen) < 60:
        seen += _all(spool.folder, len(seen))
        commit(spool.folder, "job", len(seen))
    owner.join()
    assert [(number, number) for number in range(60)] == seen
    spool.prune()
    assert (60, 60) == (spool.first, spool.end)


class SpoolLikeAList(RuleBasedStateMachine):
    """A spool beside a plain list of everything that was ever appended."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="spool"))
        self.entries: list[int | str] = []
        self.edges = [0]
        """Where files begin and end."""
        self.first = 0
        self.committed: dict[str, int] = {}
        self.expected: dict[str, Expected] = {}

    @initialize()
    def open(self) -> None:
        self.spool = Spool(self.folder, most_bytes=ROOMY)

    @rule(
        groups=st.lists(st.integers(0, 3), max_size=3),
        producers=st.dictionaries(
            st.sampled_from("pq"), st.builds(Expected, epoch=st.integers(0, 3), next=st.none() | st.integers(0, 9))
        ),
    )
    def append(self, groups: list[int], producers: Mapping[str, Expected]) -> None:
        items: list[Item] = []
        end = len(self.entries)
        for size in groups:
            position = len(self.entries)
            news: list[int | str] = list(range(position, position + size)) if size else [f"m{position}"]
            self.entries += news
            items.append(data(*range(position, position + size)) if size else marker(f"m{position}"))
        assert end == self.spool.append(items, producers)
        self.expected |= producers
        if items:
            self.edges.append(len(self.entries))

    @rule(consumer=st.sampled_from("ab"), share=st.floats(0, 1))
    def commit(self, consumer: str, share: float) -> None:
        self.committed[consumer] = round(self.first + share * (len(self.entries) - self.first))
        commit(self.folder, consumer, self.committed[consumer])

    @rule(consumer=st.sampled_from("ab"))
    def leave(self, consumer: str) -> None:
        self.committed.pop(consumer, None)
        leave(self.folder, consumer)

    @precondition(lambda self: self.committed)
    @rule()
    def prune(self) -> None:
        self.spool.prune()
        passed = min(self.committed.values())
        self.first = max(self.first, *(edge for edge in self.edges if edge <= passed))

    @rule()
    def reopen(self) -> None:
        self.spool.close()
        self.spool = Spool(self.folder, most_bytes=ROOMY)

    @rule(share=st.floats(0, 1), most_bytes=st.integers(1, 2_000))
    def read(self, share: float, most_bytes: int) -> None:
        start = round(self.first + share * (len(self.entries) - self.first))
        got = list(read(self.folder, start, most_bytes))
        whole = list(enumerate(self.entries))[start:]
        assert whole[: sum(item.count for _, item in got)] == _entries(iter(got))
        assert bool(whole) == bool(got)
        assert len(got) == 1 or most_bytes >= sum(len(item.payload) for _, item in got)

    @invariant()
    def as_the_list(self) -> None:
        assert (self.first, len(self.entries)) == (self.spool.first, self.spool.end)
        assert list(enumerate(self.entries))[self.first :] == _all(self.folder)
        assert (self.expected, self.committed) == (self.spool.producers, consumers(self.folder))

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.close()
        shutil.rmtree(self.folder)


SpoolLikeAList.TestCase.__doc__ = "However a spool is used and reopened, it holds what a list of everything would."
SpoolLikeAList.TestCase.settings = settings(stateful_step_count=12)  # each step waits for the disk
test_spool_like_a_list = SpoolLikeAList.TestCase
