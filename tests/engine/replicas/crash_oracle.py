"""Whether a host could go on from some files: what a crash never breaks, written down without looking at the code."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

Contents = Mapping[str, bytes]
"""The content of each file, by its path."""


def contents(root: Path) -> dict[str, bytes]:
    """The files of a host that count for it."""
    found: dict[str, bytes] = {}
    for top in ("jobs", "spools", "hosts"):
        for path in sorted((root / top).rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and "tmp" not in parts[2:] and not path.name.startswith("."):
                found["/".join(parts)] = path.read_bytes()
    return found


def faults(files: Contents) -> Iterator[str]:
    """What a host could not go on from."""
    spools = {path.split("/")[1] for path in files if path.startswith("spools/")}
    reach = {}
    for spool in sorted(spools):
        log = sorted(path.rsplit("/", 1)[1] for path in files if path.startswith(f"spools/{spool}/log/"))
        if any(int(one[21:]) != int(following[:20]) for one, following in pairwise(log)):
            yield f"{spool} has a hole: {log}"
        mark = json.loads(files.get(f"spools/{spool}/high-water", b'{"end": 0}'))["end"]
        if log and mark > int(log[-1][21:]):
            yield f"the mark of {spool} is {mark}, beyond {log[-1]}"
        reach[spool] = (int(log[0][:20]), int(log[-1][21:])) if log else (mark, mark)
    for job in sorted({path.split("/")[1] for path in files if path.startswith("jobs/")}):
        yield from (f"job {job}: {fault}" for fault in _faults_of(job, files, reach))


class _Job:
    """The files of one job."""

    def __init__(self, job: str, files: Contents) -> None:
        self._begin = f"jobs/{job}/"
        self.name = job
        self.files = files
        self.records, self.plans, self.runs = map(self.numbers, ("records", "plans", "runs"))
        self.ends = self.numbers("records/ends")
        self.last = self.records[-1] if self.records else -1

    def numbers(self, folder: str) -> list[int]:
        begin = f"{self._begin}{folder}/"
        names = (path.removeprefix(begin) for path in self.files if path.startswith(begin))
        return sorted(int(name) for name in names if name.isdigit())

    def has(self, path: str) -> bool:
        return self._begin + path in self.files

    def read(self, path: str) -> Any:
        return json.loads(self.files[self._begin + path])


def _faults_of(name: str, files: Contents, reach: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    job = _Job(name, files)
    if not job.has("lease"):
        yield "it has no lease"
    for what, row in (("records", job.records), ("plans", job.plans)):
        if row and row[-1] - row[0] + 1 != len(row):
            yield f"its {what} have a gap: {row}"
    shards = {int(path.rpartition("/")[2][:20]) for path in files if path.startswith(f"jobs/{name}/records/shards/")}
    for batch in sorted({*shards, *job.ends}):
        if batch > job.last + 1 or (batch > job.last and batch not in job.ends):
            yield f"batch {batch} has shards or an end, its records go to {job.last}, and the ends are {job.ends}"
    yield from _faults_of_records(job)
    if job.records:
        yield from _faults_of_next(job, reach)


def _faults_of_records(job: _Job) -> Iterator[str]:
    for batch in job.records:
        record = job.read(f"records/{batch:020d}")
        if record["entry"] not in job.plans:
            yield f"record {batch} needs plan {record['entry']} of {job.plans}"
        # The oldest one may be half removed.
        for shard in range(record["shards"] if batch > job.records[0] else 0):
            if not job.has(f"records/shards/{batch:020d}.{shard:03d}"):
                yield f"record {batch} needs its shard {shard}"
    published = job.read("published")["batch"] if job.has("published") else 0
    if published > job.last + 1 or (job.records and published and published < job.records[0]):
        yield f"it has published up to {published}, of records {job.records}"
    for path in job.files:
        if path.startswith(f"jobs/{job.name}/cuts/") and int(path.rpartition(".")[2]) not in job.records:
            yield f"{path} has no record in {job.records}"


def _faults_of_next(job: _Job, reach: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """What is wrong with the batch behind the last record, which has to run, if shards have begun it as planned."""
    number = job.last + 1
    batch = job.read(f"records/{job.last:020d}")
    batch = {**batch, "from": batch["to"]}
    if number in job.ends:
        batch = job.read(f"records/ends/{number:020d}")
    if batch["entry"] not in job.plans or batch["run"] > (job.runs or [0])[-1]:
        yield f"batch {number} needs plan {batch['entry']} and run {batch['run']} of {job.plans} and {job.runs}"
    for stream, end in batch["to"].items():
        spool, begin = stream.replace("/", "%2F"), batch["from"][stream]
        first, reached = reach.get(spool, (0, 0))
        if end > reached or begin < first:
            yield f"batch {number} reads {spool} from {begin} to {end}; that has {first} to {reached}"
        position = int(job.files.get(f"spools/{spool}/consumers/{job.name}.position", b"0"))
        if position > begin:
            yield f"batch {number} reads {spool} from {begin}, and has given up everything before {position}"
