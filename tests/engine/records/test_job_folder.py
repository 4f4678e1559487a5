"""The folder of a job: its log of plans, runs, cuts, stop mark and lost positions."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.plan import Entry, Plan
from engine.records.files import RecordDamaged
from engine.records.job_folder import JobFolder, KeptCut, job_folder, spool_folder


def made(path: Path) -> JobFolder:
    folder = JobFolder(path)
    folder.make()
    return folder


def entry(number: int) -> Entry:
    return Entry(number=number, plan=Plan(job="j", host="h", version=number * 10), starts={"s": number})


def test_a_name_of_a_job_or_stream_is_no_path(tmp_path: Path) -> None:
    """Its folder is always among those of its kind, for any name."""
    for name in ("../..", "a/b", "ü"):
        assert tmp_path / "jobs" == job_folder(tmp_path, name).path.parent
        assert tmp_path / "spools" == spool_folder(tmp_path, name).parent


def test_spools_of_streams_with_long_names_have_folders_of_their_own(tmp_path: Path) -> None:
    """A port may have 200 characters of four bytes each, which is too long for a file name."""
    first, second = (spool_folder(tmp_path, f"bridge/7:{chr(0x1F600) * 199}{last}") for last in "ab")
    first.mkdir(parents=True)
    assert not second.exists()


def test_entries_are_found_as_they_were_logged(tmp_path: Path) -> None:
    """In the order of their numbers, from any number on."""
    folder = made(tmp_path)
    for number in range(1, 12):
        folder.log(entry(number))
    assert [entry(number) for number in range(9, 12)] == folder.entries(9)
    assert entry(3) == folder.entry(3)


def test_entries_are_forgotten_up_to_a_number(tmp_path: Path) -> None:
    """The others do not change."""
    folder = made(tmp_path)
    for number in range(1, 12):
        folder.log(entry(number))
    folder.forget_entries(10)
    assert [entry(10), entry(11)] == folder.entries(1)
    with pytest.raises(RecordDamaged, match="00000009"):
        folder.entry(9)


def test_an_entry_is_that_of_the_job_that_has_the_name_now(tmp_path: Path) -> None:
    """An entry read for an earlier job is not reused."""
    for version in (1, 2):
        folder = made(tmp_path / "j")
        logged = replace(entry(1), plan=replace(entry(1).plan, version=version))
        folder.log(logged)
        # Clocks of file systems tick slowly, and no two jobs have a name at the same moment.
        os.utime(folder.plans / f"{1:08d}", (version, version))
        assert logged == folder.entry(1)
        shutil.rmtree(tmp_path / "j")


def test_a_folder_that_was_just_begun_has_no_entries(tmp_path: Path) -> None:
    """A crash right after making the folder leaves a job without plans."""
    (tmp_path / "j").mkdir()
    assert [] == JobFolder(tmp_path / "j").entries(1)


def test_each_run_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Runs count up, over restarts too, and leave one file."""
    assert [1, 2, 3] == [made(tmp_path).begin_run() for _ in range(3)]
    assert ["00000003"] == [path.name for path in (tmp_path / "runs").iterdir() if path.is_file()]


def test_a_job_is_stopped_until_it_is_marked_as_running(tmp_path: Path) -> None:
    """A restarted host finds the last mark."""
    folder = made(tmp_path)
    assert not folder.is_stopped()
    folder.mark_stopped()
    folder.mark_stopped()
    assert made(tmp_path).is_stopped()
    folder.mark_running()
    folder.mark_running()
    assert not made(tmp_path).is_stopped()


def test_a_cut_is_kept_until_it_is_released(tmp_path: Path) -> None:
    """All its parts, for any name. Cuts whose names begin alike stay."""
    folder = made(tmp_path)
    cuts = [
        KeptCut("a/b", 3, (1, 2), {"s": 4}),
        KeptCut("a/b", 12, (3,), {"t": 1}),
        KeptCut("a/b.c", 5, (4,), {}),
        KeptCut("*", 6, (4,), {}),
    ]
    for cut in cuts:
        folder.cuts.keep(cut)
        folder.cuts.keep(cut)
    assert sorted(cuts) == sorted(folder.cuts.all())
    folder.cuts.release("a/b")
    folder.cuts.release("a/b")
    assert sorted(cuts[2:]) == sorted(folder.cuts.all())
    folder.cuts.release("*")
    assert cuts[2:3] == folder.cuts.all()


def test_lost_positions_are_kept_until_more_are_lost(tmp_path: Path) -> None:
    """Without a loss there are none."""
    folder = made(tmp_path)
    assert {} == folder.gone()
    for gone in ({"raw/ü": 4}, {"raw/ü": 6, "s": 1}):
        folder.save_gone(gone)
        assert gone == made(tmp_path).gone()


def test_a_damaged_file_of_lost_positions_is_named(tmp_path: Path) -> None:
    """To ignore it would let the job wait for events that are lost."""
    (made(tmp_path).path / "gone").write_text("[")
    with pytest.raises(RecordDamaged, match=f"{tmp_path / 'gone'}"):
        made(tmp_path).gone()
