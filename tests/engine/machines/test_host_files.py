"""The files of a host besides its own: found in a common folder, and an id that goes with the copies."""

import shutil
from pathlib import Path

from engine.machines.carried_host import keep_deployment, link_common
from engine.outside import HostOutside, Vault


def test_secrets_of_the_common_folder_are_found_in_each_root(tmp_path: Path) -> None:
    """Whether they were kept before the root was linked, or after."""
    common, root = tmp_path / "common", tmp_path / "root"
    link_common(root, common)
    link_common(root, common)
    Vault(common).put("ann", "token", "hush")
    assert "hush" == HostOutside(root).secret("ann", "token")


def test_a_root_that_is_the_common_folder_is_not_linked(tmp_path: Path) -> None:
    """A link to itself would hide what comes."""
    link_common(tmp_path, tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_effects_outside_have_one_name_wherever_the_host_is_carried(tmp_path: Path) -> None:
    """The id is in a folder that is copied, so that a repeated batch writes under the same names."""
    first, second = tmp_path / "first", tmp_path / "second"
    keep_deployment(first, "ash")
    shutil.copytree(first / "hosts", second / "hosts")
    keep_deployment(second, "ash")
    assert HostOutside(first).deployment == HostOutside(second).deployment


def test_hosts_have_ids_of_their_own(tmp_path: Path) -> None:
    """Two that begin apart do not write under each other's names."""
    for name in ("ash", "elm"):
        keep_deployment(tmp_path / name, name)
    assert HostOutside(tmp_path / "ash").deployment != HostOutside(tmp_path / "elm").deployment
