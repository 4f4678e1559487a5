"""The usage of places: a tenant fills its own part of a disk, and no more."""

from pathlib import Path

import pytest

from dags import Kind
from engine.implementations.outside import file_stores
from engine.implementations.outside.file_stores import LocalFileStore, PlaceUsage
from engine.outside import FILES
from engine.side_effect import OutsideUnreachable
from tests.tasks.worksite import OWNER, Worksite


class Now:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.at


@pytest.mark.parametrize(("most_bytes", "most_files"), [(10, 100), (100, 2)])
def test_a_tenant_s_places_have_a_bound(tmp_path: Path, most_bytes: int, most_files: int) -> None:
    """In bytes and files, over all its places, also those from before; once some are removed there is room again."""
    clock = Now()
    (tmp_path / "before").write_bytes(b"12345")

    def store(place: str) -> LocalFileStore:
        return LocalFileStore(tmp_path / place, usage)

    usage = PlaceUsage(tmp_path, most_bytes=most_bytes, most_files=most_files, clock=clock)
    store("one").put("a", b"12345")
    with pytest.raises(OutsideUnreachable, match=r"hold 2 files with 10 bytes, .*; have an operator remove some"):
        store("two").put("b", b"1")
    assert not (tmp_path / "two" / "b").exists()
    (tmp_path / "before").unlink()
    with pytest.raises(OutsideUnreachable):
        store("two").put("b", b"1")
    clock.at += 3_600.0
    store("two").put("b", b"1")


def test_what_has_no_room_is_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events for files and rows become dead letters that say why."""
    folder = tmp_path / FILES / OWNER
    folder.mkdir(parents=True)
    (folder / "before").write_bytes(b"12345")
    monkeypatch.setattr(file_stores, "_KNOWN", {folder: PlaceUsage(folder, most_bytes=4)})
    sink = Worksite(tmp_path, "file_sink", {"n": Kind.INTEGER}, to={"place": "own/readings"})
    insert = Worksite(tmp_path, "table_insert", {"n": Kind.INTEGER}, database={"place": "db"}, table="t", fields=["n"])
    parked = [*sink.parked([{"n": 1}]), *insert.parked([{"n": 1}])]
    assert [True, True] == ["and may hold 1,000,000 with 4" in reason for reason in parked]
