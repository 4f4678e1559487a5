"""Backup and restore: everything is restored elsewhere, and damaged archives are refused."""

import io
import json
import os
import re
import shutil
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from braid_client.answers.overview import OperationKind
from bridge import Spool, SpoolIndex, commit, consumers
from bridge.intake import Expected
from bridge.spools.log import Mark, read_mark
from engine.outside import NoSecret, Vault
from engine.plan import Forward
from engine.records.files import Header
from engine.records.job_folder import KeptCut, job_folder, spool_folder
from engine.records.store import RecordStore
from manager import store
from manager.backup import BackupRefused, back_up, restoration, restore
from manager.backup import restoration as how
from manager.backup.archive import Contents, verified, write_archive
from manager.backup.live_copy import copy_live
from manager.kernel.transitions import TransitionEvent
from manager.outputs.parked_letters import served_by
from manager.settings import write_key
from manager.store.database import Store, sqlite_url
from manager.store.dead_letters import Letter, keep
from manager.use_case import Paging
from tests.manager.backup.machines import JOB, STREAM, CountingJob, everything, kept
from tests.manager.conftest import BOTH
from tests.manager.databases import Server
from tests.manager.managers import OPERATOR, Manager, take
from tests.twins.twin_job import TwinJob

LINE = "s:source > m:map{{'add': {}}} > k:sink"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def job(root: Path, request: pytest.FixtureRequest) -> Iterator[CountingJob]:
    made = CountingJob(root, shards=request.param)
    yield made
    made.close()


@pytest.fixture(params=BOTH)
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of another database, without tables."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "other" / "braid.db")
    made: Server = request.getfixturevalue("postgresql")
    return made.new_database()


def filled(url: str, name: str = "one") -> Manager:
    """Return a leading manager with rows in every table about dataflows."""
    made = Manager(url, name).lead()
    made.admit("ann", "bob")
    made.register("weather")
    removed = made.submit("ann", LINE.format(0))
    for number in range(3):
        made.submit("ann", LINE.format(number), key=str(number))
        made.submit("bob", LINE.format(number))
    made.changes.dataflows.remove(removed, who="ann")
    park(made, 1, 2, 3)
    return made


def park(manager: Manager, *batches: int) -> None:
    letters = [Letter(instance=2, port="in", batch=batch, reason="é\u2192", events=[{"n": 1.5}]) for batch in batches]
    with manager.store.write() as session:
        keep(session, letters, served_by(manager.committer, {2}), at=1.25)


def small(root: Path) -> str:
    """Make a nearly empty database in a root."""
    url = sqlite_url(root / "braid.db")
    Store(url).close()
    return url


def newest_scheme() -> str:
    """Return the number of the newest migration, from its file name."""
    return max(path.name[:4] for path in (Path(store.__file__).parent / "migrations" / "versions").glob("0*.py"))


def test_the_committed_state_is_restored(empty_url: str, other_url: str, root: Path, tmp_path: Path) -> None:
    """Every row is copied from either kind of database to either, and a manager leads it and continues."""
    before = filled(empty_url)
    manifest = back_up(root, empty_url, tmp_path / "backup.tar")
    assert (6 + 1, 3, newest_scheme()) == (manifest.counts["dataflow"], manifest.counts["dead_letter"], manifest.scheme)
    restore(tmp_path / "backup.tar", tmp_path / "other", other_url)
    assert everything(empty_url) == everything(other_url)
    after = Manager(other_url, "two").lead()
    with before.committer.looking() as old, after.committer.looking() as new:
        assert old.running.dataflows == new.running.dataflows
        assert (old.plans, old.running.tasks.keys()) == (new.plans, new.running.tasks.keys())
    after.submit("ann", LINE.format(7))
    (entry,) = after.service.operations.page(OPERATOR, Paging(), kind=OperationKind.RESTORE).items
    assert manifest.made.isoformat(timespec="seconds") == entry.subject
    for each in (before, after):
        each.close()


