"""The options for object storage of `braid host`: what the command says before it begins."""

from pathlib import Path

import pytest

from engine.host.command import look_at_store


@pytest.mark.parametrize(
    ("url", "restore", "accept_loss", "why"),
    [
        ("", True, False, "--restore and --accept-loss are about a store; give --store as well"),
        ("", False, True, "--restore and --accept-loss are about a store; give --store as well"),
        ("file:///s", False, True, "--accept-loss is for --restore; give both or none"),
        ("bucket", False, False, "'bucket' is no URL of a store; give one such as s3://bucket/folder or file:///mnt/"),
        ("memory://none", True, False, "memory://none/h has no files of a host; see whether URL and name are those of"),
    ],
)
def test_the_command_does_not_begin_with_a_store_that_does_not_fit(
    tmp_path: Path, url: str, why: str, *, restore: bool, accept_loss: bool
) -> None:
    """It says in one line what to do, and leaves the folder empty."""
    with pytest.raises(ValueError, match=f"^{why}"):
        look_at_store("h", tmp_path / "root", url, restore=restore, accept_loss=accept_loss)
    assert [] == list(tmp_path.iterdir())


def test_a_store_that_is_only_written_to_is_not_asked(tmp_path: Path) -> None:
    """It may be away for a moment; the leader drops it as long as it is."""
    assert "" == look_at_store("h", tmp_path, "s3://bucket/folder", restore=False, accept_loss=False)
    assert "" == look_at_store("h", tmp_path, "", restore=False, accept_loss=False)
