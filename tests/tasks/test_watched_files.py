"""Sources of files: each file is taken once, whole, and no event of it is lost or doubled, wherever a host dies."""

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.connectors.connector_run import ClientAssignment, ConnectorRun, ConnectorTrouble, TakenEvents
from bridge.formats.decoders import decoder
from bridge.raw_events import Unfit
from bridge.spools.deliveries import NOTHING_IN_DOUBT
from bridge.spools.log import Item, items_in, unpacked
from bridge.spools.spool import Spool
from dags import Kind, Schema
from dags.connectors import FilesConnector
from dags.message_formats import JSON
from engine.implementations.outside import watched_files
from engine.implementations.outside.file_list import FileList, FileListDamaged, ListedFile
from engine.implementations.outside.file_stores import StoredContent
from engine.implementations.outside.watched_files import WatchedFiles
from engine.outside import HostOutside, Vault
from engine.side_effect import OutsideUnreachable
from tests.s3 import serving_s3
from tests.tasks.worksite import OWNER, Worksite
from tests.twins.memory_clock import MemoryClock

SCHEMA = Schema.of(n=Kind.INTEGER, t=Kind.FLOAT)
HERE = {"place": "inbox"}
MOST = 100_000_000


class Crash(BaseException):
    """The death of a host, at some step."""


class Bench:
    """A source of files in a root, and its spool; its host may die and start again."""

    def __init__(self, root: Path, folder: Mapping[str, str] = HERE, schema: Schema = SCHEMA, **more: Any) -> None:
        self.root = root
        self.folder = root / "files" / OWNER / "inbox"
        self._outside = HostOutside(root)
        form = {"kind": "files", "folder": {**folder, "owner": OWNER}, "every": 1.0, **more}
        self._connector = FilesConnector.model_validate(form, context={"outside": self._outside})
        self.schema = schema
        self.now = 0.0
        self.rejected: list[Unfit] = []
        self._client: WatchedFiles | None = None
        self.spool = self._opened()

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _opened(self) -> Spool:
        return Spool(self.root / "spools" / "source", most_bytes=MOST)

    def client(self, step: Callable[[str], None] = lambda _name: None) -> WatchedFiles:
        """The client of a host that has just started."""
        positions = {
            name.removeprefix("at/"): known.next or 0
            for name, known in self.spool.producers.items()
            if name.startswith("at/")
        }
        assignment = ClientAssignment(
            stream="source/1",
            schema=self.schema,
            decode=decoder(JSON, self.schema),
            positions=positions,
            in_doubt=NOTHING_IN_DOUBT,
            outside=self._outside,
            folder=self.spool.folder,
        )
        return WatchedFiles(self._connector, assignment, clock=lambda: self.now, sleep=self._pass, step=step)

    def _pass(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)

    def die(self) -> None:
        """Begin anew, from what is on the disk."""
        self._client = None
        self.spool.close()
        self.spool = self._opened()

    def work(self, *, steps: int = 10_000, until: float = 3.0) -> None:
        """Take what comes for some seconds, and at most so often."""
        client = self._client = self._client or self.client()
        run = ConnectorRun(lambda *_: client, self.spool, on_unfit=self.rejected.append, clock=MemoryClock())
        end = self.now + until
        while self.now < end and steps > 0:
            arrived = client.take(1.0)
            self._pass(0.01)
            steps -= 1
            if arrived is not None:
                run._append(arrived)

    def events(self) -> list[dict[str, Any]]:
        """The events in the spool."""
        files = self.spool._files
        return [row for file in files for placed in items_in(file) for row in unpacked(placed.item.payload).to_pylist()]

    def taken(self) -> list[Item]:
        """Take all that is there; returns the items in the spool."""
        self.work()
        return [placed.item for file in self.spool._files for placed in items_in(file)]

    def numbers(self) -> list[int]:
        return [event["n"] for event in self.events()]

    @property
    def reasons(self) -> list[str]:
        return [unfit.reason for unfit in self.rejected]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def lines(numbers: Sequence[int]) -> str:
    return "".join(f'{{"n": {number}}}\n' for number in numbers)


