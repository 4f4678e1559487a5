"""A host as far as its files go, in steps; and whether a host could go on from some of them.

Each part is a generator that yields after every single change of a file, and a schedule decides which part goes on. A
part that has to wait for the copies yields until a call returns true.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from bridge.files import make_folder, no_steps, write_whole
from bridge.spools.log import Mark, log_files, log_path, write_mark
from bridge.spools.spool import commit, consumers
from engine.plan import Entry, Ingress, Plan, Subscribed
from engine.records.job_folder import JobFolder, KeptCut, job_folder, spool_folder

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


STREAMS = ("raw/a", "raw/b")
REWIND = 3
Part = Generator[None, None, None]
Waiting = Callable[[Path], Callable[[], bool]]
"""Asks for a folder to be in the copies; the call that it returns says whether it is."""


def at_once(_folder: Path) -> Callable[[], bool]:
    """Nobody counts, so nothing is waited for."""
    return lambda: True


class HostModel:
    """The files of a host; `step` goes on with one of its parts."""

    def __init__(self, root: Path, seed: int, *, jobs: Iterable[str] = ("j", "k"), kept: Waiting = at_once) -> None:
        self.root = root
        self.chance = Random(seed)
        self._kept = kept
        self.acknowledged = dict.fromkeys(STREAMS, 0)
        """The end of what was acknowledged of each stream."""
        self.followed: dict[str, int] = {}
        """The last record of each job that was published."""
        self.waits_done = 0
        """How often a part had waited for the copies and went on."""
        self._ends = dict.fromkeys(STREAMS, 0)
        for stream in STREAMS:
            make_folder(spool_folder(root, stream) / "log")
            (spool_folder(root, stream) / "lease").touch()
        self._parts = [self._append(stream) for stream in STREAMS]
        self._parts += [self._prune(stream) for stream in STREAMS]
        for job in jobs:
            folder = job_folder(root, job)
            make_folder(folder.path)
            (folder.path / "lease").touch()
            folder.make()
            for stream in STREAMS:
                commit(spool_folder(root, stream), job, 0)
            self._log_plan(folder, job, 1)
            self.followed[job] = -1
            self._parts += [self._run(folder, job), self._follow(folder, job)]

    def step(self) -> None:
        """Go on with a part."""
        next(self.chance.choice(self._parts))

    def _wait(self, folder: Path) -> Part:
        is_kept = self._kept(folder)
        while not is_kept():
            yield
        self.waits_done += 1

    def _append(self, stream: str) -> Part:
        folder = spool_folder(self.root, stream)
        while True:
            end = self._ends[stream] + self.chance.randint(1, 5)
            write_whole(log_path(folder / "log", self._ends[stream], end), self.chance.randbytes(30))
            self._ends[stream] = end
            yield
            yield from self._wait(folder)
            self.acknowledged[stream] = end
            for _ in range(self.chance.randint(0, 6)):
                yield

    def _prune(self, stream: str) -> Part:
        folder = spool_folder(self.root, stream)
        while True:
            files = log_files(folder / "log")
            passed = min(consumers(folder).values(), default=0)
            gone = [file for file in files if file.end <= passed]
            if gone and gone == files:
                write_mark(folder, Mark(files[-1].end, {}), no_steps)
                yield
                if log_files(folder / "log") != files:
                    # The lock of the spool is not modelled: something was appended in between.
                    continue
            for file in gone:
                file.path.unlink()
                yield
            yield

    def _log_plan(self, folder: JobFolder, job: str, number: int) -> None:
        ingress = tuple(
            Ingress(stream=stream, instance=at, supply=Subscribed(topic=stream)) for at, stream in enumerate(STREAMS)
        )
        plan = Plan(job=job, host="h", version=number, ingress=ingress)
        folder.log(Entry(number=number, plan=plan, starts=dict.fromkeys(STREAMS, 0)))

    def _run(self, folder: JobFolder, job: str) -> Part:
        """The host and its workers: the ends of batches, and records; now and then another run."""
        batch, at = 0, dict.fromkeys(STREAMS, 0)
        run = folder.begin_run()
        yield
        yield from self._wait(folder.path)
        while True:
            if self.chance.random() < 0.1:
                run = folder.begin_run()
                yield
                yield from self._wait(folder.path)
            while batch > self.followed[job] + 2:
                yield
            entry = folder.entries(1)[-1].number
            to = {stream: max(at[stream], self._ends[stream]) for stream in STREAMS}
            shards = self.chance.choice((0, 0, 2))
            planned = {"batch": batch, "entry": entry, "run": run, "from": at, "to": to, "shards": shards}
            content = json.dumps(planned).encode()
            make_folder(folder.records / "ends")
            write_whole(folder.records / "ends" / f"{batch:020d}", content)
            yield
            for shard in range(shards):
                make_folder(folder.records / "shards")
                write_whole(folder.records / "shards" / f"{batch:020d}.{shard:03d}", content)
                yield
            write_whole(folder.records / f"{batch:020d}", content)
            yield
            batch, at = batch + 1, to

    def _follow(self, folder: JobFolder, job: str) -> Part:
        """The host's main thread for one job: it follows records, publishes, and removes what nobody needs."""
        headers: dict[int, dict[str, dict[str, int]]] = {}
        plans = 1
        while True:
            batch = self.followed[job] + 1
            path = folder.records / f"{batch:020d}"
            if not path.exists():
                yield
                continue
            yield from self._wait(folder.path)
            headers[batch] = json.loads(path.read_bytes())
            if self.chance.random() < 0.2:
                folder.cuts.keep(KeptCut("cut", batch, (1,), headers[batch]["to"]))
                yield
            self.followed[job] = batch
            write_whole(folder.path / "published", json.dumps({"batch": batch + 1}).encode())
            yield
            cuts = folder.cuts.all()
            if cuts and self.chance.random() < 0.5:
                folder.cuts.release("cut")
                yield
                cuts = []
            oldest = min([batch - REWIND, *(cut.batch for cut in cuts)])
            for old in [each for each in headers if each < oldest]:
                for shard in reversed(range(2)):
                    (folder.records / "shards" / f"{old:020d}.{shard:03d}").unlink(missing_ok=True)
                    yield
                (folder.records / "ends" / f"{old:020d}").unlink(missing_ok=True)
                yield
                (folder.records / f"{old:020d}").unlink()
                del headers[old]
                yield
            needed = headers[max(0, batch - REWIND + 1)]["from"]
            for stream, position in needed.items():
                held = min([position, *(cut.positions[stream] for cut in cuts)])
                commit(spool_folder(self.root, stream), job, held)
                yield
            folder.forget_entries(int(str(headers[min(headers)]["entry"])))
            yield
            if self.chance.random() < 0.2:
                plans += 1
                self._log_plan(folder, job, plans)
                yield
                yield from self._wait(folder.path)
