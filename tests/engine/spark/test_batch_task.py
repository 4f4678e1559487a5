"""The jobs that a worker process remembers."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bridge import Lease
from engine.kernel.batch_rows import written_rows
from engine.offset import Offset, Span
from engine.records.files import RecordDamaged
from engine.records.job_folder import job_folder
from engine.spark import batch_task
from engine.spark.source import PaceLine


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_task, "_workers", {})


def begin(root: Path, name: str, at: int = 1) -> None:
    folder = job_folder(root, name)
    folder.make()
    Lease(folder.path).release()
    # Clocks of file systems tick slowly, and no two jobs have one name at the same moment.
    os.utime(folder.path / "lease", (at, at))
    folder.mark_running()


def test_a_job_that_runs_is_remembered_with_its_state(tmp_path: Path) -> None:
    """Over any number of batches, and batches of other jobs."""
    for name in ("a", "b"):
        begin(tmp_path, name)
    met = batch_task._worker(tmp_path, "a")
    assert met is not batch_task._worker(tmp_path, "b")
    assert met is batch_task._worker(tmp_path, "a")


def test_the_state_of_a_stopped_job_is_forgotten(tmp_path: Path) -> None:
    """With the next job; otherwise it would take memory until the process ends."""
    for name in ("a", "b", "c"):
        begin(tmp_path, name)
        batch_task._worker(tmp_path, name)
    for name in ("a", "b"):
        job_folder(tmp_path, name).mark_stopped()
    begin(tmp_path, "d")
    batch_task._worker(tmp_path, "d")
    assert {"c", "d"} == {job for _, job in batch_task._workers}


def test_a_job_has_no_state_of_an_earlier_job_of_its_name(tmp_path: Path) -> None:
    """It begins without state after the folder of the earlier job was removed."""
    begin(tmp_path, "a")
    met = batch_task._worker(tmp_path, "a")
    shutil.rmtree(job_folder(tmp_path, "a").path)
    begin(tmp_path, "a", at=2)
    assert met is not batch_task._worker(tmp_path, "a")


def test_the_host_hears_of_a_worker_that_raises_before_spark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the reader of that shard end: until then, Spark would not look at the error."""
    asked = list[dict[str, Any]]()

    def ask(_line: PaceLine, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {}

    monkeypatch.setattr(PaceLine, "ask", ask)
    begin(tmp_path, "a")
    span = Span(Offset(), Offset(entry=7, shards=3))
    with pytest.raises(RecordDamaged):
        # The job has no such plan.
        list(batch_task.answer(str(tmp_path), "a", "nowhere", written_rows(0, span, [], shard=2)))
    assert [{"recorded": None}, {"raised": 2}] == asked