def test_given_numbers_are_not_given_again(empty_url: str, other_url: str, root: Path, tmp_path: Path) -> None:
    """Neither are those of rows deleted before the backup, nor those of instances and jobs started after it."""
    before = filled(empty_url)
    letters = before.service.dead_letters.page(OPERATOR, Paging()).items
    before.service.dead_letters.discard(OPERATOR, str(letters[0].id))
    back_up(root, empty_url, tmp_path / "backup.tar")
    restore(tmp_path / "backup.tar", tmp_path / "other", other_url)
    after = Manager(other_url, "two").lead()
    for _ in range(3):
        before.submit("ann", "s:source > k:sink")
    park(after, 9)
    assert after.service.dead_letters.page(OPERATOR, Paging()).items[0].id == letters[0].id + 1
    numbers = [
        {each.instance for each in manager.service.dataflows.get(OPERATOR, dataflow).tasks if not each.reused}
        for manager, dataflow in ((manager, manager.submit("ann", LINE.format(99))) for manager in (before, after))
    ]
    assert not numbers[0] & numbers[1]
    with before.store.read() as session:
        last = session.scalar(text("SELECT max(number) FROM dataflow")) or 0
    assert last > 7
    for each in (before, after):
        each.close()


def test_a_restored_service_leads_in_a_higher_term(root: Path, tmp_path: Path) -> None:
    """It is higher than any take-over of the old one since; a job refuses plans of an older term."""
    url = sqlite_url(root / "braid.db")
    before = filled(url)
    back_up(root, url, tmp_path / "backup.tar")
    for _ in range(20):
        before.candidate.leave()
        before.lead()
    old = before.submit("ann", LINE.format(50))
    other = sqlite_url(tmp_path / "other" / "braid.db")
    restore(tmp_path / "backup.tar", tmp_path / "other", other)
    after = Manager(other, "two").lead()
    new = after.submit("ann", LINE.format(50))
    terms = []
    for manager, dataflow in ((before, old), (after, new)):
        with manager.committer.looking() as state:
            instance = state.running.dataflows[dataflow].instances[-1]
            terms.append(state.plans[state.jobs.homes[instance].job].term)
    assert terms[0] < terms[1]
    shutil.rmtree(tmp_path / "other")
    restore(tmp_path / "backup.tar", tmp_path / "other", other)
    for each in (before, after):
        each.close()


