"""Limits of tenants outside: which connections and how much disk, and whose secrets and places."""

import asyncio
import json
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import fsspec.asyn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.spools.log import packed
from dags import Kind, Secret
from engine.behaviour import NoBehaviour
from engine.implementations.outside import file_stores
from engine.implementations.outside.file_stores import (
    FILE_SYSTEMS,
    LocalFileStore,
    OpenedFolder,
    PlaceUsage,
    RemoteFileStore,
    guarded,
    hosts_of,
)
from engine.outside import FILES, VAULT_FOLDER, VAULT_KEY, HostBarred, HostOutside, NoSecret, Vault, allowed, listed
from engine.plan import Forward, Plan
from engine.records.job_folder import spool_folder
from engine.side_effect import OutsideUnreachable
from tests.engine.kernels import enters, events, slot
from tests.tasks.revealing import RevealConfig
from tests.tasks.worksite import OWNER, Worksite, allow, keep_secret
from tests.twins.twin_job import TwinJob

NOT_LISTED = (
    "its host is not on the internet; tasks may connect to it only if an operator lists the host or its network in "
    "the file 'reachable' of the root"
)


HOSTS = ["127.0.0.1", "localhost", "0x7f.1", "0", "169.254.169.254", "10.0.0.1"]


@pytest.mark.parametrize("host", [*HOSTS, "[::1]", "[::ffff:127.0.0.1]"])
def test_a_database_of_the_operator_is_barred(tmp_path: Path, host: str) -> None:
    """In any notation of its address. The URL is not shown, and no event is tried alone."""
    database = keep_secret(tmp_path, "warehouse", f"postgresql://me:sesame@{host}/d")
    insert = Worksite(tmp_path, "table_insert", {"n": Kind.INTEGER}, database=database, table="t", fields=["n"])
    expected = f"engine.side_effect.OutsideUnreachable: the database 'warehouse' cannot be used: {NOT_LISTED}"
    assert [expected, expected] == insert.parked([{"n": 1}, {"n": 2}])


@pytest.mark.parametrize("host", HOSTS)
def test_a_folder_of_the_operator_is_barred(tmp_path: Path, host: str) -> None:
    """Before the file system connects."""
    folder = keep_secret(tmp_path, "lake", f"ftp://me:sesame@{host}/x")
    upload = Worksite(tmp_path, "blob_upload", {"text": Kind.STRING}, to=folder, field="text")
    (reason,) = upload.parked([{"text": "warm"}])
    assert reason.endswith(f"the secret 'lake' cannot be used: {NOT_LISTED}")


@pytest.mark.parametrize("password", ["ses::ame", "ses ame", "ses%2Fame", "ses:@ame"])
def test_a_password_may_hold_any_character(tmp_path: Path, password: str) -> None:
    """What is said of the URL is what is wrong with it: here its host."""
    folder = keep_secret(tmp_path, "lake", f"ftp://me:{password}@127.0.0.1/x")
    upload = Worksite(tmp_path, "blob_upload", {"text": Kind.STRING}, to=folder, field="text")
    assert [f"the secret 'lake' cannot be used: {NOT_LISTED}"] == upload.parked([{"text": "warm"}])


@pytest.mark.parametrize("name", ["127.0.0.1", "127.0.0.0/8"])
def test_a_url_may_lead_to_a_listed_host(tmp_path: Path, name: str) -> None:
    """From the next batch on, by an address or a network."""
    database = keep_secret(tmp_path, "warehouse", "postgresql://me:sesame@127.0.0.1:1/d")
    insert = Worksite(tmp_path, "table_insert", {"n": Kind.INTEGER}, database=database, table="t", fields=["n"])
    assert [True] == [NOT_LISTED in reason for reason in insert.parked([{"n": 1}])]
    allow(tmp_path, "# our warehouse", "", name)
    (reason,) = insert.parked([{"n": 2}])
    assert reason.startswith("engine.side_effect.OutsideUnreachable: the database 'warehouse' cannot be used: ")
    assert NOT_LISTED not in reason


