"""The kinds of files of a host, in the order in which a peer writes them: no file comes before those that it needs.

A file is looked at in the reverse order, so that everything that a listed file needs is there when that is listed.
Names that are gone were noted before, and are removed last. Files never change, or (*) are replaced as a whole.

| kind | files | needs |
|---|---|---|
| LEASE | `jobs/J/lease`, `spools/S/lease`, `hosts/H/lease`: empty; the first one's time says when the job was made | |
| RECEIVED | `hosts/H/received/*` (*) | |
| SPOOL_LIST | `spools/S/files/FIRST-END`: the files that a source takes | the file before |
| SPOOL_LOG | `spools/S/log/FIRST-END` | the file before, and the list up to the file under way |
| SPOOL_MARK | `spools/S/high-water` (*): at most the end of the log | likewise; the log up to its end, unless empty |
| PLAN | `jobs/J/plans/N`, `runs/N`, `gone` (*), `stopped` (*), and whatever is new here | the plan before |
| VERDICT | `jobs/J/attempts/**/*.json`: permanent, all else there belongs to living processes | |
| END | `jobs/J/records/ends/N`: where a batch ends that may have been begun | its plan, run, and events in spools |
| SHARD_RECORD | `jobs/J/records/shards/N.SHARD` | likewise; its end, and states of other jobs |
| RECORD | `jobs/J/records/N` | likewise; the records of its shards, and of older batches |
| CUT | `jobs/J/cuts/NAME.N` (*) | the record of N |
| PUBLISHED | `jobs/J/published` (*) | the records and cuts before its batch |
| CONSUMER | `spools/S/consumers/J.position` (*): events before it are removed | the records of J that read them |

A spool that a job fills holds what other jobs' records emitted. That order needs no look: a record is at all peers that
count before it is forwarded.

Nothing else is sent: no folder `spark` of a job, no folder `tmp`, no name with a leading dot except where names come
from users, no `swept` folder of a host. Empty folders are sent, because a spool without a log was never filled.
"""

import os
from enum import IntEnum
from hashlib import file_digest

FOLDERS = ("jobs", "spools", "hosts")
"""The folders of a root that belong to a host."""


class FileKind(IntEnum):
    """The kinds of files, in the order in which a peer writes them."""

    LEASE = 0
    RECEIVED = 1
    SPOOL_LIST = 2
    SPOOL_LOG = 3
    SPOOL_MARK = 4
    PLAN = 5
    VERDICT = 6
    END = 7
    SHARD_RECORD = 8
    RECORD = 9
    CUT = 10
    PUBLISHED = 11
    CONSUMER = 12


REPLACED = {FileKind.RECEIVED, FileKind.SPOOL_MARK, FileKind.CUT, FileKind.PUBLISHED, FileKind.CONSUMER}
"""The kinds that are replaced; `gone` and `stopped` are too."""
_PLACES = {
    ("jobs",): FileKind.PLAN,
    ("jobs", "lease"): FileKind.LEASE,
    ("jobs", "published"): FileKind.PUBLISHED,
    ("jobs", "cuts"): FileKind.CUT,
    ("jobs", "attempts"): FileKind.VERDICT,
    ("jobs", "records"): FileKind.RECORD,
    ("jobs", "records", "ends"): FileKind.END,
    ("jobs", "records", "shards"): FileKind.SHARD_RECORD,
    ("spools",): FileKind.LEASE,
    ("spools", "files"): FileKind.SPOOL_LIST,
    ("spools", "log"): FileKind.SPOOL_LOG,
    ("spools", "high-water"): FileKind.SPOOL_MARK,
    ("spools", "consumers"): FileKind.CONSUMER,
    ("hosts",): FileKind.RECEIVED,
    ("hosts", "lease"): FileKind.LEASE,
}
"""The kind of everything in a place, without the names of jobs, spools and hosts; the longest place counts."""
_QUOTED = {"cuts", "consumers"}
"""The folders whose names come from users."""


def kind_of(path: str) -> FileKind:
    """The kind of a file, or of the files in a folder, by its path in the root.

    >>> kind_of("jobs/j/records/00000000000000000007").name, kind_of("jobs/j/records/shards").name
    ('RECORD', 'SHARD_RECORD')
    >>> kind_of("spools/s/files/0-1") < kind_of("spools/s/log/0-1") < kind_of("spools/s/high-water")
    True
    """
    parts = path.split("/")
    del parts[1:2]
    places = (_PLACES.get(tuple(parts[:depth])) for depth in (3, 2, 1))
    return next((kind for kind in places if kind is not None), FileKind.LEASE)


def is_replaced(path: str) -> bool:
    """Whether a file may be replaced by another one of its name."""
    return kind_of(path) in REPLACED or path.endswith(("/gone", "/stopped"))


def has_folder(path: str) -> bool:
    """Whether a folder is sent, if the one around it is."""
    parts = path.split("/")
    if len(parts) < 3:  # noqa: PLR2004 - jobs, spools and hosts have names of any form
        return parts[0] in FOLDERS
    if (parts[0], parts[2]) in {("hosts", "swept"), ("jobs", "spark")}:
        return False
    return parts[-1] != "tmp" and not parts[-1].startswith(".")


def has_file(path: str) -> bool:
    """Whether a file is sent, if the folder around it is."""
    parts = path.split("/")
    if len(parts) < 3:  # noqa: PLR2004 - as above
        return False
    if parts[0] == "jobs" and parts[2] == "attempts":
        return parts[-1].endswith(".json")
    return not parts[-1].startswith(".") or parts[2] in _QUOTED


def is_sent(path: str) -> bool:
    """Whether a file of this path may lie in a copy.

    >>> is_sent("jobs/j/lease"), is_sent("jobs/../lease"), is_sent("files/j/x"), is_sent("jobs/j/plans/tmp/1")
    (True, False, False, False)
    """
    return is_plain(path) and has_file(path) and all(map(has_folder, folders_around(path)))


def folders_around(path: str) -> list[str]:
    """The folders that something is in, the outermost first.

    >>> folders_around("jobs/j/lease")
    ['jobs', 'jobs/j']
    """
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def is_plain(path: str) -> bool:
    """Whether a path leads to something in the folders of a host, whatever it is."""
    parts = path.split("/")
    return len(parts) > 1 and parts[0] in FOLDERS and not any(part in {"", ".", ".."} or "\0" in part for part in parts)


def digest_of(path: str) -> bytes:
    """The digest of a file on the disk; nothing that a file has if it is none."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return file_digest(file, "sha256").digest()
    except OSError:
        return b"?"
