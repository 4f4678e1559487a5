"""A spool's log, its files and its index."""

import os
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.files import no_steps, write_whole
from bridge.intake import Expected
from bridge.spools.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.spools.log import (
    Extent,
    Item,
    ItemKind,
    LogFile,
    Mark,
    Placed,
    PositionsGone,
    SpoolDamaged,
    extents_in,
    items_in,
    log_files,
    log_path,
    mark_in,
    packed,
    read_mark,
    unpacked,
    write_mark,
    written,
)
from bridge.spools.reader import SpoolIndex, SpoolReach, between
from bridge.spools.spool import Spool, commit
from bridge.wire import Birth


def data(*numbers: int, stamp: int = 1) -> Item:
    events = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    return Item(count=len(numbers), stamp=stamp, payload=packed(events))


def marker(name: str, stamp: int = 1) -> Item:
    return Item(kind=ItemKind.MARKER, count=1, stamp=stamp, payload=name.encode())


ITEMS = st.lists(
    st.builds(marker, st.text(st.characters(codec="utf-8"), max_size=5), st.integers(0, 2**62))
    | st.builds(
        lambda numbers, stamp: data(*numbers, stamp=stamp),
        st.lists(st.integers(-9, 9), min_size=1, max_size=5),
        st.integers(0, 2**62),
    ),
    min_size=1,
    max_size=6,
)
EXPECTED = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.builds(Expected, epoch=st.integers(0, 2**62), next=st.none() | st.integers(0, 2**62)),
    max_size=3,
)
IN_DOUBT = st.builds(InDoubt, session=st.text(st.characters(codec="utf-8"), max_size=4), packets=st.binary(max_size=4))


def store(
    folder: Path,
    first: int,
    items: list[Item],
    expected: dict[str, Expected] | None = None,
    in_doubt: InDoubt = NOTHING_IN_DOUBT,
) -> LogFile:
    end = first + sum(item.count for item in items)
    file = LogFile(first, end, log_path(folder, first, end))
    write_whole(file.path, written(items, expected or {}, in_doubt))
    return file


@given(items=ITEMS, expected=EXPECTED, in_doubt=IN_DOUBT, first=st.integers(0, 10**15))
def test_a_file_keeps_items_expectations_and_doubts(
    tmp_path_factory: pytest.TempPathFactory,
    items: list[Item],
    expected: dict[str, Expected],
    in_doubt: InDoubt,
    first: int,
) -> None:
    """Written items are read with their positions, and with the expectations and the deliveries in doubt after them."""
    file = store(tmp_path_factory.mktemp("log"), first, items, expected, in_doubt)
    placed = list(items_in(file))
    assert items == [item for _, item in placed]
    assert first == placed[0].first
    assert [place.end for place in placed] == [*(place.first for place in placed[1:]), file.end]
    assert Mark(file.end, expected, in_doubt) == mark_in(file)


def test_a_file_has_the_layout_that_later_releases_expect(tmp_path: Path) -> None:
    """A line of JSON, the payloads, and the checksum of both, byte for byte, because files outlive releases."""
    expected = {"q": Expected(), "p": Expected(epoch=2, next=7, opened=True)}
    born = replace(data(1, 2, stamp=5), births=(Birth(1, 3), Birth(1, 4)))
    file = store(tmp_path, 4, [born, marker("nä", stamp=6)], expected)
    line = (
        b'{"producers":{"p":{"epoch":2,"next":7,"opened":true,"closed":false},'
        b'"q":{"epoch":0,"next":null,"opened":false,"closed":false}},'
        b'"items":[{"kind":"data","count":2,"stamp":5,"size":%d,"births":[[1,3],[1,4]]},'
        b'{"kind":"marker","count":1,"stamp":6,"size":3}]}\n' % len(born.payload)
    )
    content = line + born.payload + "nä".encode()
    assert content + zlib.crc32(content).to_bytes(4, "big") == file.path.read_bytes()
    doubtful = store(tmp_path, 7, [marker("m")], in_doubt=InDoubt(session="s", packets=b"\1\0", digests=b"\0\0\0\0"))
    assert (
        b'{"producers":{},"items":[{"kind":"marker","count":1,"stamp":1,"size":1}],'
        b'"in_doubt":{"session":"s","packets":"AQA=","digests":"AAAAAA=="}}\nm'
    ) == doubtful.path.read_bytes()[:-4]