@pytest.mark.parametrize(
    ("addresses", "names", "expected"),
    [
        (["8.8.8.8", "2606:4700::1111"], [], True),
        (["8.8.8.8", "10.0.0.1"], [], False),
        (["8.8.8.8", "10.0.0.1"], ["10.0.0.1"], True),
        (["10.0.0.1", "10.1.0.1"], ["10.0.0.0/16"], False),
        (["10.0.0.1"], ["warehouse"], True),
        (["224.0.0.1"], [], False),
        (["100.64.0.1"], [], False),
        (["fd00::1"], ["fd00::/8", "10.0.0.0/8"], True),
        (["::ffff:10.0.0.1"], [], False),
        (["::ffff:8.8.8.8"], [], True),
        (["::ffff:10.0.0.1"], ["10.0.0.0/8"], True),
        (["::127.0.0.1"], [], False),
        (["64:ff9b::8.8.8.8"], [], True),
        (["64:ff9b::169.254.169.254"], [], False),
        (["2002:7f00:1::1"], [], False),
        (["2002:808:808::1"], [], True),
    ],
)
def test_each_address_of_a_host_has_to_be_allowed(addresses: list[str], names: list[str], expected: bool) -> None:  # noqa: FBT001 - it is a column of the table
    """A single other address would be enough to get in."""
    assert expected is allowed("warehouse", [ip_address(each) for each in addresses], names)


def test_a_host_that_is_not_found_is_barred(tmp_path: Path) -> None:
    """Some driver might read more than one host from it."""
    assert "its host cannot be found; correct the URL" == HostOutside(tmp_path).barred("127.0.0.1,127.0.0.1")
    assert [] == listed(tmp_path / "reachable")


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("sftp://me:sesame@files.example/x", {}, ("files.example",)),
        ("s3://lake/x", {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9000"}, ("127.0.0.1",)),
        ("s3://lake/x", {"key": "k", "secret": "s", "endpoint_url": "127.0.0.1:9000"}, ("",)),
        ("s3://lake/x", {"anon": True}, ()),
        (
            "gs://lake/x",
            {"token": {"client_email": "a", "token_uri": "http://169.254.169.254/x"}},
            ("169.254.169.254",),
        ),
    ],
)
def test_every_host_of_a_secret_is_checked(url: str, options: dict[str, Any], expected: tuple[str, ...]) -> None:
    """In its URL and its options. A URL without a host counts as an empty one, which is never found."""
    assert expected == hosts_of(FILE_SYSTEMS[url.partition(":")[0]], url, options)


@pytest.mark.parametrize(
    "secret",
    [
        {"url": "abfs://lake/x", "account_name": "127.0.0.1/", "account_key": "k"},
        {"url": "abfs://lake@127.0.0.1\\.dfs.core.windows.net/x", "account_name": "mine", "account_key": "k"},
    ],
)
def test_an_account_leads_to_no_other_host(tmp_path: Path, secret: dict[str, str]) -> None:
    """Its name becomes part of a host's name."""
    to = keep_secret(tmp_path, "lake", json.dumps(secret))
    (reason,) = Worksite(tmp_path, "blob_upload", {"text": Kind.STRING}, to=to, field="text").parked([{"text": "warm"}])
    assert "the secret 'lake' has no valid name of an account or container of Azure; correct it" in reason


def test_only_a_worker_knows_where_a_secret_may_lead(tmp_path: Path) -> None:
    """Code that only reads a document cannot ask."""
    with pytest.raises(LookupError, match="resolved only in a host's worker"):
        Secret(secret="lake").barred("127.0.0.1")  # noqa: S106 - a name
    assert NOT_LISTED == HostOutside(tmp_path).barred("127.0.0.1")


