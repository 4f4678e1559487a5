"""The spools that a job reads, as it looked at them last."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bridge import FolderReader
from engine.job_folder import spool_folder
from engine.pacing import Readable


class JobSpools:
    """The indexes of one job's spools; made with it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._readers: Mapping[str, FolderReader] = {}

    def readable(self, streams: Sequence[str]) -> Mapping[str, Readable]:
        """Those of some streams, as new as can be; called from one thread at a time."""
        self._readers = {
            stream: self._readers.get(stream) or FolderReader(spool_folder(self._root, stream)) for stream in streams
        }
        for reader in self._readers.values():
            reader.refresh()
        return self._readers

    def end(self, stream: str) -> int | None:
        """Where one of them ended at the last look, if it was looked at; from any thread."""
        reader = self._readers.get(stream)
        return None if reader is None else reader.end
