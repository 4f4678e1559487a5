"""Secrets and places, from the vault to the task that names them, and the usage of places."""

import json
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.spools.log import packed
from dags import Kind, Secret
from engine.behaviour import NoBehaviour
from engine.implementations.outside import file_stores
from engine.implementations.outside.file_stores import LocalFileStore, PlaceUsage
from engine.outside import FILES, VAULT_FOLDER, VAULT_KEY, HostOutside, NoSecret, Vault
from engine.plan import Forward, Plan
from engine.records.job_folder import spool_folder
from engine.side_effect import OutsideUnreachable
from tests.engine.kernels import enters, events, slot
from tests.tasks.revealing import RevealConfig
from tests.tasks.worksite import OWNER, Worksite
from tests.twins.twin_job import TwinJob

PLACES = {"reveal": "tests.tasks.revealing:reveal"}


def test_a_secret_reaches_its_task_with_the_next_batch(tmp_path: Path) -> None:
    """Without a new plan. Before, events are parked by its name, and no file but the key reveals it."""
    with closing(Spool(spool_folder(tmp_path, "s"), most_bytes=1_000_000)) as spool:
        job = TwinJob(tmp_path, "j", PLACES)
        password = {"secret": "key", "owner": "ann"}
        slots = (slot(2, "reveal", 1, password=password), slot(3, "reveal", 1, password={**password, "owner": "bob"}))
        forwards = (Forward(instance=2), Forward(instance=3))
        job.log(Plan(job="j", host="h", version=1, slots=slots, ingress=(enters("s", 1),), forwards=forwards))
        lengths: list[list[object]] = []
        for secret in (None, "sesame", "open sesame"):
            if secret is not None:
                Vault(tmp_path).put("ann", "key", secret)
            spool.append([Item(count=1, stamp=0, payload=packed(events([{"b": 1}])))])
            job.settle()
            record = job.store.file(job.store.batches()[-1])
            lengths.append([each.events.to_pylist() for each in record.emitted() if each.events is not None])
            missing = [f"{who!r} has no secret 'key'" for who in (("ann", "bob") if secret is None else ("bob",))]
            assert missing == [each.reason.split(";")[0] for each in record.dead()]
    assert [[], [[{"length": 6}]], [[{"length": 11}]]] == lengths
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"sesame" in path.read_bytes()]


def test_references_are_resolved_only_in_a_worker(tmp_path: Path) -> None:
    """Other code sees the reference, and an error if it tries to resolve it."""
    Vault(tmp_path).put("ann", "key", "sesame")
    plan = json.dumps({"password": {"secret": "key", "owner": "ann"}})
    config = RevealConfig.model_validate_json(plan, context={"outside": HostOutside(tmp_path)})
    assert "sesame" == config.password.revealed
    assert "sesame" not in f"{config!r} {config} {config.model_dump()} {config.model_dump_json()}"
    with pytest.raises(LookupError, match="resolved only in a host's worker"):
        _ = Secret(secret="key").revealed  # noqa: S106 - a name


def test_each_tenant_has_files_of_its_own(tmp_path: Path) -> None:
    """No name of a tenant leads to another's files, or outside. Every place needs an owner."""
    outside = HostOutside(tmp_path)
    files = tmp_path / "files"
    found = [Path(outside.place(owner, "a/b")) for owner in ("ann", "bob", "..", "ann/../bob", ".")]
    assert len(found) == len(set(found))
    assert all(
        path.resolve().is_relative_to(files.resolve()) and len(path.relative_to(files).parts) == 3 for path in found
    )
    with pytest.raises(NoBehaviour, match="the place 'a' has no owner"):
        outside.place("", "a")


def test_a_root_has_a_permanent_id(tmp_path: Path) -> None:
    """Each root has its own, and the id does not create a key."""
    names = [HostOutside(tmp_path / root).deployment for root in ("one", "one", "two")]
    assert names[0] == names[1] != names[2]
    assert not (tmp_path / "one" / VAULT_KEY).exists()


NAMES = st.one_of(
    st.sampled_from(["", ".", "..", "tmp", "=.", "a/b", "changed"]), st.text(st.characters(codec="utf-8"), max_size=15)
)


