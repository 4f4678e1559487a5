"""The spools that a job reads, as of its last look at them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge import FolderReader
from engine.job.pace import ReadableSpool
from engine.records.job_folder import spool_folder


class JobSpools:
    """The spools of one job."""

    def __init__(self, root: Path, owned_spool: Callable[[str], ReadableSpool | None]) -> None:
        """`owned_spool` finds the spool of a stream that the job's host fills; that one is always up to date."""
        self._root = root
        self._owned_spool = owned_spool
        self._readers: Mapping[str, FolderReader] = {}
        """The spools of streams that another host fills, as seen last."""

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """The spools of some streams, up to date; called from one thread at a time."""
        own = {stream: spool for stream in streams if (spool := self._owned_spool(stream)) is not None}
        self._readers = {
            stream: self._readers.get(stream) or FolderReader(spool_folder(self._root, stream))
            for stream in streams
            if stream not in own
        }
        for reader in self._readers.values():
            reader.refresh()
        return {**own, **self._readers}

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the job's host fills all of them, and so notifies the job when they grow."""
        return all(self._owned_spool(stream) is not None for stream in streams)

    def end(self, stream: str) -> int | None:
        """The end at the last look of a spool that another host fills; from any thread."""
        reader = self._readers.get(stream)
        return None if reader is None else reader.end
