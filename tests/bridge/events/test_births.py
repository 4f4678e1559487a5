"""Births: each event keeps its own, however a stream is cut into items and frames."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import MalformedFrame
from bridge.files import write_whole
from bridge.spools.log import Item, LogFile, Placed, items_in, log_path, packed, written
from bridge.wire import (
    MOST_MESSAGE_BYTES,
    Birth,
    Emitted,
    Stream,
    births_in,
    births_text,
    decode,
    encode,
    frames,
    part_of,
)

BIRTHS = st.lists(st.builds(Birth, st.integers(1, 4), st.integers(0, 2**62)), min_size=1, max_size=5)


def each(births: Sequence[Birth]) -> list[int]:
    """When each event was born."""
    return [at for many, at in births for _ in range(many)]


def events(count: int, size: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(["x" * size] * count)})


@given(BIRTHS, st.integers(0, 20), st.integers(0, 20))
def test_a_part_has_the_births_of_its_events(births: list[Birth], first: int, end: int) -> None:
    """The result is as if each event carried its birth, and no birth is empty."""
    found = part_of(births, first, end)
    assert each(births)[first:end] == each(found)
    assert all(birth.many > 0 for birth in found)


@given(BIRTHS)
def test_births_survive_as_text(births: list[Birth]) -> None:
    """Births are read as they were written."""
    assert tuple(births) == births_in(births_text(births), len(each(births)))


@pytest.mark.parametrize("text", ["[[1,5]]", "[[2,5],[-1,6],[2,7]]", "[[3]]", "[[3,1.5]]", "{", "3", "[" * 100_000])
def test_texts_that_are_no_births_are_refused(text: str) -> None:
    """They have another number of events, or are no list of counts and times."""
    with pytest.raises(ValueError, match="births"):
        births_in(text, 3)


@given(BIRTHS, st.data())
def test_frames_carry_births_however_they_are_cut(births: list[Birth], data: st.DataObject) -> None:
    """Events too large for one frame, from a number on, cut again at either end: each keeps its birth."""
    count = len(each(births))
    emitted = Emitted(first=7, events=events(count, MOST_MESSAGE_BYTES // 3), births=tuple(births))
    number = data.draw(st.integers(0, 7 + count - 1))
    found: dict[int, int] = {}
    for frame in frames(Stream(1, "out"), 1, [emitted], number):
        cut = data.draw(st.integers(frame.first, frame.end))
        parts = [one for one in (frame.until(cut), frame.since(cut)) if one.count]
        for one in parts if frame.first < cut < frame.end else [frame]:
            got = decode(encode(one))
            found |= dict(zip(range(got.first, got.end), each(got.births), strict=True))
    begin = max(number, 7)
    assert dict(zip(range(begin, 7 + count), each(births)[begin - 7 :], strict=True)) == found


def test_a_frame_whose_births_are_of_other_events_is_malformed() -> None:
    """It is not taken with the times of other events."""
    (frame,) = frames(Stream(1, "out"), 1, [Emitted(first=0, events=events(3), births=(Birth(3, 5),))], 0)
    with pytest.raises(MalformedFrame, match="births"):
        decode(encode(replace(frame, births=(Birth(2, 5),))))


def test_a_frame_may_have_no_births() -> None:
    """Their births are unknown then."""
    (frame,) = frames(Stream(1, "out"), 1, [Emitted(first=0, events=events(3))], 0)
    assert () == decode(encode(frame)).births


@given(BIRTHS, st.data())
def test_a_spool_keeps_births_however_items_are_cut(
    tmp_path_factory: pytest.TempPathFactory, births: list[Birth], data: st.DataObject
) -> None:
    """They are independent of the stamp; a part of an item has those of its events."""
    count = len(each(births))
    item = Item(count=count, stamp=99, payload=packed(events(count)), births=tuple(births))
    path = log_path(tmp_path_factory.mktemp("log"), 5, 5 + count)
    write_whole(path, written([item], {}))
    (placed,) = items_in(LogFile(5, 5 + count, path))
    assert Placed(5, item) == placed
    first = data.draw(st.integers(5, 5 + count - 1))
    end = data.draw(st.integers(first + 1, 5 + count))
    part = placed.since(first).until(end)
    assert (first, end, 99) == (part.first, part.end, part.item.stamp)
    assert each(births)[first - 5 : end - 5] == each(part.item.births)
