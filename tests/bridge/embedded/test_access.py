"""The files of the embedded broker's users and access lists."""

from pathlib import Path

import pytest

from bridge.embedded import hashed
from bridge.embedded.access import Door, UnfitList

LIST = """user braid
topic readwrite #
topic readwrite $SYS/#

user tenant-ann
topic read braid/1/out/ann/#
topic write city/street 1
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    passwords, access_list = tmp_path / "passwords", tmp_path / "acl"
    passwords.write_text(f"tenant-ann:{hashed('a secret')}\nbraid:{hashed('another')}\n")
    access_list.write_text(LIST)
    return passwords, access_list


def test_a_list_permits_what_it_says(files: tuple[Path, Path]) -> None:
    """Everything that no line permits is forbidden, for reading and for writing."""
    door = Door(*files)
    asked = [
        ("read", "braid/1/out/ann/d/s"),
        ("read", "braid/1/out/ann"),
        ("write", "city/street 1"),
        ("read", "braid/1/out/bob/d/s"),
        ("write", "braid/1/out/ann/d/s"),
        ("read", "city/street 1"),
        ("write", "city/street 1/below"),
    ]
    assert [True] * 3 + [False] * 4 == [door.permits("tenant-ann", access, topic) for access, topic in asked]  # type: ignore[arg-type]  # they are literals
    assert [True, True] == [door.permits("braid", "read", topic) for topic in ("a", "$SYS/broker/uptime")]
    assert not door.permits("tenant-bob", "read", "braid/1/out/bob/d")


def test_without_a_list_users_may_do_everything(files: tuple[Path, Path]) -> None:
    """A listener for Braid's own users has none."""
    door = Door(files[0])
    assert [True, False] == [door.permits(user, "write", "anything") for user in ("braid", "nobody")]


def test_a_key_holds_until_the_password_changes(files: tuple[Path, Path]) -> None:
    """An accepted user would be accepted again as long as the file has the same hash for that user."""
    door = Door(*files)
    key = door.key("tenant-ann", b"a secret")
    assert key is not None
    assert [None, None, None] == [
        door.key(*each) for each in (("tenant-ann", b"wrong"), ("tenant-bob", b"a secret"), (None, None))
    ]
    assert door.current("tenant-ann", key)
    files[0].write_text(f"tenant-ann:{hashed('a new one')}\n")
    door.read()
    assert not door.current("tenant-ann", key)
    assert [True, False] == [door.knows(user) for user in ("tenant-ann", "braid")]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("passwords", "ann\n", "line 1: expected user:hash"),
        ("passwords", "ann:hush\n", "line 1: expected user:hash"),
        ("acl", "topic read a\n", "line 1: expected user NAME"),
        ("acl", "user ann\ntopic a\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\ntopic deny a\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\ntopic read a/#/b\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\npattern read %u/#\n", "line 2: expected user NAME"),
    ],
)
def test_a_list_that_cannot_be_read_changes_nothing(
    files: tuple[Path, Path], tmp_path: Path, name: str, content: str, reason: str
) -> None:
    """It is refused as a whole, with file and line but no secret; the old content stays in force."""
    door = Door(*files)
    (tmp_path / name).write_text(content)
    with pytest.raises(UnfitList, match=rf"{name}, {reason}") as refused:
        door.read()
    assert "hush" not in str(refused.value)
    assert door.permits("tenant-ann", "write", "city/street 1")
    assert door.key("tenant-ann", b"a secret") is not None
