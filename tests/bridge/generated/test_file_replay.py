"""The replay of files."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.generated.file_replay import Unreplayable, chunks, due_of
from bridge.generated.generators import NEVER, Progress, Replay
from bridge.raw_events import Unfit
from dags import Kind, Schema

SCHEMA = Schema.of(at=Kind.TIMESTAMP, n=Kind.INTEGER, t=Kind.FLOAT)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
ROWS = [{"at": NOON_MS + 1_000 * number, "n": number, "t": number / 2, "x": f"é{number}"} for number in range(5)]


def store(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file of the kind that its ending tells."""
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".csv":
            lines = [",".join(rows[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        case _:
            pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def replayed(replay: Replay, number: int = 0, rounds: int = 100) -> list[tuple[int, int, dict[str, Any]]]:
    """Number, time and fields of the first events."""
    refused: list[Unfit] = []
    found: list[tuple[int, int, dict[str, Any]]] = []
    for chunk, _ in zip(chunks(replay, number, refused.append), range(rounds), strict=False):
        found += zip(range(chunk.first, chunk.end), chunk.offsets.tolist(), chunk.events.to_pylist(), strict=True)
    assert not refused
    return found


ENDING = pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])


@ENDING
def test_a_file_is_replayed_by_its_schema(tmp_path: Path, ending: str) -> None:
    """Declared fields have their kinds, the rest stays together, and the gaps between the events are kept."""
    replay = Replay(path=store(tmp_path / f"a.{ending}", ROWS), schema=SCHEMA, time_field="at")
    assert [
        (
            number,
            1_000 * number,
            {
                "at": datetime.fromtimestamp(NOON_MS / 1000 + number, UTC),
                "n": number,
                "t": number / 2,
                "_rest": f'{{"x":"é{number}"}}',
            },
        )
        for number in range(5)
    ] == replayed(replay)


@ENDING
def test_values_that_a_file_lacks_are_null(tmp_path: Path, ending: str) -> None:
    """A missing field and an empty value are null."""
    schema = Schema.of(n=Kind.INTEGER, absent=Kind.STRING)
    path = store(tmp_path / f"a.{ending}", [{"n": 1, "t": 2}, {"n": None, "t": 2}])
    found = [(row["n"], row["absent"]) for _, _, row in replayed(Replay(path=path, schema=schema, per_second=1))]
    assert [(1, None), (None, None)] == found


@pytest.mark.parametrize(("speed", "gap"), [(1.0, 1_000), (10.0, 100), (0.5, 2_000)])
def test_speed_divides_the_gaps(tmp_path: Path, speed: float, gap: int) -> None:
    """Twice the speed is half the time between two events."""
    replay = Replay(path=store(tmp_path / "a.jsonl", ROWS), schema=SCHEMA, time_field="at", speed=speed)
    assert [gap * number for number in range(5)] == [due_at for _, due_at, _ in replayed(replay)]


def test_without_times_the_rate_counts(tmp_path: Path) -> None:
    """Without a time field, so many events are sent each second."""
    replay = Replay(path=store(tmp_path / "a.jsonl", ROWS), schema=SCHEMA, per_second=4)
    assert [0, 250, 500, 750, 1_000] == [due_at for _, due_at, _ in replayed(replay)]


def test_times_that_go_back_or_are_missing_hold_nothing_up(tmp_path: Path) -> None:
    """An event without a time, or with an earlier one, comes with the one before it; the order is the file's."""
    times = [None, 1_000, 3_000, 2_000, None, 4_000]
    path = store(tmp_path / "a.jsonl", [{"at": time, "n": number} for number, time in enumerate(times)])
    found = replayed(Replay(path=path, schema=SCHEMA, time_field="at"))
    assert [0, 0, 2_000, 2_000, 2_000, 3_000] == [due_at for _, due_at, _ in found]
    assert [0, 1, 2, 3, 4, 5] == [row["n"] for _, _, row in found]


def test_an_event_after_a_huge_gap_is_never_due(tmp_path: Path) -> None:
    """A gap of centuries at a millionth of the speed is later than every other time, in each round."""
    rows = [{"at": at, "n": number} for number, at in enumerate([0, 1, 10**14])]
    slow = Replay(path=store(tmp_path / "a.csv", rows), schema=SCHEMA, time_field="at", speed=1e-6, repeat=True)
    assert [0, 10**6, NEVER, NEVER, NEVER + 10**6, 2 * NEVER] == [due_at for _, due_at, _ in replayed(slow, rounds=2)]


def test_times_never_decrease_over_a_whole_file(tmp_path: Path) -> None:
    """However long a file is, an event with an earlier time comes with the one before it."""
    rows = [{"at": 9_000 if number == 1 else 0, "n": number} for number in range(4_500)]
    found = replayed(Replay(path=store(tmp_path / "a.csv", rows), schema=SCHEMA, time_field="at"))
    assert [0, *[9_000] * 4_499] == [due_at for _, due_at, _ in found]


def test_wide_events_are_sent_a_megabyte_at_a_time(tmp_path: Path) -> None:
    """Events that are due together come in pieces of about a megabyte, but at least one, and all of them come."""
    for size, most in [(100_000, 10), (2_000_000, 1)]:
        path = store(tmp_path / "a.jsonl", [{"s": "x" * size, "n": number} for number in range(12)])
        (chunk,) = chunks(Replay(path=path, schema=Schema.of(s=Kind.STRING), per_second=1_000), 0, lambda _: None)
        progress, sent = Progress(start=0), list[int]()
        while progress.next < 12:
            progress = due_of(chunk, progress, 1_000).progress
            sent.append(progress.next)
        steps = [after - before for before, after in pairwise([0, *sent])]
        assert most - 1 <= max(steps) <= most
        assert 12 == sum(steps)


def test_a_repeated_file_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Numbers go on over the rounds, and between two rounds lies the mean gap."""
    path = store(tmp_path / "a.jsonl", ROWS)
    timed = replayed(Replay(path=path, schema=SCHEMA, time_field="at", repeat=True), rounds=3)
    assert [(number, 1_000 * number, number % 5) for number in range(15)] == [(a, b, row["n"]) for a, b, row in timed]
    rated = replayed(Replay(path=path, schema=SCHEMA, per_second=10, repeat=True), rounds=3)
    assert [(number, 100 * number, number % 5) for number in range(15)] == [(a, b, row["n"]) for a, b, row in rated]


@ENDING
@pytest.mark.parametrize("number", [0, 1, 4, 5, 6, 2_003, 4_999, 5_000, 5_001, 14_999, 15_000, 10**9 + 1])
def test_a_replay_goes_on_at_any_number(tmp_path: Path, ending: str, number: int) -> None:
    """Begun at a number, a replay sends the same as one from the beginning, at the same times."""
    rows = [{"at": NOON_MS + 7 * number, "n": number} for number in range(5_000)]
    replay = Replay(path=store(tmp_path / f"a.{ending}", rows), schema=SCHEMA, time_field="at", repeat=True)
    found = replayed(replay, number, rounds=4)
    assert len(found) > 2_000
    assert [(each, 7 * each, each % 5_000) for each in range(number, number + len(found))] == [
        (a, b, row["n"]) for a, b, row in found
    ]


def test_a_file_that_has_ended_stays_ended(tmp_path: Path) -> None:
    """Without repeating, nothing comes after the last event, and an empty file has no events."""
    replay = Replay(path=store(tmp_path / "a.jsonl", ROWS), schema=SCHEMA, per_second=1)
    assert [] == replayed(replay, 5)
    (tmp_path / "empty.jsonl").write_text("\n\n")
    for repeat in (False, True):
        assert [] == replayed(Replay(path=tmp_path / "empty.jsonl", schema=SCHEMA, per_second=1, repeat=repeat))


def test_unfit_lines_are_reported_and_left_out(tmp_path: Path) -> None:
    """A line that does not fit the schema is reported with its file, row and reason, and takes no number."""
    lines = ['{"n": 1}', "", '{"n": "x"}', "nonsense", '[{"n": 2}, {"n": 3}]', '{"n": 4}']
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    refused: list[Unfit] = []
    (chunk,) = chunks(Replay(path=path, schema=Schema.of(n=Kind.INTEGER), per_second=1), 0, refused.append)
    assert (0, [1, 2, 3, 4]) == (chunk.first, chunk.events.column("n").to_pylist())
    wrong, malformed = refused
    assert Unfit(event='{"n": "x"}', reason=f"{path}, row 3: the field 'n' should be of kind integer") == wrong
    assert malformed.event.startswith("nonsense")
    assert malformed.reason.startswith(f"{path}, row 4: the message is not JSON: ")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Kind.INTEGER, "5", "5.5"),
        (Kind.FLOAT, "1e3", "inf"),
        (Kind.BOOLEAN, "true", "maybe"),
        (Kind.TIMESTAMP, "2024-05-01T12:00:00+02:00", "noon"),
        (Kind.TIMESTAMP, "1714557600000", "1714557600000000"),
        (Kind.JSON, "[1]", "[1"),
        (Kind.JSON, "[" * 100 + "]" * 100, "[" * 101 + "]" * 101),
        (Kind.JSON, "[1]", "[" * 5_000 + "]" * 5_000),
    ],
)
def test_a_value_of_another_kind_names_its_row(tmp_path: Path, kind: Kind, good: str, bad: str) -> None:
    """A value that cannot be of the field's kind is reported with file, row, field and value."""
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["v", *[good] * 2_500, bad, good]))
    replay = Replay(path=path, schema=Schema.of(v=kind), per_second=1)
    with pytest.raises(Unreplayable) as refused:
        replayed(replay)
    assert (
        f"{path}, row 2501: the field 'v' should be of kind {kind}, but is '{bad}'; "
        "correct the file or the source's schema" == str(refused.value)
    )