@given(end=st.integers(0, 2**62), expected=EXPECTED, in_doubt=IN_DOUBT)
def test_a_mark_keeps_expectations_and_doubts(
    tmp_path_factory: pytest.TempPathFactory, end: int, expected: dict[str, Expected], in_doubt: InDoubt
) -> None:
    """They are read as they were written, even those of a stream that has not opened."""
    spool = tmp_path_factory.mktemp("spool")
    write_mark(spool, Mark(end, expected, in_doubt), no_steps)
    assert Mark(end, expected, in_doubt) == read_mark(spool)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6), st.data())
def test_an_item_is_sliced_where_reading_begins(numbers: list[int], draw: st.DataObject) -> None:
    """From a position inside an item its later events remain, with that position and the same stamp."""
    position = draw.draw(st.integers(0, 10 + len(numbers) - 1))
    rest = Placed(10, data(*numbers, stamp=77)).since(position)
    skipped = max(0, position - 10)
    assert Placed(10 + skipped, data(*numbers[skipped:], stamp=77)) == rest
    assert numbers[skipped:] == unpacked(rest.item.payload).column("n").to_pylist()
    assert 10 + len(numbers) == rest.end


def test_files_are_named_by_their_positions(tmp_path: Path) -> None:
    """The names of a log's files have the positions, and their order is the order of the names."""
    assert "00000000000000000009-00000000000000000012" == log_path(tmp_path, 9, 12).name
    late, early = store(tmp_path, 9, [data(1, 2, 3)]), store(tmp_path, 5, [data(1, 2), marker("m"), marker("m")])
    assert [early, late] == log_files(tmp_path)