def as_parquet(rows: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
    content = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(list(rows)), content, **more)
    return content.getvalue()


def as_avro(rows: Sequence[Mapping[str, Any]], codec: str = "deflate") -> bytes:
    fields = [{"name": "n", "type": "long"}, {"name": "t", "type": ["null", "double"]}, {"name": "x", "type": "string"}]
    content = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "reading", "fields": fields})
    fastavro.writer(content, schema, rows, codec=codec, sync_interval=200)
    return content.getvalue()


ROWS = [{"n": number, "t": number / 2 if number % 3 else None, "x": f"é{number}"} for number in range(50)]
CSV = "n,t,x\n" + "".join(f"{row['n']},{'' if row['t'] is None else row['t']},{row['x']}\n" for row in ROWS)
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)
CONTENTS: Mapping[str, bytes] = {
    "a.csv": CSV.encode(),
    "a.csv.gz": gzip.compress(b"\xef\xbb\xbf" + CSV.encode()),
    "a.jsonl": JSONL.encode(),
    "a.ndjson": b"\xef\xbb\xbf" + JSONL.rstrip().encode(),
    "a.jsonl.gz": gzip.compress(JSONL.encode()),
    "a.json": json.dumps(ROWS).encode(),
    "a.parquet": as_parquet(ROWS, row_group_size=20),
    "a.avro": as_avro(ROWS),
    "A.AVRO": as_avro(ROWS, "null"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_files_of_each_format_are_read_by_the_schema(bench: Bench, name: str) -> None:
    """Declared fields have their kinds, whatever the file has; all else stays together."""
    bench.put(name, CONTENTS[name])
    bench.work()
    wanted = [
        {"n": row["n"], "t": row["t"], "_rest": json.dumps({"x": row["x"]}, ensure_ascii=False, separators=(",", ":"))}
        for row in ROWS
    ]
    assert (wanted, []) == (bench.events(), bench.rejected)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_host_that_dies_in_a_file_goes_on_at_the_next_row(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each take, in a file that is taken in many."""
    monkeypatch.setattr(watched_files, "_MOST_ROWS", 1)
    monkeypatch.setattr("bridge.formats.file_pieces._BLOCK", 60)
    monkeypatch.setattr("bridge.formats.file_pieces._ROWS", 7)
    bench = Bench(tmp_path)
    bench.put(name, CONTENTS[name])
    bench.put("z.jsonl", lines([77]))
    for _ in range(120):
        bench.work(steps=3, until=3)
        # What is taken and not appended counts for nothing.
        bench.client().take(1.0)
        bench.die()
    assert ([*range(50), 77], []) == (bench.numbers(), bench.rejected)


def test_what_does_not_fit_is_rejected_and_the_rest_taken(bench: Bench) -> None:
    """Values of another kind, lines that are no events, and files that are not what their names say."""
    bench.put("1.csv", "n,t\n1,x\n2,1\n3\n")
    bench.put("2.parquet", as_parquet([{"n": "4", "t": "x"}, {"n": "5", "t": "1"}]))
    bench.put("3.jsonl", '{"n": 6}\nnothing\n{"n": "x"}\n{"n": 7}\n')
    bench.put("4.parquet", b"no Parquet")
    bench.put("5.csv.gz", b"no gzip")
    bench.put("6.avro", as_avro(ROWS)[:300])
    bench.put("7.json", "[")
    bench.put("8.csv", "a,a\n1,2\n")
    bench.put("9.parquet", as_parquet([{"n": 8}]))
    bench.put("x.txt", "left out")
    bench.work()
    assert [2, 5, 6, 7, *bench.numbers()[4:-1], 8] == bench.numbers()
    names = ["1.csv", "1.csv", "2.parquet", "3.jsonl", "3.jsonl", "7.json"]
    assert [*names, "4.parquet", "5.csv.gz", "6.avro", "8.csv"] == [
        reason.partition(":")[0] for reason in bench.reasons
    ]


def test_parquet_of_any_type_is_read(bench: Bench) -> None:
    """Nested columns, maps, times, decimals, and what is compressed as a dictionary, with any number of rows."""
    rows = [
        {
            "n": number,
            "m": [("k", "v" * (number % 5))],
            "l": [["a"], []][number % 2],
            "s": {"u": "x", "w": [number]},
            "d": Decimal("1.50"),
            "w": datetime(2026, 3, 1, tzinfo=UTC),
            "b": b"\x00",
        }
        for number in range(3_000)
    ]
    kinds = pa.Table.from_pylist(rows).schema
    columns = pa.schema([*(field for field in kinds if field.name != "m"), ("m", pa.map_(pa.string(), pa.string()))])
    content = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(rows, columns), content, compression="zstd")
    bench.put("a.parquet", content.getvalue())
    bench.work()
    assert (list(range(3_000)), []) == (bench.numbers(), bench.rejected)
    assert {"l": ["a"], "s": {"u": "x", "w": [2]}} == {
        name: value for name, value in json.loads(bench.events()[2]["_rest"]).items() if name in {"l", "s"}
    }


def test_a_small_file_cannot_become_large(bench: Bench) -> None:
    """A text that is written once and stands in many rows is measured before it is in all of them."""
    text, long = "x" * 1_000_000, "y" * 5_000_000
    bench.put("a.parquet", as_parquet([{"n": number, "x": text} for number in range(50)]))
    bench.put("b.parquet", as_parquet([{"n": 1_000, "x": long}, {"n": 1_001, "x": "y"}]))
    bench.put("c.parquet", as_parquet([{"n": 1_002, "x": [text] * 5}]))
    sizes = [len(piece.payload) for piece in bench.taken()]
    assert ([*range(50), 1_001], True) == (sorted(bench.numbers()), max(sizes) < 3_000_000)
    assert ["the event has", "the event has"] == [reason.partition(": ")[2][:13] for reason in bench.reasons]


def test_an_empty_file_has_no_events(bench: Bench) -> None:
    """Of any format that can be empty; a file with a header alone too."""
    for name in ("a.csv", "b.jsonl", "c.json"):
        bench.put(name, "")
    bench.put("d.csv", "n,t\n")
    bench.put("e.parquet", as_parquet([{"n": 1}]))
    bench.work()
    assert ([1], []) == (bench.numbers(), bench.rejected)


def test_a_file_is_taken_once_two_looks_found_it_the_same(tmp_path: Path) -> None:
    """One that grows waits, and does not hold up others; names that say so are left out."""
    bench = Bench(tmp_path, every=5.0)
    bench.put("grows.jsonl", lines([1]))
    bench.put("done.jsonl", lines([9]))
    for name in (
        "a.jsonl.tmp",
        "a.jsonl.part",
        ".a.jsonl",
        "_a.jsonl",
        "tmp/a.jsonl",
        "_temporary/a.jsonl",
        ".x/a.jsonl",
    ):
        bench.put(name, lines([99]))
    bench.folder.joinpath("link.jsonl").symlink_to(bench.folder / "done.jsonl")
    for number in range(2, 5):
        bench.put("grows.jsonl", lines(range(1, number)))
        bench.work(until=3.5)
    assert [9] == bench.numbers()
    bench.work(until=11.0)
    assert ([9, 1, 2, 3], []) == (bench.numbers(), bench.rejected)


def test_files_are_taken_in_the_order_in_which_they_were_changed(bench: Bench) -> None:
    """Those of one look; one that comes later with an earlier time and name comes later, but comes."""
    for name, changed in (("b", 1), ("a", 2), ("d", 2)):
        os.utime(bench.put(f"{name}.jsonl", lines([ord(name)])), (changed, changed))
    bench.work()
    os.utime(bench.put("0.jsonl", lines([0])), (0, 0))
    bench.work()
    assert [ord("b"), ord("a"), ord("d"), 0] == bench.numbers()


def test_a_pattern_is_the_end_of_a_path(tmp_path: Path) -> None:
    """Level by level; with a format, endings count no more."""
    bench = Bench(tmp_path, pattern="in/*.data", format={"kind": "csv", "separator": ";", "columns": ["n", "t"]})
    for name in ("in/a.data", "x/in/b.data", "in/x/c.data", "d.data", "in/e.csv"):
        bench.put(name, f"{ord(name[-6])};1\n")
    bench.work()
    assert [ord("a"), ord("b")] == sorted(bench.numbers())


def test_a_file_that_changed_is_not_read_again(bench: Bench) -> None:
    """It is said once for each change. One that vanished and came back is not read again either."""
    bench.put("a.jsonl", lines([1]))
    bench.work()
    bench.put("a.jsonl", lines([1, 2]))
    bench.work()
    bench.work()
    assert (
        [1],
        ["a.jsonl: it changed after it was taken, and is not read again; write what is new to another file"],
    ) == (bench.numbers(), bench.reasons)
    (bench.folder / "a.jsonl").unlink()
    bench.work()
    bench.die()
    bench.put("a.jsonl", lines([1, 2, 3]))
    bench.work()
    assert [1] == bench.numbers()


def test_a_file_that_changes_or_goes_in_the_middle_is_left_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rows that were taken, as its owner is told."""
    monkeypatch.setattr(watched_files, "_MOST_ROWS", 1)
    monkeypatch.setattr("bridge.formats.file_pieces._BLOCK", 60)
    for name in ("a.jsonl", "b.jsonl"):
        bench.put(name, lines(range(100)))
        os.utime(bench.folder / name, (ord(name[0]), ord(name[0])))
    bench.put("c.jsonl", lines([1_000]))
    bench.work(steps=4)
    bench.die()
    bench.put("a.jsonl", lines(range(100)))
    bench.work(steps=3)
    (bench.folder / "b.jsonl").unlink()
    bench.die()
    bench.work(steps=1_000)
    numbers = bench.numbers()
    first = numbers.index(0, 1)
    assert [*range(first), *range(len(numbers) - 1 - first), 1_000] == numbers
    assert (first < 100, len(numbers) - first < 100) == (True, True)
    assert [
        f"a.jsonl: it has changed while it was taken, and is not read on; its first {first:,} rows were taken",
        # A host that has just started does not know that it was reported.
        "a.jsonl: it changed after it was taken, and is not read again; write what is new to another file",
        f"b.jsonl: it is gone; its first {len(numbers) - 1 - first:,} rows were taken",
    ] == bench.reasons


def test_a_file_that_is_gone_before_it_is_taken_is_taken_if_it_comes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may have been away. Whenever the host dies, it is taken once."""
    monkeypatch.setattr(watched_files, "_MOST_ROWS", 1)
    for number in range(5):
        os.utime(bench.put(f"{number}.jsonl", lines([number])), (number, number))
    bench.work(steps=4)
    assert 0 < len(bench.numbers()) < 5
    away = bench.root / "away"
    for dies in (True, False, True):
        bench.folder.rename(away)
        bench.work(steps=3, until=1.0)
        if dies:
            bench.client().take(1.0)
            bench.die()
        away.rename(bench.folder)
        bench.client().take(1.0)
        if dies:
            bench.die()
    bench.work(until=10.0)
    bench.die()
    bench.work(until=5.0)
    assert ([*range(5)], {"it is gone"}) == (bench.numbers(), {reason.partition(": ")[2] for reason in bench.reasons})


def test_many_files_take_no_room_in_the_spool(bench: Bench) -> None:
    """Ten thousand are taken once, some at a time, and the newest file of the log does not name them."""
    for number in range(10_000):
        bench.put(f"{number}.jsonl", lines([number]))
    for _ in range(3):
        bench.work(until=4.0)
        bench.die()
    bench.work(until=3.0)
    assert list(range(10_000)) == sorted(bench.numbers())
    assert {"connector": None, "at/file": 10_000, "at/row": 0, "at/version": 0} == {
        name: known.next for name, known in bench.spool.producers.items()
    }
    assert 10 == len([path for path in (bench.spool.folder / "files").iterdir() if path.is_file()])


def test_whoever_reads_first_takes_all_and_again_once_it_was_forgotten(bench: Bench) -> None:
    """Positions come before any event; without positions an older list does not count."""
    bench.put("a.jsonl", lines([1]))
    first = bench.client().take(1.0)
    assert first is not None
    assert (0, {"file": 0, "row": 0, "version": 0}) == (len(first.events), first.positions)
    bench.work()
    bench.spool.append([], dict.fromkeys(bench.spool.producers))
    bench.die()
    bench.work()
    assert [1, 1] == bench.numbers()


def test_a_list_shorter_than_the_positions_is_trouble(bench: Bench) -> None:
    """Nothing is taken twice or passed over."""
    bench.put("a.jsonl", lines([1]))
    bench.work()
    for path in (bench.spool.folder / "files").iterdir():
        if path.is_file():
            path.unlink()
    bench.die()
    with pytest.raises(ConnectorTrouble, match="has 0 names, and 1 were taken; restore it"):
        bench.client()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2_500), max_size=6), st.integers(0, 60))
def test_a_list_survives_a_crash_at_any_step(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], at: int
) -> None:
    """It has all that was appended, in order, and perhaps what was being appended."""
    folder, left = tmp_path_factory.mktemp("list"), at

    def step(_name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash

    durable = 0
    total = 0
    try:
        files = FileList(folder, step)
        for count in counts:
            more = [ListedFile(f"f{number}", number) for number in range(total, total + count)]
            total += count
            files.append(more)
            durable = total
    except Crash:
        pass
    again = FileList(folder)
    assert durable <= len(again) <= total
    assert [ListedFile(f"f{number}", number) for number in range(len(again))] == [again[at] for at in range(len(again))]
    again.append([ListedFile("more", 1)])
    assert len(again) == len(FileList(folder)) == (again.number("more") or 0) + 1


def test_a_damaged_list_is_named(tmp_path: Path) -> None:
    """So that it can be restored."""
    FileList(tmp_path).append([ListedFile("a", 1), ListedFile("b", 1)])
    (path,) = (path for path in tmp_path.iterdir() if path.is_file())
    path.write_text('[["a", 1]]')
    with pytest.raises(FileListDamaged, match="restore it"):
        FileList(tmp_path)
    path.write_text("?")
    with pytest.raises(FileListDamaged, match="restore it"):
        FileList(tmp_path)


def test_a_folder_that_is_not_there_yet_is_empty(bench: Bench) -> None:
    """A task may make it."""
    bench.work()
    bench.put("a.jsonl", lines([1]))
    bench.work()
    assert [1] == bench.numbers()


def test_a_folder_that_cannot_be_reached_is_trouble(tmp_path: Path) -> None:
    """A missing secret, and an address that tasks may not reach; neither message has the secret."""
    with pytest.raises(Exception, match="has no secret 'bucket'"):
        Bench(tmp_path, {"secret": "bucket"})
    Vault(tmp_path).put(OWNER, "bucket", "ftp://ann:pass@127.0.0.1:1/in")
    with pytest.raises(ConnectorTrouble, match="cannot be used: its host is not on the internet") as trouble:
        Bench(tmp_path, {"secret": "bucket"}).client()
    assert "pass" not in str(trouble.value)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_failure_to_read_is_trouble_and_then_all_is_read(
    bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever library reads the file: it says nothing about what is in it."""
    read, failing = StoredContent.readinto, True

    def fail(self: StoredContent, into: Any) -> int:
        if failing:
            raise OutsideUnreachable("it cannot be read: no answer")
        return read(self, into)

    bench.put(name, CONTENTS[name])
    monkeypatch.setattr(StoredContent, "readinto", fail)
    with pytest.raises(ConnectorTrouble, match="no answer"):
        bench.work()
    failing = False
    bench.die()
    bench.work()
    assert (list(range(50)), []) == (bench.numbers(), bench.rejected)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bench]:
    """A bucket, and a source of a folder in it."""
    with serving_s3() as url:
        endpoint = os.environ["AWS_ENDPOINT_URL"]
        secret = {"url": url, "key": "a", "secret": "b", "endpoint_url": endpoint}
        Vault(tmp_path).put(OWNER, "bucket", json.dumps(secret))
        (tmp_path / "reachable").write_text("127.0.0.1\n")
        yield Bench(tmp_path, {"secret": "bucket"})


def test_a_bucket_is_watched_as_a_folder_is(bucket: Bench) -> None:
    """Each object once, also after the host died; one that was replaced is reported."""
    import s3fs  # noqa: PLC0415 - its settings are those of the fixture

    system = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    there = json.loads(Vault(bucket.root).reveal(OWNER, "bucket"))["url"]
    for name, content in {**CONTENTS, "in/b.jsonl": lines([88]).encode()}.items():
        system.pipe_file(f"{there}/{name}", content)
    bucket.work()
    bucket.die()
    system.pipe_file(f"{there}/c.jsonl", lines([99]).encode())
    bucket.work()
    assert sorted([*list(range(50)) * len(CONTENTS), 88, 99]) == sorted(bucket.numbers())
    assert [] == bucket.rejected
    system.pipe_file(f"{there}/c.jsonl", lines([99, 100]).encode())
    bucket.work()
    assert ["c.jsonl"] == [unfit.event for unfit in bucket.rejected]
    system.rm(there, recursive=True)
    bucket.work()


def test_an_address_that_is_allowed_no_more_is_trouble_and_then_read_on(bucket: Bench) -> None:
    """Nothing is passed over meanwhile."""
    import s3fs  # noqa: PLC0415 - as above

    system = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    there = json.loads(Vault(bucket.root).reveal(OWNER, "bucket"))["url"]
    system.pipe_file(f"{there}/a.jsonl", lines(range(3)).encode())
    bucket.work(until=0.5)
    (bucket.root / "reachable").write_text("")
    with pytest.raises(ConnectorTrouble, match="bucket cannot be listed: its host is not on the internet"):
        bucket.work()
    bucket.die()
    (bucket.root / "reachable").write_text("127.0.0.1\n")
    bucket.work()
    assert ([0, 1, 2], []) == (bucket.numbers(), bucket.rejected)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_tasks_have_written_can_be_read(bench: Bench, form: str) -> None:
    """The files of sinks, and blobs."""
    fields = {"n": Kind.INTEGER, "text": Kind.STRING}
    Worksite(bench.root, "file_sink", fields, to=HERE, format=form).run(
        [{"n": number, "text": "é"} for number in range(5)]
    )
    blob = {"n": 0, "text": lines([7])}
    Worksite(bench.root, "blob_upload", fields, to=HERE, field="text", suffix=".jsonl").run([blob])
    bench.work()
    assert ([*range(5), 7], []) == (sorted(bench.numbers()), bench.rejected)


def test_texts_of_fields_that_only_some_read_get_their_kinds(bench: Bench) -> None:
    """A field of CSV that the stream does not declare is of the kind that some reader expects."""
    bench.put("a.csv", "n,u\n1,2.5\n")
    client = bench.client()
    client._assignment = ClientAssignment(
        **{
            **{name: getattr(client._assignment, name) for name in ClientAssignment.__slots__},
            "kinds": {"u": Kind.FLOAT},
        }
    )
    arrived: list[TakenEvents] = [one for _ in range(5) if (one := client.take(1.0)) is not None]
    assert [{"n": 1, "t": None, "_rest": '{"u":2.5}'}] == arrived[-1].events.to_pylist()