def test_times_of_a_file_that_python_cannot_represent_are_reported(tmp_path: Path) -> None:
    """A declared one names its row; an undeclared one stays with the rest as its text."""
    column = pa.array([0, 253_402_387_139_000], pa.timestamp("ms"))
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"v": column, "n": [1, 2]}), path)
    found = replayed(Replay(path=path, schema=Schema.of(n=Kind.INTEGER), per_second=1))
    assert ["1970-01-01 00:00:00", "10000-01-01 23:58:59.000"] == [json.loads(row["_rest"])["v"] for _, _, row in found]
    with pytest.raises(Unreplayable, match=r"row 2: the field 'v' should be of kind timestamp, but is '10000-01-01"):
        replayed(Replay(path=path, schema=Schema.of(v=Kind.TIMESTAMP), per_second=1))


@pytest.mark.parametrize(
    "texts",
    [
        ["1714564800000", "1714564800000"],
        ["2024-05-01 12:00:00", "2024-05-01T12:00:00"],
        ["2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00"],
        ["2024-05-01T12:00:00", "2024-05-01T12:00:00Z"],
        ["2024-05-01T12:00:00.000", "2024-05-01T12:00:00.000001Z"],
    ],
    ids=["milliseconds", "no zone", "zones", "some zones", "fractions"],
)
def test_times_are_read_in_any_notation(tmp_path: Path, texts: list[str]) -> None:
    """Milliseconds and ISO 8601, with and without a zone, are the same time."""
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["at", *texts, '""']))
    found = replayed(Replay(path=path, schema=Schema.of(at=Kind.TIMESTAMP), per_second=1))
    assert [NOON, NOON, None] == [row["at"] and row["at"].replace(microsecond=0) for _, _, row in found]


