"""The kept cuts of a job: their states are not pruned until they are released."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from bridge.files import sync_folder, write_whole
from engine.records.damage import damage_named


class KeptCut(NamedTuple):
    """A cut of one connected part of a job's plan."""

    name: str
    batch: int
    """Its states are those after this batch."""
    instances: tuple[int, ...]
    positions: Mapping[str, int]


class KeptCuts:
    """The folder of a job's kept cuts, with a file for each connected part of the plan."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, cut: KeptCut) -> None:
        """Keep the states of a cut until it is released."""
        content = {"instances": list(cut.instances), "positions": dict(cut.positions)}
        write_whole(self.path / f"{quote(cut.name, safe='')}.{cut.batch:020d}", json.dumps(content).encode())

    def all(self) -> list[KeptCut]:
        """The kept cuts, one for each part of the plan."""
        return [_read(path) for path in self._files()]

    def is_empty(self) -> bool:
        """True if no cut is kept."""
        return not self._files()

    def release(self, name: str) -> bool:
        """Keep a cut no longer; False if it was not kept."""
        # Not by a pattern, since a name may contain dots.
        kept = [path for path in self._files() if path.name.rpartition(".")[0] == quote(name, safe="")]
        for path in kept:
            path.unlink(missing_ok=True)
        if kept:
            sync_folder(self.path)
        return bool(kept)

    def _files(self) -> list[Path]:
        try:
            # Called several times at every beat, usually for an empty folder; a glob costs more.
            names = os.listdir(self.path)  # noqa: PTH208 - see above
        except FileNotFoundError:
            # A crash interrupted the making of the job.
            return []
        return [self.path / name for name in sorted(names) if "." in name]


def _read(path: Path) -> KeptCut:
    name, _, batch = path.name.rpartition(".")
    with damage_named(path):
        content = json.loads(path.read_bytes())
        return KeptCut(unquote(name), int(batch), tuple(content["instances"]), content["positions"])
