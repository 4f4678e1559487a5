"""The ends of planned batches, so that a batch that is run again is the same.

What tasks write outside is named by its batch, and the records of its shards have to be of one batch.
"""

import json
from pathlib import Path

from bridge.files import Steps, make_folder, no_steps, write_whole
from engine.offset import Offset
from engine.records.damage import damage_named


class PlannedEnds:
    """The folder of the ends, named by their batches; the job's host writes it."""

    def __init__(self, folder: Path, *, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step

    def keep(self, batch: int, end: Offset) -> None:
        """Make durable where a batch ends; only then may it begin."""
        make_folder(self._folder)
        write_whole(self._path(batch), json.dumps(end.as_json()).encode(), self._step)

    def find(self, batch: int) -> Offset | None:
        """Where a batch ends that may have been begun; None if there is none."""
        path = self._path(batch)
        if not path.exists():
            return None
        with damage_named(path):
            return Offset.of_json(json.loads(path.read_bytes()))

    def forget(self, batch: int) -> None:
        """Remove the end of a batch whose records are removed."""
        self._path(batch).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:020d}"
