"""The spool, for its owner, its readers and its consumers."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.files import LeaseTaken
from bridge.intake import Expected
from bridge.spools.log import Placed, PositionsGone, SpoolDamaged, log_files, log_path, read_mark
from bridge.spools.reader import between, position_since, read
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull, SpoolState, commit, consumers, leave
from tests.bridge.spools.test_laws import entries
from tests.bridge.spools.test_log import data, marker

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


def _all(folder: Path, start: int | None = None) -> list[tuple[int, int | str]]:
    """Everything from a position on, or that there is."""
    if start is None:
        start = next((file.first for file in log_files(folder / "log")), read_mark(folder).end)
    return entries(read(folder, start, ROOMY))


def test_a_new_spool_is_empty(spool: Spool) -> None:
    """A spool begins at position 0, expects nothing and takes everything."""
    assert (0, 0, 0, {}, SpoolState.READY) == (spool.first, spool.end, spool.size, spool.producers, spool.state)
    assert [] == list(read(spool.folder, 0, ROOMY))


def test_appended_items_are_read_with_their_positions(spool: Spool) -> None:
    """Each event and marker gets the next position, and appending returns the first."""
    assert 0 == spool.append([data(10, 11), marker("cut")])
    assert 3 == spool.append([data(12)])
    assert (0, 4) == (spool.first, spool.end)
    assert [(0, 10), (1, 11), (2, "cut"), (3, 12)] == _all(spool.folder)


@given(
    files=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=5),
    stamp=st.integers(0, 10),
    first=st.integers(0, 4),
)
def test_items_since_a_time_are_found(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], stamp: int, first: int
) -> None:
    """The result is as if every item had been checked, in however many files; if all are older, it is the end."""
    stamps = iter(sorted(each for file in files for each in file))
    spool = Spool(tmp_path_factory.mktemp("spool"), most_bytes=ROOMY)
    placed = []
    for file in files:
        items = [data(1, 2, stamp=next(stamps)) for _ in file]
        position = spool.append(items)
        placed += [(position + 2 * at, item.stamp) for at, item in enumerate(items)]
    first = min(first, spool.end)
    found = next((position for position, at in placed if at >= stamp and position + 2 > first), spool.end)
    assert max(first, found) == position_since(spool.folder, first, stamp)
    spool.close()


@pytest.mark.parametrize("start", range(8))
def test_reading_may_begin_anywhere(spool: Spool, start: int) -> None:
    """From any position on, inside an item too, exactly the later entries are read."""
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
    assert [(0, 1), (1, 2)] == entries(read(spool.folder, 0, 1))
    assert [(2, 3)] == entries(read(spool.folder, 2, 1))


def test_a_reopened_spool_is_the_one_before(spool: Spool) -> None:
    """Items, expectations and commits survive closing and opening."""
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
    """Expectations can change without events, take no position, and outlive both older and newer files."""
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
    """Appending nothing, with known expectations, touches no file."""
    steps: list[str] = []
    spool = Spool(tmp_path, most_bytes=ROOMY, step=steps.append)
    spool.append([], HERE)
    assert ["open", "write", "sync", "rename", "sync folder", "done"] == steps
    spool.append([])
    spool.append([], HERE)
    assert 6 == len(steps)
    spool.close()


def test_only_files_that_all_consumers_passed_are_removed(spool: Spool) -> None:
    """A file is removed when the slowest consumer is past its last position, and no sooner."""
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
    """Files that only this consumer needed are removed then; leaving twice, or without joining, is no error."""
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
    """After everything was removed no position is used twice, and the expectations are still known."""
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
    """At its limit a spool is full, refuses items and stays as it is; once pruned it takes more."""
    spool = Spool(tmp_path, most_bytes=1)
    commit(tmp_path, "job", 0)
    spool.append([data(1)])
    assert SpoolState.FULL is spool.state
    with pytest.raises(SpoolFull) as full:
        spool.append([data(2)], HERE)
    message = f"the spool {tmp_path} is full with {spool.size:,} bytes; wait until its consumers have read"
    assert message == str(full.value)
    assert ([(0, 1)], 1, {}) == (_all(tmp_path), spool.end, spool.producers)
    commit(tmp_path, "job", 1)
    spool.prune()
    assert (SpoolState.READY, 1) == (spool.state, spool.append([data(2)]))
    spool.close()


def test_the_limit_is_exact(tmp_path: Path) -> None:
    """A spool that holds one byte less than its limit is not full."""
    spool = Spool(tmp_path, most_bytes=ROOMY)
    spool.append([data(1)])
    size = spool.size
    spool.close()
    for most_bytes, state in [(size, SpoolState.FULL), (size + 1, SpoolState.READY)]:
        again = Spool(tmp_path, most_bytes=most_bytes)
        assert state is again.state
        again.close()


def test_a_spool_has_one_owner(spool: Spool) -> None:
    """A spool that is open cannot be opened again; once closed, it can."""
    with pytest.raises(LeaseTaken):
        Spool(spool.folder, most_bytes=ROOMY)
    spool.close()
    Spool(spool.folder, most_bytes=ROOMY).close()


@pytest.mark.parametrize("emptied", [False, True], ids=["some left", "all gone"])
def test_reading_removed_positions_is_an_error(spool: Spool, *, emptied: bool) -> None:
    """The error names the beginning of the spool; from there on reading works."""
    for number in range(3):
        spool.append([data(number, number)])
    first = 6 if emptied else 4
    commit(spool.folder, "job", first)
    spool.prune()
    for position in range(first):
        for reading in (read(spool.folder, position, ROOMY), between(spool.folder, position, 6)):
            with pytest.raises(PositionsGone) as gone:
                list(reading)
            assert f"the spool {spool.folder} begins at position {first}; " in str(gone.value)
            assert first == gone.value.first
    assert ([] if emptied else [(4, 2), (5, 2)]) == entries(read(spool.folder, first, ROOMY))


def test_what_is_removed_while_it_is_read_is_reported(spool: Spool) -> None:
    """A reader that did not commit and is overtaken by the owner gets an error, not a hole."""
    for number in range(3):
        spool.append([data(number)])
    reading = read(spool.folder, 0, ROOMY)
    assert Placed(0, data(0)) == next(reading)
    commit(spool.folder, "another", 2)
    spool.prune()
    with pytest.raises(PositionsGone, match="begins at position 2; position 1 was removed"):
        next(reading)


@pytest.mark.parametrize("end", range(7))
@pytest.mark.parametrize("start", range(7))
def test_between_two_positions_is_exactly_that(spool: Spool, start: int, end: int) -> None:
    """Between two positions lies what lies there, with an item sliced at either of them."""
    spool.append([data(10, 11, 12)])
    spool.append([marker("cut"), data(13, 14)])
    whole = [(0, 10), (1, 11), (2, 12), (3, "cut"), (4, 13), (5, 14)]
    assert whole[start:end] == entries(between(spool.folder, start, end))


def test_a_planned_batch_that_is_incomplete_is_damage(spool: Spool) -> None:
    """A batch up to a position that the spool does not have is not cut short silently."""
    spool.append([data(1, 2)])
    with pytest.raises(SpoolDamaged) as damaged:
        list(between(spool.folder, 1, 3))
    message = f"the spool {spool.folder} ends at 2, but it went up to 3 before; restore what was lost"
    assert message == str(damaged.value)


def test_reading_opens_only_what_it_needs(spool: Spool) -> None:
    """Damage before and after the positions that are read does not matter."""
    for number in range(5):
        spool.append([data(number)])
    files = log_files(spool.folder / "log")
    for damaged in (files[0], files[1], files[4]):
        _torn(damaged.path)
    assert [(2, 2), (3, 3)] == entries(between(spool.folder, 2, 4))


def test_a_spool_that_may_have_written_closes_itself(tmp_path: Path) -> None:
    """If a file may or may not be durable, nothing is appended or removed until the spool is opened again."""
    failing = False

    def step(name: str) -> None:
        if failing and name == "sync folder":
            raise OSError(5, "Input/output error")

    spool = Spool(tmp_path, most_bytes=ROOMY, step=step)
    spool.append([data(1)], HERE)
    failing = True
    with pytest.raises(OSError, match="Input/output error"):
        spool.append([data(2, 3)], {"p": Expected(epoch=1, next=9)})
    failing = False
    for use in (lambda: spool.append([data(2)]), lambda: spool.append([], HERE), spool.prune):
        with pytest.raises(SpoolClosed) as closed:
            use()
        name = log_path(tmp_path, 1, 3).name
        message = f"the spool {tmp_path} takes nothing more: {name} may not be durable"
        assert f"{message}; close it and open it again" == str(closed.value)
    spool.close()
    spool = Spool(tmp_path, most_bytes=ROOMY)
    assert (3, Expected(epoch=1, next=9), [(0, 1), (1, 2), (2, 3)]) == (spool.end, spool.producers["p"], _all(tmp_path))
    assert 3 == spool.append([data(4)])
    spool.close()


def test_a_closed_spool_takes_nothing(spool: Spool) -> None:
    """Once the lease is released another process may write, so the old owner is refused."""
    spool.close()
    with pytest.raises(SpoolClosed, match="takes nothing more: it was closed; close it and open it again"):
        spool.append([data(1)])
    assert [] == _all(spool.folder)


def test_a_spool_is_filled_and_pruned_by_two_threads(spool: Spool) -> None:
    """However appending and pruning meet, the size of the spool is the size of its files."""
    commit(spool.folder, "job", 0)
    done = Event()

    def prune() -> None:
        while not done.is_set():
            spool.prune()

    pruning = Thread(target=prune)
    pruning.start()
    try:
        for number in range(100):
            spool.append([data(number)])
            commit(spool.folder, "job", number)
    finally:
        done.set()
        pruning.join()
    spool.prune()
    files = log_files(spool.folder / "log")
    assert (99, 100, [(99, 99)]) == (spool.first, spool.end, _all(spool.folder))
    assert sum(file.path.stat().st_size for file in files) == spool.size


def test_an_item_without_events_is_refused(spool: Spool) -> None:
    """An item that takes no position cannot be appended."""
    with pytest.raises(ValueError, match="an item without events has no position; leave it out"):
        spool.append([data(1), data()])
    assert (0, []) == (spool.end, _all(spool.folder))


def test_pruning_nothing_writes_nothing(tmp_path: Path) -> None:
    """If no file was passed by every consumer, no file is touched."""
    steps: list[str] = []
    spool = Spool(tmp_path, most_bytes=ROOMY, step=steps.append)
    spool.prune()
    spool.append([data(1, 2)])
    commit(tmp_path, "job", 1)
    steps.clear()
    spool.prune()
    assert ([], 0) == (steps, spool.first)
    spool.close()


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.integers(0, 2**62), max_size=4))
@example({"tmp": 1, ".": 2, "..": 3, "a/b": 4, "A": 5, "%2F": 6, "/": 7, "\0": 8, "x.position": 9, "\ud800": 10})
def test_any_text_names_a_consumer(tmp_path_factory: pytest.TempPathFactory, positions: dict[str, int]) -> None:
    """Consumers with any names are distinct, and each leaves by its name."""
    folder = tmp_path_factory.mktemp("spool")
    for name, position in positions.items():
        commit(folder, name, position)
    assert positions == consumers(folder)
    for name in positions:
        leave(folder, name)
    assert {} == consumers(folder)


@pytest.mark.parametrize("name", ["", "x" * 201, "/" * 67], ids=["empty", "long", "long once quoted"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    """A consumer's name that is empty or too long is refused."""
    with pytest.raises(ValueError, match="cannot name a consumer: use a name of 1 to 200 bytes when quoted"):
        commit(tmp_path, name, 1)