class Usage(NamedTuple):
    """What a disk has."""

    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("free", "total", "refused"),
    [(2**30 - 1, 2**40, True), (2**30, 2**40, False), (49, 1_000, True), (50, 1_000, False)],
)
def test_places_leave_room_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    total: int,
    refused: bool,  # noqa: FBT001 - it is a column of the table
) -> None:
    """Files and rows are parked, and files are still read."""
    LocalFileStore(tmp_path, PlaceUsage(tmp_path)).put("before", b"warm")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(total, total - free, free))
    insert = Worksite(tmp_path, "table_insert", {"n": Kind.INTEGER}, database={"place": "db"}, table="t", fields=["n"])
    sink = Worksite(tmp_path, "file_sink", {"n": Kind.INTEGER}, to={"place": "own"})
    parked = [*insert.parked([{"n": 1}]), *sink.parked([{"n": 1}])]
    assert (2 if refused else 0) == len(parked)
    assert all("must stay free; make room" in reason for reason in parked)
    assert b"warm" == LocalFileStore(tmp_path, PlaceUsage(tmp_path)).read("before", 4)


LISTED, OTHER = "127.0.0.1", "127.0.0.2"
NAME = "moves.example"


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    """A tenant's secret at a host whose operator lists one address."""
    keep_secret(tmp_path, "lake", "unused")
    allow(tmp_path, LISTED)
    return Secret.model_validate({"secret": "lake", "owner": OWNER}, context={"outside": HostOutside(tmp_path)})


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which both addresses take connections."""
    with socket.create_server((LISTED, 0)) as first:
        number = first.getsockname()[1]
        with socket.create_server((OTHER, number)):
            yield number


def looked_up(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Have each look-up of the name give the next of some addresses."""
    left, ask = list(answers), socket.getaddrinfo

    def answer(host: Any, port: Any, *about: Any, **more: Any) -> Any:
        return ask(left.pop(0) if host == NAME else host, port, *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def connect(address: str, port: int) -> None:
    socket.create_connection((address, port), timeout=5).close()


def test_a_name_with_another_address_the_second_time_leads_nowhere(
    secret: Secret, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that is connected to is checked, not only the one that was looked up first."""
    looked_up(monkeypatch, LISTED, LISTED, LISTED, OTHER)
    with guarded(secret, [NAME]):
        connect(NAME, port)
    with guarded(secret, [NAME]) as guard, pytest.raises(HostBarred, match="tasks may not connect to"):
        connect(NAME, port)
    assert "only an operator can allow it" in guard.refused


def test_a_listed_name_leads_to_the_addresses_that_it_has(
    tmp_path: Path, secret: Secret, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that lists a name need not list its addresses; another address is as barred as before."""
    allow(tmp_path, NAME)
    looked_up(monkeypatch, OTHER, OTHER)
    with guarded(secret, [NAME]):
        connect(NAME, port)
        with pytest.raises(HostBarred):
            connect(LISTED, port)


def test_a_library_s_own_thread_is_guarded_too(secret: Secret, port: int) -> None:
    """File systems connect in a thread of fsspec, where a server may redirect them; afterwards it is free again."""

    async def follow(address: str) -> None:
        _, writer = await asyncio.open_connection(address, port)
        writer.close()
        await writer.wait_closed()

    loop = fsspec.asyn.get_loop()
    with guarded(secret, [LISTED]):
        fsspec.asyn.sync(loop, follow, LISTED)
        with pytest.raises(HostBarred):
            fsspec.asyn.sync(loop, follow, OTHER)
    fsspec.asyn.sync(loop, follow, OTHER)


def test_sockets_of_the_machine_are_barred(tmp_path: Path, secret: Secret) -> None:
    """They have no address that an operator could list."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        with guarded(secret, ()), pytest.raises(HostBarred):
            client.connect(path)
        client.connect(path)


def test_a_remote_store_says_why_it_was_not_reached(secret: Secret, port: int) -> None:
    """Whatever the file system makes of a refused connection, the reason is the operator's rule."""

    class Redirected:
        def cat_file(self, *_path: Any, **_about: Any) -> bytes:
            try:
                connect(OTHER, port)
            except OSError as error:
                raise RuntimeError("it is hidden what happened") from error
            return b""

    folder = OpenedFolder(system=Redirected(), path="lake", renames=False, hosts=())
    store = RemoteFileStore(folder, "lake", lambda: guarded(secret, ()))
    with pytest.raises(OutsideUnreachable, match="lake cannot be read: it leads to an address that tasks may not"):
        store.read("a", 4)


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
