"""The spools that a job reads, as it looked at them last."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge import FolderReader
from engine.job.pace import ReadableSpool
from engine.records.job_folder import spool_folder


class JobSpools:
    """What one job asks of its spools; made with it."""

    def __init__(self, root: Path, owned: Callable[[str], ReadableSpool | None]) -> None:
        """`owned` finds the spool of a stream that the job's host fills, which knows itself what came."""
        self._root = root
        self._owned = owned
        self._readers: Mapping[str, FolderReader] = {}
        """For streams that another host fills, what was seen of their spools."""

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """Those of some streams, as new as can be; called from one thread at a time."""
        own = {stream: spool for stream in streams if (spool := self._owned(stream)) is not None}
        self._readers = {
            stream: self._readers.get(stream) or FolderReader(spool_folder(self._root, stream))
            for stream in streams
            if stream not in own
        }
        for reader in self._readers.values():
            reader.refresh()
        return {**own, **self._readers}

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the job's host fills all of them, and so tells when they grow."""
        return all(self._owned(stream) is not None for stream in streams)

    def end(self, stream: str) -> int | None:
        """Where one that another host fills ended at the last look; from any thread."""
        reader = self._readers.get(stream)
        return None if reader is None else reader.end
