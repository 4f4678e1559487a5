"""Files: blobs, archives and sinks are written whole, once, and only where their tenant may write."""

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dags import Catalogue, InvalidDocument, Kind, Schema, Secret, Source
from dags.canonical import canonicalise
from engine.behaviour import Unwatched
from engine.implementations.outside.file_stores import (
    LocalFileStore,
    Missing,
    OpenedFolder,
    PlaceUsage,
    RemoteFileStore,
    guarded,
)
from engine.implementations.outside.files import zip_files
from engine.plan import Port
from engine.side_effect import OutsideUnreachable
from engine.tasks import TYPES
from engine.trial import At
from tests.notation import document
from tests.tasks.agreeing import agrees
from tests.tasks.worksite import OWNER, Worksite, keep_secret

BLOBS = {"name": Kind.STRING, "text": Kind.STRING}
HERE = {"place": "own"}


def own(root: Path) -> Path:
    return root / "files" / OWNER / "own"


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "tmp"
    }


def test_a_blob_is_named_by_its_content_or_by_a_field(tmp_path: Path) -> None:
    """The receipt is its name. Equal contents are one blob, and for a name the last content counts."""
    events = [{"name": f"{at % 2}/x.svg", "text": text} for at, text in enumerate(("warm", "cold", "warm"))]
    by_content = Worksite(tmp_path, "blob_upload", BLOBS, to=HERE, field="text", suffix=".svg")
    by_content.arrive(events)
    by_content.die()
    receipts = [each["receipt"] for each in by_content.run()]
    assert [receipts[0], receipts[1], receipts[0]] == receipts
    assert {receipts[0]: b"warm", receipts[1]: b"cold"} == files_in(own(tmp_path))
    assert all(name.endswith(".svg") and len(name) == 68 for name in receipts)
    by_name = Worksite(tmp_path, "blob_upload", BLOBS, to={"place": "own/named"}, field="text", name="name")
    assert ["0/x.svg", "1/x.svg", "0/x.svg"] == [each["receipt"] for each in by_name.run(events)]
    assert {"0/x.svg": b"warm", "1/x.svg": b"cold"} == files_in(own(tmp_path) / "named")