def test_the_types_of_parquet_become_kinds(tmp_path: Path) -> None:
    """Times of any unit and zone, dates, NaN, and nested values are converted to the schema."""
    table = pa.table(
        {
            "at": pa.array([NOON.replace(tzinfo=None, microsecond=1)], pa.timestamp("ns")),
            "day": pa.array([NOON.date()]),
            "f": pa.array([float("nan")]),
            "j": pa.array([{"a": [1]}]),
            "s": pa.array(["x"]).dictionary_encode(),
            "nested": pa.array([[NOON]]),
        }
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    schema = Schema.of(at=Kind.TIMESTAMP, day=Kind.TIMESTAMP, f=Kind.FLOAT, j=Kind.JSON, s=Kind.STRING)
    ((_, _, row),) = replayed(Replay(path=tmp_path / "a.parquet", schema=schema, per_second=1))
    assert {
        "at": NOON,
        "day": NOON.replace(hour=0),
        "f": None,
        "j": '{"a":[1]}',
        "s": "x",
        "_rest": '{"nested":["2024-05-01 12:00:00+00:00"]}',
    } == row


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "cannot be replayed after row 0: "),
        ("none.jsonl", None, "cannot be replayed after row 0: "),
        ("a.parquet", b"PAR1", "cannot be replayed after row 0: "),
        (
            "a.csv",
            b"a,b\n1,2\n3\n",
            "cannot be replayed after row 0: CSV parse error: Row #3: Expected 2 columns, got 1",
        ),
        ("a.xml", b"", "cannot be replayed: it ends neither in .jsonl, .csv, .parquet, .txt nor .senml; rename it"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    """A file that is missing, malformed or of another kind is reported by its name."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreplayable) as refused:
        replayed(Replay(path=tmp_path / name, schema=SCHEMA, per_second=1))
    assert str(refused.value).startswith(f"{tmp_path / name} {message}")


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 9), st.data())
def test_exactly_the_due_events_of_a_chunk_are_sent(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], most: int, draw: st.DataObject
) -> None:
    """Asked at any times, a replay sends each event once, in order, never before its time and never late for long."""
    times = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    path = tmp_path_factory.mktemp("replay") / "a.jsonl"
    store(path, [{"at": time, "n": number} for number, time in enumerate(times)])
    (chunk,) = chunks(Replay(path=path, schema=SCHEMA, time_field="at"), 0, lambda _: None)
    progress, now, sent = Progress(start=1_000), 1_000, list[int]()
    while progress.next < chunk.end:
        now += draw.draw(st.integers(0, 60))
        ready = due_of(chunk, progress, now, most)
        numbers = [] if ready.events is None else ready.events.column("n").to_pylist()
        assert len(numbers) <= most
        sent += numbers
        assert len(sent) == ready.progress.next
        passed = sum(time - times[0] + 1_000 <= now for time in times)
        assert len(sent) <= passed
        assert len(numbers) == most or len(sent) == passed
        assert ready.then is not None
        progress = ready.progress
        now = max(now, ready.then)
    assert list(range(len(gaps))) == sent


@pytest.mark.parametrize("ending", ["senml", "txt"])
def test_lines_of_text_are_replayed_as_they_are(tmp_path: Path, ending: str) -> None:
    """Each with the time at its beginning, whose gaps are kept; lines without one come at once."""
    rows = [
        '1422748800000,{"e":[{"u":"string","n":"source","v":"ci4"},{"u":"far","n":"temperature","v":"27.3"}],"bt":1}',
        '1422748801500,{"e":[],"bt":1422748801500}',
        "a line, without a time",
    ]
    path = tmp_path / f"rows.{ending}"
    path.write_text("\n".join([rows[0], "", *rows[1:]]) + "\n")
    timed = Schema.of(line=Kind.STRING, time=Kind.TIMESTAMP)
    found = replayed(Replay(path=path, schema=timed, time_field="time", speed=10))
    assert [(0, rows[0]), (150, rows[1]), (150, rows[2])] == [(at, event["line"]) for _, at, event in found]
    moments = [event["time"] and int(event["time"].timestamp() * 1000) for _, _, event in found]
    assert [1_422_748_800_000, 1_422_748_801_500, None] == moments
    (first, *_) = replayed(Replay(path=path, schema=Schema.of(line=Kind.STRING), per_second=2))
    assert {"line": rows[0], "_rest": None} == first[2]
