"""The index of a spool."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from bridge.spools.log import PositionsGone, SpoolDamaged, log_files
from bridge.spools.reader import SpoolIndex, SpoolReach, between
from bridge.spools.spool import Spool, commit
from tests.bridge.spools.test_log import data, marker

ROOMY = 10**9
SIZE = len(data(1).payload)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(tmp_path / "spool", most_bytes=ROOMY)
    yield opened
    opened.close()


def test_a_batch_of_an_empty_spool_is_empty(spool: Spool) -> None:
    """A batch ends where it begins."""
    index = SpoolIndex(spool.folder)
    assert (0, 0, SpoolReach(end=0, size=0), None) == (
        index.first,
        index.end,
        index.reach(0, ROOMY),
        index.marker_position("m"),
    )


def test_a_spool_that_was_filled_and_emptied_again_has_moved_on(spool: Spool) -> None:
    """Its log looks as before, but the index knows that items came and went between two refreshes."""
    index = SpoolIndex(spool.folder)
    found = []
    for number in range(3):
        spool.append([data(number)])
        spool.prune()
        index.refresh()
        found.append((index.first, index.end))
    assert [(1, 1), (2, 2), (3, 3)] == found


def test_a_batch_goes_as_far_as_its_bytes(spool: Spool) -> None:
    """A batch goes to the last end of an item within its bytes, over files, and has at least one item."""
    spool.append([data(1), data(2)])
    spool.append([data(3), data(4)])
    index = SpoolIndex(spool.folder)
    wished = [0, SIZE - 1, SIZE, 2 * SIZE - 1, 2 * SIZE, 3 * SIZE, 4 * SIZE - 1, 4 * SIZE, ROOMY]
    assert [1, 1, 1, 1, 2, 3, 3, 4, 4] == [index.reach(0, most_bytes).end for most_bytes in wished]
    assert SpoolReach(end=3, size=2 * SIZE) == index.reach(1, 2 * SIZE)
    assert SpoolReach(end=4, size=0) == index.reach(4, ROOMY)
    assert [1, 2, 3, 4] == [index.reach(start, 0).end for start in range(4)]


def test_a_batch_may_begin_inside_an_item(spool: Spool) -> None:
    """A batch from inside an item goes to an item's end too, and counts its part of the bytes of that item."""
    spool.append([data(1, 2, 3), data(4)])
    index = SpoolIndex(spool.folder)
    large = len(data(1, 2, 3).payload)
    assert SpoolReach(end=3, size=large - large // 3) == index.reach(1, large - large // 3 + SIZE - 1)
    assert SpoolReach(end=4, size=large - large * 2 // 3 + SIZE) == index.reach(2, large + SIZE)


def test_a_batch_ends_at_a_marker(spool: Spool) -> None:
    """However many bytes it may have, a batch ends right after the first marker and has its name."""
    spool.append([data(1, 2), marker("a"), marker("b")])
    spool.append([data(3)])
    spool.append([marker("c")])
    index = SpoolIndex(spool.folder)
    reached = [index.reach(0, ROOMY)]
    while reached[-1].end < index.end:
        reached.append(index.reach(reached[-1].end, ROOMY))
    assert [(3, "a"), (4, "b"), (6, "c")] == [(each.end, each.marker) for each in reached]
    # If the bytes do not reach the marker, there is none.
    assert (2, None) == (index.reach(0, 1).end, index.reach(0, 1).marker)


def test_markers_are_found_by_name(spool: Spool) -> None:
    """The position after the first marker with a name is found, as long as the marker exists."""
    spool.append([data(1, 2), marker("a")])
    spool.append([marker("b"), marker("a")])
    index = SpoolIndex(spool.folder)
    assert (3, 4, None) == tuple(map(index.marker_position, ["a", "b", "c"]))
    commit(spool.folder, "job", 3)
    spool.prune()
    index.refresh()
    assert (5, 4) == tuple(map(index.marker_position, ["a", "b"]))


def test_an_index_is_as_of_its_last_refresh(spool: Spool) -> None:
    """Appended and removed items are seen at the next refresh."""
    spool.append([data(1)])
    index = SpoolIndex(spool.folder)
    spool.append([data(2)])
    spool.append([data(3)])
    commit(spool.folder, "job", 1)
    spool.prune()
    assert (0, 1) == (index.first, index.end)
    index.refresh()
    assert (1, 3, SpoolReach(end=3, size=2 * SIZE)) == (index.first, index.end, index.reach(1, ROOMY))
    with pytest.raises(PositionsGone, match="begins at position 1; position 0 was removed"):
        index.reach(0, ROOMY)


def test_removed_items_count_no_longer(spool: Spool) -> None:
    """After files were removed, a batch counts the bytes of the remaining ones."""
    for number in range(4):
        spool.append([data(number)])
    index = SpoolIndex(spool.folder)
    commit(spool.folder, "job", 2)
    spool.prune()
    index.refresh()
    assert [SpoolReach(end=3, size=SIZE), SpoolReach(end=4, size=2 * SIZE)] == [
        index.reach(2, 2 * SIZE - 1),
        index.reach(2, 2 * SIZE),
    ]


def test_an_index_that_was_left_behind_catches_up(spool: Spool) -> None:
    """If everything it knew was removed, and more that it never saw, an index goes on with the remaining items."""
    spool.append([data(1), marker("m")])
    index = SpoolIndex(spool.folder)
    for number in range(5):
        spool.append([data(number)])
    commit(spool.folder, "job", 5)
    spool.prune()
    index.refresh()
    assert (5, 7, None) == (index.first, index.end, index.marker_position("m"))
    assert SpoolReach(end=6, size=SIZE) == index.reach(5, SIZE)
    commit(spool.folder, "job", 7)
    spool.append([data(9)])
    commit(spool.folder, "job", 8)
    spool.prune()
    index.refresh()
    assert (8, 8, SpoolReach(end=8, size=0)) == (index.first, index.end, index.reach(8, ROOMY))
    assert (8, 8) == (SpoolIndex(spool.folder).first, SpoolIndex(spool.folder).end)


def test_only_new_files_are_opened(spool: Spool) -> None:
    """A refresh opens no file that was seen before, and none at all if nothing is new."""
    spool.append([data(1)])
    index = SpoolIndex(spool.folder)
    (seen,) = log_files(spool.folder / "log")
    seen.path.write_bytes(b"")
    spool.append([data(2)])
    index.refresh()
    index.refresh()
    assert 2 == index.end


def test_a_damaged_file_is_named(spool: Spool) -> None:
    """A new file that cannot be read is named, at every refresh until it is repaired."""
    index = SpoolIndex(spool.folder)
    spool.append([data(1)])
    (file,) = log_files(spool.folder / "log")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:100])
    for _ in range(2):
        with pytest.raises(SpoolDamaged, match=str(file.path)):
            index.refresh()
    file.path.write_bytes(whole)
    index.refresh()
    assert 1 == index.end