def test_a_blob_is_read_by_the_name_in_its_receipt(tmp_path: Path) -> None:
    """As text or in base64, byte for byte. Missing, too large and binary ones are refused."""
    raw = bytes(range(256))
    upload = Worksite(tmp_path, "blob_upload", BLOBS, to=HERE, field="text", encoding="base64", name="name")
    upload.run([{"name": "a.bin", "text": base64.b64encode(raw).decode()}, {"name": "b", "text": "d2FybQ=="}])
    names = {"receipt": Kind.STRING}
    binary = Worksite(tmp_path, "blob_download", names, of=HERE, encoding="base64", most_bytes=256)
    assert [raw] == [base64.b64decode(each["content"]) for each in binary.run([{"receipt": "a.bin"}])]
    text = Worksite(tmp_path, "blob_download", names, of=HERE, into="receipt", most_bytes=4)
    assert [{"receipt": "warm", "_rest": None}] == text.run([{"receipt": "b"}])
    wanted = ["a.bin", "c", "b", None, "../b"]
    reasons = text.parked([{"receipt": each} for each in wanted])
    assert [
        "the file 'a.bin' has more than 4 bytes; raise `most_bytes`",
        "there is no file 'c'",
        "the field 'receipt' is null; it needs a value",
    ] == [reason.split(": ", 1)[1].split(",")[0] for reason in reasons[:3]]
    assert "the field 'receipt' is not the name of a file: '../b'" in reasons[3]
    assert 4 == len(reasons)
    plain = Worksite(tmp_path, "blob_download", names, of=HERE)
    (reason,) = plain.parked([{"receipt": "a.bin"}])
    assert "'a.bin' is not a text in UTF-8; read it with encoding base64" in reason


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "..", "../x", "a/../x", "a//x", "a/", ".x", "a/.x", "a\\x", "a\nx", "tmp/a", "x" * 301]
)
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is written."""
    site = Worksite(tmp_path, "blob_upload", BLOBS, to=HERE, field="text", name="name")
    (reason,) = site.parked([{"name": name, "text": "warm"}])
    assert reason.startswith("ValueError: the field 'name' is not the name of a file: ")
    assert {} == files_in(tmp_path / "files")


@pytest.mark.parametrize(
    ("to", "place", "message"),
    [
        ({"place": "../x"}, "/place", "the text contains characters that are not allowed here"),
        ({"place": 1}, "/place", "the value should be a string"),
        ({"secret": 1}, "/secret", "the value should be a string"),
        ({"place": "x", "mode": "a"}, "/mode", "unknown field 'mode'"),
        ({"folder": "x"}, "", "the value should be an object with the field 'secret' or the field 'place'"),
        ("x", "", "the value should be an object with the field 'secret' or the field 'place'"),
    ],
)
def test_a_place_or_secret_that_is_wrong_is_one_problem(to: Any, place: str, message: str) -> None:
    """That of what was meant, a place or a secret, and not of the other too."""
    form = document("s:source > t:file_sink")
    form["tasks"][0]["config"] = {"source": "city"}
    form["tasks"][1]["config"] = {"to": to}
    sources = {"city": Source(name="city", owner="ann", schema=Schema.of({}))}
    with pytest.raises(InvalidDocument) as refused:
        canonicalise(json.dumps(form), dataflow="d", tenant="ann", catalogue=Catalogue.of(TYPES), sources=sources)
    (problem,) = refused.value.problems
    assert (f"/tasks/1/config/to{place}", message) == (problem.pointer, problem.message)


@pytest.mark.parametrize(
    "url",
    ["own", "/etc", "file:///etc", "local:///etc", "memory://x", "simplecache::s3://x/y"],
)
def test_a_secret_leads_to_no_file_of_the_host(tmp_path: Path, url: str) -> None:
    """For any URL, which is not shown."""
    site = Worksite(tmp_path, "blob_upload", BLOBS, to=keep_secret(tmp_path, "lake", url), field="text")
    (reason,) = site.parked([{"text": "warm"}])
    assert "the secret 'lake' is not the URL of a bucket or folder; begin it with one of abfs://, " in reason
    assert url not in reason


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (
            "s3://sesame/x",
            "has no credentials; make it a JSON object with 'url' and 'key' and 'secret' or 'anon'",
        ),
        (
            {"url": "s3://sesame", "profile": "default"},
            "has the option 'profile', which tenants may not use; remove it",
        ),
        ({"url": "s3://sesame", "anon": False}, "has an 'anon' that is not true; remove it, and give credentials"),
        ({"url": "gs://sesame", "token": "google_default"}, "has a 'token' that is not a JSON object; put the service"),
        ("sftp://sesame.example/x", "has no user and password in its URL; put them there"),
        ("sftp://me:sesame/1@files.example/x", "has no user and password in its URL; put them there, with / ? # in"),
        ("sftp://me:[sesame@files.example/x", "has a URL that cannot be read; write characters such as [ in it as %5B"),
        ({"url": "s3://x::file:///sesame", "anon": True}, "has a space or `::` in the host or path of its URL"),
        ("{sesame", "is neither a URL nor JSON"),
        ({"key": "sesame"}, "is not the URL of a bucket or folder"),
    ],
)
def test_a_secret_brings_its_own_credentials(tmp_path: Path, secret: Any, why: str) -> None:
    """Those of the host, which a file system would find, are its operator's."""
    text = secret if isinstance(secret, str) else json.dumps(secret)
    site = Worksite(tmp_path, "blob_upload", BLOBS, to=keep_secret(tmp_path, "lake", text), field="text")
    (reason,) = site.parked([{"text": "warm"}])
    assert f"the secret 'lake' {why}" in reason
    assert "sesame" not in reason


@pytest.mark.parametrize("renames", [False, True])
def test_a_remote_store_is_like_a_local_one(tmp_path: Path, *, renames: bool) -> None:
    """It replaces files, limits their size and reports missing ones. Errors do not show the URL."""
    system = fsspec.filesystem("memory")
    guard = partial(guarded, Secret(secret="lake"), ())  # noqa: S106 - a name
    folder = OpenedFolder(system=system, path=f"memory://{tmp_path.name}-{renames}/", renames=renames, hosts=())
    remote = RemoteFileStore(folder, "lake", guard)
    for shelf in (LocalFileStore(tmp_path, PlaceUsage(tmp_path)), remote):
        for content in (b"cold", b"warm"):
            shelf.put("a/b.txt", content)
        assert b"warm" == shelf.read("a/b.txt", 4)
        with pytest.raises(ValueError, match="more than 3 bytes"):
            shelf.read("a/b.txt", 3)
        with pytest.raises(Missing, match="there is no file 'a/c'"):
            shelf.read("a/c", 4)
    assert ["b.txt"] == [path.rpartition("/")[2] for path in system.find(f"{tmp_path.name}-{renames}")]
    broken = RemoteFileStore(replace(folder, system=object(), path="sesame"), "lake", guard)
    with pytest.raises(OutsideUnreachable) as error:
        broken.put("a", b"")
    assert "lake cannot be written: AttributeError" == str(error.value)


def zipped(events: Iterator[dict[str, Any]]) -> Iterator[At]:
    """Three files at a time, by the definition."""
    files: list[dict[str, Any]] = []
    for event in events:
        files.append(event)
        if len(files) == 3:
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
                for at, each in enumerate(files):
                    twice = each["name"] in [other["name"] for other in files[:at]]
                    name = f"{at}-{each['name']}" if twice else each["name"]
                    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                    archive.writestr(info, each["text"], zipfile.ZIP_DEFLATED)
            yield "out", {"archive": base64.b64encode(content.getvalue()).decode(), "files": 3}
            files = []