def _torn(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1])
    return path


@pytest.mark.parametrize("damaged", ["last file", "hole", "last file gone", "mark"])
def test_a_damaged_spool_does_not_open(spool: Spool, damaged: str) -> None:
    """Damage is named when a spool is opened, and once it is repaired the same process may open it."""
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
            message = f"{files[1].path} is not the last file: the log went up to 3; restore the files after it"
        case _:
            message = f"{_torn(spool.folder / 'high-water')} cannot be read: "
    with pytest.raises(SpoolDamaged) as refused:
        Spool(spool.folder, most_bytes=ROOMY)
    assert str(refused.value).startswith(message)
    shutil.copytree(spool.folder.parent / "kept", spool.folder, dirs_exist_ok=True)
    repaired = Spool(spool.folder, most_bytes=ROOMY)
    assert ([(0, 0), (1, 1), (2, 2)], HERE) == (_all(spool.folder), repaired.producers)
    repaired.close()


def test_damage_affects_its_readers_only(spool: Spool) -> None:
    """Reading a torn file names it; reading after it is not disturbed."""
    spool.append([data(1)])
    spool.append([data(2)])
    torn = _torn(log_files(spool.folder / "log")[0].path)
    assert [(1, 2)] == _all(spool.folder, 1)
    with pytest.raises(SpoolDamaged, match=str(torn)):
        _all(spool.folder)


def test_a_damaged_commit_is_named(spool: Spool) -> None:
    """A consumer whose position cannot be read is named, and nothing is removed on a guess."""
    spool.append([data(1)])
    commit(spool.folder, "job", 1)
    (kept,) = (spool.folder / "consumers").glob("job*")
    kept.write_bytes(b"")
    with pytest.raises(SpoolDamaged, match=str(kept)):
        spool.prune()
    assert [(0, 1)] == _all(spool.folder)


def test_incomplete_files_of_a_crash_are_cleared(spool: Spool) -> None:
    """Incomplete files of the log do not pile up."""
    spool.append([data(1)])
    (spool.folder / "log" / "tmp" / "half").write_bytes(b"x")
    _reopened(spool).close()
    assert [] == list((spool.folder / "log" / "tmp").iterdir())


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """An append that fails raises an error and changes nothing, and the next one takes the same positions."""
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
    """A consumer that commits what it read sees every position once, whatever the owner does in between."""
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