def test_positions_used_twice_are_damage(spool: Spool) -> None:
    """If a log was set back and went on differently, a reader that had seen more gets an error, and no wrong items."""
    spool.append([data(1)])
    spool.append([data(2)])
    index = SpoolIndex(spool.folder)
    spool.close()
    log_files(spool.folder / "log")[1].path.unlink()
    again = Spool(spool.folder, most_bytes=ROOMY)
    again.append([data(3, 4, 5)])
    again.close()
    with pytest.raises(SpoolDamaged, match="holds positions before 2, which the log had passed; restore what was"):
        index.refresh()


def test_an_index_follows_an_owner_at_work(spool: Spool) -> None:
    """While files come and go, an index goes on without a hole, and everything it reaches can be read."""
    commit(spool.folder, "job", 0)
    done = Event()

    def own() -> None:
        for number in range(80):
            spool.append([data(number, number)])
            spool.prune()
        done.set()

    reader = SpoolIndex(spool.folder)
    owner = Thread(target=own)
    owner.start()
    position, found = 0, list[int]()
    while position < 160:
        reader.refresh()
        reached = reader.reach(position, 3 * SIZE)
        for placed in between(spool.folder, position, reached.end):
            found.append(placed.first)
        position = reached.end
        commit(spool.folder, "job", position)
        assert owner.is_alive() or done.is_set()
    owner.join()
    assert list(range(0, 160, 2)) == found