@settings(max_examples=20)
@given(st.lists(st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c/d"]), "text": st.text()}), max_size=12))
def test_files_are_zipped_in_blocks(files: list[dict[str, str]]) -> None:
    """For any batches. An event without content or with a bad name is parked."""
    poisonous: list[dict[str, Any]] = [
        {"name": "a", "text": None},
        {"name": None, "text": "x"},
        {"name": "../a", "text": "x"},
    ]
    config = {"field": "text", "name": "name", "files": 3}
    agrees(zip_files, config, files, zipped, Schema.of(BLOBS), poisonous=poisonous)


class Alone(Unwatched):
    def alone(self, instance: int) -> bool:
        return instance == 2


@settings(max_examples=10)
@given(data=st.data())
def test_a_file_sink_writes_each_event_once_even_if_batches_are_repeated(data: st.DataObject) -> None:
    """One file per batch, named by its receipt, as JSON lines or Parquet."""
    kind = data.draw(st.sampled_from(["jsonl", "parquet"]))
    with TemporaryDirectory() as folder:
        root = Path(folder)
        site = Worksite(root, "file_sink", {"n": Kind.INTEGER}, to=HERE, format=kind)
        count = 0
        receipts: list[dict[str, Any]] = []
        for size in data.draw(st.lists(st.integers(0, 4), max_size=4), label="batches"):
            site.arrive([{"n": count + n} for n in range(size)])
            count += size
            for alone in data.draw(st.lists(st.booleans(), max_size=2), label="deaths"):
                site.die(Alone() if alone else Unwatched())
                site.made = site.behaviours()
            alone = data.draw(st.booleans(), label="the last time, event by event")
            receipts += site.run(watch=Alone() if alone else Unwatched())
        found = files_in(own(root)) if count else {}
        assert {each["file"] for each in receipts} == set(found)
        assert count == sum(each["events"] for each in receipts)
        assert list(range(count)) == [n for _, content in sorted(found.items()) for n in _numbers(kind, content)]


def _numbers(kind: str, content: bytes) -> list[int]:
    if kind == "jsonl":
        return [json.loads(line)["n"] for line in content.splitlines()]
    numbers: list[int] = pyarrow.parquet.read_table(io.BytesIO(content)).column("n").to_pylist()
    return numbers


def test_a_file_sink_that_cannot_write_parks_all_at_once(tmp_path: Path) -> None:
    """With the disk's reason, without the path."""
    own(tmp_path).parent.mkdir(parents=True)
    own(tmp_path).write_text("in the way")
    site = Worksite(tmp_path, "file_sink", {"n": Kind.INTEGER}, to=HERE)
    reasons = site.parked([{"n": 1}, {"n": 2}])
    assert 2 == len(reasons)
    assert all("cannot be written" in reason and str(tmp_path) not in reason for reason in reasons)


def test_a_null_sink_takes_everything(tmp_path: Path) -> None:
    """And emits nothing."""
    record = Worksite(tmp_path, "null_sink", {"n": Kind.INTEGER}).batch([{"n": 1}])
    assert ((), (), 1) == (record.emitted, record.dead, record.meters[2].taken)


def test_messages_leave_in_the_record_with_their_numbers(tmp_path: Path) -> None:
    """Events pass on with receipts. A repeated batch gives the same numbers."""
    site = Worksite(tmp_path, "mqtt_publish", {"n": Kind.INTEGER}, topic="city/models")
    site.run([{"n": 1}])
    site.arrive([{"n": 2}, {"n": 3}])
    emitted = [
        {
            each.origin.port: (each.first, each.events.to_pylist() if each.events is not None else None)
            for each in record.emitted
        }
        for record in (site.die(), site.batch())
    ]
    messages = [{"topic": "city/models", "event": f'{{"n":{n}}}'} for n in (2, 3)]
    assert (1, messages) == emitted[0]["*messages"]
    assert emitted[0] == emitted[1]
    receipts = [(n, f"city/models#s:{n - 1}.0") for n in (2, 3)]
    assert receipts == [(each["n"], each["receipt"]) for each in emitted[1]["out"][1] or ()]


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("braid/1/jobs/1/plan", "'braid/1/jobs/1/plan' is not a topic for raw events"),
        ("$SYS/x", "'$SYS/x' is not a topic for raw events"),
        ("a/#", "'a/#' has wildcards; publish on one topic that they match"),
        ("+/a", "the topic '+/a' begins with a wildcard"),
    ],
)
def test_nothing_is_published_on_topics_of_others(tmp_path: Path, topic: str, why: str) -> None:
    """Neither on Braid's own nor on the broker's, nor on many at once."""
    site = Worksite(tmp_path, "mqtt_publish", {"n": Kind.INTEGER}, topic=topic)
    (reason,) = site.parked([{"n": 1}])
    assert why in reason
    assert Port(2, "*messages") not in {each.origin for each in site.batch([{"n": 2}]).emitted}