def test_a_file_that_one_listing_missed_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a listing has a file but not the one before it, which was just appended, the next listing has both."""
    files = [store(tmp_path, first, [data(1)]) for first in (4, 5)]
    listings = [[files[1].path.name]]
    whole = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listings.pop() if listings else whole(folder))
    assert files == log_files(tmp_path, 4)


def test_only_complete_files_of_the_log_count(tmp_path: Path) -> None:
    """Incomplete files, and what a file system leaves beside the files, are no part of a log."""
    file = store(tmp_path, 0, [data(1)])
    (tmp_path / ".nfs0001").write_bytes(b"")
    (tmp_path / "1-2").write_bytes(b"")
    (tmp_path / "tmp" / log_path(tmp_path, 1, 2).name).write_bytes(b"")
    assert [file] == log_files(tmp_path)


@pytest.mark.parametrize(("first", "kind"), [(4, "hole"), (2, "overlap")])
def test_a_file_that_does_not_follow_is_damage(tmp_path: Path, first: int, kind: str) -> None:
    """A hole between files, or an overlap, is reported with the names of both files."""
    before, after = store(tmp_path, 0, [data(1, 2, 3)]), store(tmp_path, first, [data(1)])
    assert kind == ("hole" if first > before.end else "overlap")
    with pytest.raises(SpoolDamaged) as damaged:
        log_files(tmp_path)
    assert f"{after.path} does not follow {before.path}; restore what lay between them" == str(damaged.value)


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -1], ids="{} bytes".format)
def test_a_torn_file_is_damage(tmp_path: Path, kept: int) -> None:
    """Wherever a file was cut off, reading its items or expectations names it."""
    file = store(tmp_path, 0, [data(1, 2, 3), marker("m")])
    file.path.write_bytes(file.path.read_bytes()[:kept])
    for reading in (lambda: list(items_in(file)), lambda: mark_in(file), lambda: extents_in(file)):
        with pytest.raises(SpoolDamaged) as damaged:
            reading()
        assert str(damaged.value).startswith(f"{file.path} cannot be read: ")
        assert str(damaged.value).endswith("; restore it")


def test_a_file_that_is_gone_is_damage(tmp_path: Path) -> None:
    """A file that vanished after it was listed is named."""
    file = store(tmp_path, 0, [data(1)])
    file.path.unlink()
    with pytest.raises(SpoolDamaged, match=str(file.path)):
        list(items_in(file))


def test_a_file_under_another_name_is_damage(tmp_path: Path) -> None:
    """A file with other positions than its name says gives no item a wrong position."""
    file = store(tmp_path, 0, [data(1, 2, 3)])
    wrong = LogFile(0, 4, file.path.rename(log_path(tmp_path, 0, 4)))
    for reading in (items_in, extents_in):
        with pytest.raises(SpoolDamaged) as damaged:
            list(reading(wrong))
        assert f"{wrong.path} does not hold the positions that its name says; restore it" == str(damaged.value)


@given(st.data())
def test_any_changed_byte_is_damage(tmp_path_factory: pytest.TempPathFactory, data_: st.DataObject) -> None:
    """Whichever byte of a file was changed, reading its items or expectations names the file."""
    file = store(tmp_path_factory.mktemp("log"), 0, [data(1, 2, 3), marker("m")], {"p": Expected(next=3)})
    content = bytearray(file.path.read_bytes())
    content[data_.draw(st.integers(0, len(content) - 1))] ^= data_.draw(st.integers(1, 255))
    file.path.write_bytes(content)
    for reading in (lambda: list(items_in(file)), lambda: mark_in(file)):
        with pytest.raises(SpoolDamaged) as damaged:
            reading()
        assert f"{file.path} cannot be read: its checksum does not match; restore it" == str(damaged.value)


@given(st.data())
def test_extents_of_a_damaged_file_are_read_or_damage(
    tmp_path_factory: pytest.TempPathFactory, data_: st.DataObject
) -> None:
    """Whatever bytes of a file were changed, reading its extents raises nothing but damage of that file."""
    file = store(tmp_path_factory.mktemp("log"), 0, [data(1, 2, 3), marker("m")])
    content = bytearray(file.path.read_bytes())
    at = data_.draw(st.integers(0, len(content) - 1))
    content[at : at + 4] = data_.draw(st.binary(min_size=1, max_size=4))
    file.path.write_bytes(content)
    try:
        extents_in(file)
    except SpoolDamaged as damaged:
        assert str(file.path) in str(damaged)  # noqa: PT017 - what is not damaged raises nothing


@given(ITEMS, st.integers(0, 10**15))
def test_extents_are_the_items_without_payloads(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item], first: int
) -> None:
    """Extents have the end of each item, the size of its payload, and the name of each marker."""
    file = store(tmp_path_factory.mktemp("log"), first, items)
    ends = accumulate((item.count for item in items[1:]), initial=first + items[0].count)
    names = [item.payload.decode() if item.kind is ItemKind.MARKER else None for item in items]
    sizes = [len(item.payload) for item in items]
    assert list(map(Extent, ends, sizes, names)) == extents_in(file)


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=6), st.data())
def test_an_item_is_sliced_where_reading_ends(numbers: list[int], draw: st.DataObject) -> None:
    """Up to a position inside an item its earlier events remain, with the same position and stamp."""
    position = draw.draw(st.integers(11, 10 + len(numbers) + 2))
    rest = Placed(10, data(*numbers, stamp=77)).until(position)
    kept = numbers[: position - 10]
    assert (10, len(kept), 77) == (rest.first, rest.item.count, rest.item.stamp)
    assert kept == unpacked(rest.item.payload).column("n").to_pylist()
    assert 10 + len(kept) == rest.end


def test_files_are_listed_from_a_position_on(tmp_path: Path) -> None:
    """Only the files that hold a position or later ones are listed."""
    files = [store(tmp_path, first, [data(1, 2)]) for first in (4, 6, 8)]
    assert {0: 0, 4: 0, 5: 0, 6: 1, 7: 1, 8: 2, 9: 2, 10: 3, 11: 3} == {
        after: 3 - len(log_files(tmp_path, after)) for after in (0, 4, 5, 6, 7, 8, 9, 10, 11)
    }
    assert files[1:] == log_files(tmp_path, 7)


def test_a_log_that_changes_while_listed_has_no_hole(tmp_path: Path) -> None:
    """Listing a log while files are appended and the oldest are removed shows no false hole."""
    # So many that no system lists them at once.
    kept = deque(log_path(tmp_path, first, first + 1) for first in range(2_000))
    for path in kept:
        path.touch()
    stop = Event()

    def change() -> None:
        for first in count(len(kept)):
            if stop.is_set():
                return
            kept.append(log_path(tmp_path, first, first + 1))
            kept[-1].touch()
            kept.popleft().unlink()

    changing = Thread(target=change)
    changing.start()
    try:
        listings = [log_files(tmp_path) for _ in range(100)]
    finally:
        stop.set()
        changing.join()
    ends = [files[-1].end for files in listings]
    assert sorted(ends) == ends
    assert 2_000 <= ends[0] < ends[-1]


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
