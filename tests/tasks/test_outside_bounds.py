"""Limits of tenants outside: no connections within the operator's network, and no full disks of hosts."""

import json
import shutil
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dags import Kind, Secret
from engine.implementations.outside.file_stores import FILE_SYSTEMS, LocalFileStore, PlaceUsage, hosts_of
from engine.outside import HostOutside, allowed, listed
from tests.tasks.worksite import Worksite, allow, keep_secret

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