@settings(max_examples=10)
@given(kept=st.dictionaries(st.tuples(NAMES, NAMES), st.text(st.characters(codec="utf-8"), min_size=1), max_size=6))
def test_every_secret_is_found_again(
    kept: dict[tuple[str, str], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With any names of owners and secrets. Each is listed with its owner."""
    root = tmp_path_factory.mktemp("root")
    for (owner, name), secret in kept.items():
        Vault(root).put(owner, name, secret)
    vault = Vault(root)
    assert kept == {(owner, name): vault.reveal(owner, name) for owner, name in kept}
    assert sorted(kept) == sorted((owner, name) for owner in vault.owners() for name in vault.names(owner))


def test_files_and_key_are_for_their_owner_only(tmp_path: Path) -> None:
    """And no file but the key reveals a secret without it."""
    vault = Vault(tmp_path)
    vault.put("ann", "lake", "sesame")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        assert b"sesame" not in path.read_bytes()
    for path in (tmp_path / VAULT_KEY, tmp_path / VAULT_FOLDER / "=ann" / "=lake"):
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_replaced_and_removed(tmp_path: Path) -> None:
    """The version changes each time, so that a process with an old secret reads it again."""
    vault = Vault(tmp_path)
    versions = [vault.version]
    vault.put("ann", "lake", "one")
    versions.append(vault.version)
    vault.put("ann", "lake", "two")
    versions.append(vault.version)
    assert "two" == vault.reveal("ann", "lake")
    assert (True, False) == (vault.remove("ann", "lake"), vault.remove("ann", "lake"))
    versions.append(vault.version)
    assert 4 == len(set(versions))
    with pytest.raises(NoSecret, match="'ann' has no secret 'lake'; put it with `braid secrets put lake`"):
        vault.reveal("ann", "lake")


def test_a_secret_belongs_to_its_owner(tmp_path: Path) -> None:
    """Moving its file does not help, nor does another key. The message contains a remedy."""
    vault = Vault(tmp_path)
    vault.put("ann", "lake", "sesame")
    vault.put("bob", "lake", "his own")
    folder = tmp_path / VAULT_FOLDER
    (folder / "=bob" / "=lake").write_bytes((folder / "=ann" / "=lake").read_bytes())
    with pytest.raises(NoSecret, match="put it again with `braid secrets put lake`"):
        vault.reveal("bob", "lake")
    for content, reason in ((None, "is missing; restore it"), (b"short", "is not a key"), (None, "is missing")):
        (tmp_path / VAULT_KEY).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / VAULT_KEY).write_bytes(content)
        with pytest.raises(NoSecret, match=reason):
            vault.reveal("ann", "lake")
    vault.put("bob", "lake", "anew")
    assert "anew" == vault.reveal("bob", "lake")
    with pytest.raises(NoSecret, match="cannot be read with the key"):
        vault.reveal("ann", "lake")


class Now:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.at


@pytest.mark.parametrize(("most_bytes", "most_files"), [(10, 100), (100, 2)])
def test_a_tenant_s_places_have_a_bound(tmp_path: Path, most_bytes: int, most_files: int) -> None:
    """In bytes and files, over all its places, also those from before; once some are removed there is room again."""
    clock = Now()
    (tmp_path / "before").write_bytes(b"12345")

    def store(place: str) -> LocalFileStore:
        return LocalFileStore(tmp_path / place, usage)

    usage = PlaceUsage(tmp_path, most_bytes=most_bytes, most_files=most_files, clock=clock)
    store("one").put("a", b"12345")
    with pytest.raises(OutsideUnreachable, match=r"hold 2 files with 10 bytes, .*; have an operator remove some"):
        store("two").put("b", b"1")
    assert not (tmp_path / "two" / "b").exists()
    (tmp_path / "before").unlink()
    with pytest.raises(OutsideUnreachable):
        store("two").put("b", b"1")
    clock.at += 3_600.0
    store("two").put("b", b"1")


def test_what_has_no_room_is_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events for files and rows become dead letters that say why."""
    folder = tmp_path / FILES / OWNER
    folder.mkdir(parents=True)
    (folder / "before").write_bytes(b"12345")
    monkeypatch.setattr(file_stores, "_KNOWN", {folder: PlaceUsage(folder, most_bytes=4)})
    sink = Worksite(tmp_path, "file_sink", {"n": Kind.INTEGER}, to={"place": "own/readings"})
    insert = Worksite(tmp_path, "table_insert", {"n": Kind.INTEGER}, database={"place": "db"}, table="t", fields=["n"])
    parked = [*sink.parked([{"n": 1}]), *insert.parked([{"n": 1}])]
    assert [True, True] == ["and may hold 1,000,000 with 4" in reason for reason in parked]