def test_a_backup_is_made_while_nothing_moves(
    empty_url: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused if a move does not end, and repeated if one took place meanwhile."""
    manager = Manager(empty_url, strategy="launch").lead()
    manager.admit("ann")
    manager.register("weather")
    for line in ("s:source > a:map > k:sink", "s:source > a:map > b:count > k:sink"):
        manager.submit("ann", line)

    def move() -> int:
        manager.service.defragmentation.begin(OPERATOR)
        (moving,) = manager.changes.moves.under_way()
        return moving.move.id

    begun = move()
    monkeypatch.setattr(restoration, "_PATIENCE", 0.0)
    with pytest.raises(BackupRefused, match="tasks are being moved"):
        back_up(root, empty_url, tmp_path / "early.tar")
    take(manager.changes.moves, begun, TransitionEvent.HINDERED, why="it was late")
    taken: list[int] = []

    def copy(*arguments: Any, **named: Any) -> int:
        if not taken:
            take(manager.changes.moves, move(), TransitionEvent.HINDERED, why="it was late")
        taken.append(copy_live(*arguments, **named))
        return taken[-1]

    monkeypatch.setattr(restoration, "copy_live", copy)
    monkeypatch.setattr(restoration, "_PATIENCE", 10.0)
    back_up(root, empty_url, tmp_path / "backup.tar")
    assert 2 == len(taken)
    manager.close()


def test_a_backup_of_a_database_that_is_written_is_one_state_of_it(empty_url: str, root: Path, tmp_path: Path) -> None:
    """While dataflows are submitted and removed, each backup has one version of the state, complete."""
    manager = filled(empty_url)
    done = threading.Event()

    def change() -> None:
        number = 0
        while not done.is_set() and number < 400:
            number += 1
            dataflow = manager.submit("bob", LINE.format(number % 5))
            if number % 2:
                manager.changes.dataflows.remove(dataflow, who="bob")

    changing = threading.Thread(target=change)
    changing.start()
    versions = set()
    try:
        for number in range(3):
            archive, other = tmp_path / f"{number}.tar", tmp_path / f"other{number}"
            back_up(root, empty_url, archive)
            restore(archive, other, sqlite_url(other / "braid.db"))
            after = Manager(sqlite_url(other / "braid.db"), "two").lead()
            with after.committer.looking() as state:
                needed = {instance for each in state.running.dataflows.values() for instance in each.instances}
                assert needed == set(state.running.tasks)
                homes = {instance: state.jobs.homes[instance].job for instance in needed}
                assert all(state.plans[job] for job in homes.values())
                versions.add(state.version)
            after.close()
    finally:
        done.set()
        changing.join()
        manager.close()
    assert len(versions) == 3


def test_a_job_continues_from_its_last_finished_batch(root: Path, job: CountingJob, tmp_path: Path) -> None:
    """It has its state, its spool gives no position again, and the unfinished batch is lost."""
    url = small(root)
    job.receive(1, 2, 1)
    job.work()
    job.receive(5, 5)
    assert job.plan_batch()
    finished = job.twin.batch
    state = kept(root)
    job.receive(6)
    for batch in (finished - 1, finished):
        job.folder.cuts.keep(KeptCut(f"c{batch}", batch, (2,), {STREAM: 0}))
    (job.folder.path / "published").write_text(json.dumps({"batch": finished + 1, "opened": [], "closing": []}))
    assert not back_up(root, url, tmp_path / "backup.tar").spools
    other = tmp_path / "other"
    restore(tmp_path / "backup.tar", other, sqlite_url(other / "braid.db"))
    there = job_folder(other, JOB)
    assert (range(finished), state) == (RecordStore(there.records).batches(), kept(other))
    assert [finished - 1] == [cut.batch for cut in there.cuts.all()]
    assert finished == json.loads((there.path / "published").read_bytes())["batch"]
    assert finished + 1 == json.loads((job.folder.path / "published").read_bytes())["batch"]
    folder = spool_folder(other, STREAM)
    assert {} == consumers(folder)
    assert Mark(6, {"p": Expected(next=1)}) == read_mark(folder)
    # As a job that starts looks at it, before anybody owns it.
    assert 6 == SpoolIndex(folder).first
    spool = Spool(folder, most_bytes=1_000_000)
    assert (6, 6) == (spool.first, spool.end)
    spool.close()
    assert there.begin_run() > job.folder.begin_run()


def test_with_the_spools_nothing_is_lost(root: Path, job: CountingJob, tmp_path: Path) -> None:
    """A job processes what waited, starting with the batch that it was about to run, and reaches the same state."""
    url = small(root)
    job.receive(1, 2, 1)
    job.work()
    job.prune()
    job.receive(5, 5)
    assert job.plan_batch()
    job.receive(6, 1)
    (job.folder.attempts / f"{0:020d}-{0:020d}-00").write_text("of a process that lives")
    (job.folder.attempts / "1.json").write_text("a verdict")
    job.folder.save_gone({"raw/before": 3})
    assert back_up(root, url, tmp_path / "backup.tar", with_spools=True).spools
    other = tmp_path / "other"
    restore(tmp_path / "backup.tar", other, sqlite_url(other / "braid.db"))
    there = job_folder(other, JOB)
    assert kept(root) == kept(other)
    assert ["1.json"] == [path.name for path in there.attempts.iterdir()]
    assert {"raw/before": 3} == there.gone()
    assert consumers(spool_folder(root, STREAM)) == consumers(spool_folder(other, STREAM))
    assert (7, {"p": Expected(next=2)}) == (
        Spool(spool_folder(other, STREAM), most_bytes=1).end,
        read_mark(spool_folder(other, STREAM)).producers,
    )
    job.work()
    twin = TwinJob(other, JOB, {})
    twin.settle()
    assert kept(root) == kept(other)


@pytest.mark.parametrize("with_spools", [False, True])
def test_a_batch_of_which_one_shard_is_recorded_is_run_again(root: Path, tmp_path: Path, *, with_spools: bool) -> None:
    """With its events the batch is completed from there; without, it is another, and no old record is in its way."""
    with closing(CountingJob(root, shards=3)) as job:
        job.receive(1, 2, 1)
        job.work()
        job.receive(5, 6, 7)
        job.run_shard(1)
        (job.folder.attempts_of(1) / f"{job.twin.batch:020d}.2.0.0.json").write_text("a verdict")
        back_up(root, small(root), tmp_path / "backup.tar", with_spools=with_spools)
        other = tmp_path / "other"
        restore(tmp_path / "backup.tar", other, sqlite_url(other / "braid.db"))
        there = job_folder(other, JOB)
        store = RecordStore(there.records)
        assert range(job.twin.batch) == store.batches()
        assert with_spools is (store.find_shard(job.twin.batch, 1) is not None)
        assert with_spools is (store.ends.find(job.twin.batch) is not None)
        verdicts = [path.name for path in there.attempts.rglob("*.json")]
        assert ([f"{job.twin.batch:020d}.2.0.0.json"] if with_spools else []) == verdicts


@pytest.mark.parametrize("started", [False, True])
def test_removed_events_of_a_stopped_job_prevent_no_backup(
    root: Path, job: CountingJob, tmp_path: Path, *, started: bool
) -> None:
    """The job skips them when it is started. Events of any other job must not be missing."""
    url = small(root)
    job.receive(1, 2, 1)
    job.work()
    job.receive(5, 5)
    commit(job.spool.folder, JOB, 5)
    job.spool.prune()
    with pytest.raises(BackupRefused, match="changes too fast"):
        back_up(root, url, tmp_path / "damaged.tar", with_spools=True)
    if started:
        job.folder.save_gone({STREAM: 5})
    else:
        job.folder.mark_stopped()
    assert back_up(root, url, tmp_path / "backup.tar", with_spools=True).spools


@pytest.mark.parametrize(("had", "expected"), [(0, 0), (2, 2), (5, 5), (6, 5)])
def test_a_spool_between_jobs_expects_the_producer_s_next_number(
    root: Path, job: CountingJob, tmp_path: Path, had: int, expected: int
) -> None:
    """It accepts no event twice, and takes no event of a repeated batch for another."""
    url = small(root)
    job.twin.log(replace(job.plan, version=2, forwards=(Forward(instance=2, port="out"),)))
    job.receive(1, 2, 3)
    job.work()
    job.receive(4, 5)
    assert job.plan_batch()
    ours, nobodys = (spool_folder(root, f"bridge/{instance}:out") for instance in (2, 9))
    for folder in (ours, nobodys):
        with closing(Spool(folder, most_bytes=1_000_000)) as spool:
            spool.append([], {"out": Expected(epoch=7, next=had, opened=True), "new": Expected()})
    back_up(root, url, tmp_path / "backup.tar")
    other = tmp_path / "other"
    restore(tmp_path / "backup.tar", other, sqlite_url(other / "braid.db"))
    found, left = (read_mark(spool_folder(other, f"bridge/{instance}:out")).producers for instance in (2, 9))
    assert {"out": Expected(epoch=7, next=expected, opened=True), "new": Expected()} == found
    assert {} == left


def test_a_spool_of_a_job_without_batches_expects_any_number(root: Path, job: CountingJob, tmp_path: Path) -> None:
    """The job has finished no batch, and gives its first number when it forwards again."""
    url = small(root)
    job.twin.log(replace(job.plan, version=2, forwards=(Forward(instance=2, port="out"),)))
    with closing(Spool(spool_folder(root, "bridge/2:out"), most_bytes=1_000_000)) as spool:
        spool.append([], {"out": Expected(epoch=7, next=5, opened=True)})
    back_up(root, url, tmp_path / "backup.tar")
    other = tmp_path / "other"
    restore(tmp_path / "backup.tar", other, sqlite_url(other / "braid.db"))
    assert {} == read_mark(spool_folder(other, "bridge/2:out")).producers


def _entries_of(header: Header) -> set[int]:
    """Return the entries of the log of plans that a record names."""
    return {header.start.entry, header.end.entry} - {0}


@pytest.mark.parametrize("with_spools", [False, True])
def test_a_copy_of_a_running_job_is_consistent(
    root: Path, job: CountingJob, tmp_path: Path, *, with_spools: bool
) -> None:
    """Batches, plans, records and events come and go meanwhile, and every backup can be continued from."""
    url = small(root)
    job.receive(1)
    job.work()
    done = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        number = 0
        try:
            while not done.is_set() and number < 3_000:
                number += 1
                job.twin.log(replace(job.plan, version=number + 1, shards=1 + number % job.plan.shards))
                job.receive(*range(number % 5 + 1))
                job.work()
                job.prune()
        except BaseException as error:
            failed.append(error)
            raise

    running = threading.Thread(target=run)
    running.start()
    try:
        for number in range(4):
            archive, other = tmp_path / f"{number}.tar", tmp_path / f"other{number}"
            back_up(root, url, archive, with_spools=with_spools)
            restore(archive, other, sqlite_url(other / "braid.db"))
            store = RecordStore(job_folder(other, JOB).records)
            last = store.batches()[-1]
            assert kept(other) is not None
            folder = job_folder(other, JOB)
            ran = {number for batch in store.batches() for number in _entries_of(store.file(batch).header)}
            assert ran <= {entry.number for entry in folder.entries(1)}
            spool = Spool(spool_folder(other, STREAM), most_bytes=1)
            position = store.file(last).header.end.at.get(STREAM, 0)
            assert position <= spool.end
            assert spool.first <= position if with_spools else spool.first == spool.end
            spool.close()
            if with_spools:
                TwinJob(other, JOB, {}).settle()
    finally:
        done.set()
        running.join()
    assert not failed


def test_files_stay_readable_by_their_owner_only(root: Path, tmp_path: Path) -> None:
    """So is the archive; it has the key only on request, and permissions are restored."""
    url = small(root)
    write_key(root, "braid_secret")
    (root / "access" / "tmp").mkdir(parents=True)
    for name, mode in (("passwords", 0o600), ("acl", 0o640), ("tmp/half", 0o600)):
        (root / "access" / name).write_text(name)
        (root / "access" / name).chmod(mode)
    (root / "broker.url").write_text("mqtt://braid:password-of-the-broker@127.0.0.1:1")
    without = back_up(root, url, tmp_path / "without.tar")
    assert (False, {"access/acl", "access/passwords", "database.sqlite"}) == (without.key, set(without.files))
    assert 0o600 == stat.S_IMODE((tmp_path / "without.tar").stat().st_mode)
    assert not re.search(rb"braid_secret|password-of-the-broker", (tmp_path / "without.tar").read_bytes())
    assert back_up(root, url, tmp_path / "with.tar", with_key=True).key
    other = tmp_path / "other"
    restore(tmp_path / "with.tar", other, sqlite_url(other / "braid.db"))
    modes = {
        str(path.relative_to(other)): stat.S_IMODE(path.stat().st_mode)
        for path in other.rglob("*")
        if path.is_file() and path.name != "braid.db"
    }
    assert {"key": 0o600, "access/passwords": 0o600, "access/acl": 0o640} == modes
    assert not list((root / "backup").glob("*/*"))


def test_nothing_is_overwritten(root: Path, tmp_path: Path) -> None:
    """A backup replaces no file, and a restore no root and no database; each error has a remedy."""
    url = small(root)
    archive = tmp_path / "backup.tar"
    archive.write_text("mine")
    with pytest.raises(BackupRefused, match="is there already; choose another name"):
        back_up(root, url, archive)
    assert "mine" == archive.read_text()
    archive.unlink()
    back_up(root, url, archive)
    with pytest.raises(BackupRefused, match="is not empty; name another root"):
        restore(archive, root, url)
    there = tmp_path / "there.db"
    there.write_text("mine")
    with pytest.raises(BackupRefused, match=r"there is a database at .*there\.db already"):
        restore(archive, tmp_path / "other", sqlite_url(there))
    assert (False, "mine") == ((tmp_path / "other").exists(), there.read_text())
    with pytest.raises(BackupRefused, match="there is no root at"):
        back_up(tmp_path / "nowhere", url, tmp_path / "2.tar")
    with pytest.raises(BackupRefused, match="there is no database at"):
        back_up(root, sqlite_url(tmp_path / "no.db"), tmp_path / "2.tar")


@pytest.mark.postgresql
def test_a_used_postgresql_database_is_refused(postgresql: Server, root: Path, tmp_path: Path) -> None:
    """One that has ever been led, or that has rows, is left as it is."""
    archive = tmp_path / "backup.tar"
    back_up(root, small(root), archive)
    url = postgresql.new_database()
    manager = Manager(url)
    restore(archive, tmp_path / "first", url)
    with pytest.raises(BackupRefused, match="the database is not empty"):
        restore(archive, tmp_path / "other", url)
    assert not (tmp_path / "other").exists()
    manager.close()


def test_a_restore_that_fails_leaves_an_empty_root(
    root: Path, job: CountingJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it can be tried again: everything written is removed, and so is a root that was created."""
    job.receive(1)
    job.work()
    archive = tmp_path / "backup.tar"
    back_up(root, small(root), archive)

    def fail(_path: Path, _url: str) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "there").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(how, "load", fail)
        for name in ("there", "new"):
            with pytest.raises(OSError, match="No space"):
                restore(archive, tmp_path / name, sqlite_url(tmp_path / name / "braid.db"))
    assert ([], False) == (list((tmp_path / "there").iterdir()), (tmp_path / "new").exists())
    restore(archive, tmp_path / "there", sqlite_url(tmp_path / "there" / "braid.db"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of a root with a file."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "root" / "access").mkdir(parents=True)
    (folder / "root" / "access" / "acl").write_text("user ann\n")
    back_up(folder / "root", small(folder / "root"), folder / "sound.tar")
    return folder / "sound.tar"


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_archive_is_refused(sound: Path, data: st.DataObject) -> None:
    """If it is truncated, or a bit is flipped, it is refused before anything is written, unless nothing is lost."""
    content = bytearray(sound.read_bytes())
    whole = verified(sound)
    path = sound.with_name("damaged.tar")
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        assert whole == verified(path)
    except BackupRefused:
        other = sound.with_name("other")
        with pytest.raises(BackupRefused, match=r"\A[^\n]*; use another backup\Z"):
            restore(path, other, sqlite_url(other / "braid.db"))
        assert not other.exists()


def with_member(archive: Path, name: str, *, kind: bytes = tarfile.REGTYPE) -> Path:
    changed = archive.with_name("changed.tar")
    shutil.copy(archive, changed)
    with tarfile.open(changed, "a") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info, io.BytesIO(b""))
    return changed


@pytest.mark.parametrize(
    "name", ["../out", "/out", "jobs/../../out", "keeper/record", "jobs", "manifest.json", "access/acl"]
)
def test_an_archive_with_an_extra_member_is_refused(sound: Path, name: str) -> None:
    """That is so for any member, and any place it would be written to."""
    with pytest.raises(BackupRefused):
        verified(with_member(sound, name))


def test_an_archive_with_a_link_is_refused(sound: Path) -> None:
    """Nothing is read or written through it."""
    with pytest.raises(BackupRefused, match="is no file"):
        verified(with_member(sound, "jobs/1/link", kind=tarfile.SYMTYPE))


@pytest.mark.parametrize("content", [b"", b"no tar at all", os.urandom(4_096)])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names the file and the remedy."""
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(BackupRefused, match=r"notes is damaged: .*; use another backup"):
        verified(path)
    with pytest.raises(BackupRefused, match="is not there; name a file that"):
        verified(tmp_path / "nothing")


def test_a_database_of_a_newer_braid_is_refused(root: Path, tmp_path: Path) -> None:
    """It is refused before anything is written."""
    url = small(root)
    store = Store(url)
    with store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    back_up(root, url, tmp_path / "backup.tar")
    with pytest.raises(BackupRefused, match=r"this Braid cannot restore what .* made: .*a newer Braid"):
        restore(tmp_path / "backup.tar", tmp_path / "other", sqlite_url(tmp_path / "other" / "braid.db"))
    assert not (tmp_path / "other").exists()


def test_a_changed_manifest_is_refused(sound: Path) -> None:
    """It is compared with its own checksum."""
    changed = sound.with_name("changed.tar")
    changed.write_bytes(sound.read_bytes().replace(b'"tenant":0', b'"tenant":1'))
    with pytest.raises(BackupRefused, match="its manifest is not as it was written"):
        verified(changed)


@pytest.mark.parametrize("name", ["../out", "/out", "jobs/../../out", "jobs//1", "keeper/record", "jobs", "braid.db"])
def test_an_archive_that_would_write_elsewhere_is_refused(sound: Path, name: str) -> None:
    """That is so even if its manifest and all checksums are right."""
    path = sound.with_name("made.tar")
    path.unlink(missing_ok=True)
    write_archive(path, [(name, sound)], Contents.model_validate(verified(sound).model_dump()))
    with pytest.raises(BackupRefused, match="which no backup of Braid's does"):
        verified(path)


@pytest.mark.parametrize("with_key", [True, False])
def test_secrets_are_restored_and_readable_with_their_key(root: Path, tmp_path: Path, *, with_key: bool) -> None:
    """The archive has the key only on request; without it, secrets cannot be read and have to be set again."""
    Manager(sqlite_url(root / "braid.db")).close()
    Vault(root).put("ann", "lake", "sesame")
    archive, other = tmp_path / "archive", tmp_path / "other"
    back_up(root, sqlite_url(root / "braid.db"), archive, with_key=with_key)
    assert b"sesame" not in archive.read_bytes()
    restore(archive, other, sqlite_url(other / "braid.db"))
    vault = Vault(other)
    assert ["lake"] == vault.names("ann")
    if with_key:
        assert "sesame" == vault.reveal("ann", "lake")
        assert 0o600 == stat.S_IMODE((other / "secrets.key").stat().st_mode)
        return
    with pytest.raises(NoSecret, match=r"secrets\.key is missing; restore it, or put the secrets again"):
        vault.reveal("ann", "lake")
    vault.put("ann", "lake", "sesame")
    assert "sesame" == vault.reveal("ann", "lake")
