"""Laws of looks at a root that a host changes meanwhile."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.replicas.root_look import FileVersion, RootFolders, RootLook, SeenFolder, Tree
from tests.engine.replicas.crash_oracle import faults
from tests.engine.replicas.host_model import HostModel

QUIET = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Kept:
    """A copy as an owner builds it by looks, in memory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree: Tree = {}
        self.files: dict[str, bytes] = {}

    def take(self, found: Tree) -> bool:
        """Take what was found; False if some of it is gone already."""
        files: dict[str, bytes] = {}
        for folder, names in found.items():
            for name, version in names.items():
                path = f"{folder}/{name}"
                if self.tree.get(folder, {}).get(name) == version:
                    files[path] = self.files[path]
                    continue
                try:
                    found_now = (self.root / path).stat()
                except FileNotFoundError:
                    return False
                if FileVersion(found_now.st_size, found_now.st_mtime_ns, found_now.st_ino) != version:
                    return False
                files[path] = (self.root / path).read_bytes()
        self.tree, self.files = found, files
        return True


@QUIET
@given(
    seed=st.integers(0, 2**32),
    before=st.integers(0, 200),
    busy=st.sampled_from((0, 0, 1)),
    burst=st.sampled_from((10, 30, 60, 120)),
)
def test_a_host_could_go_on_from_every_look(
    tmp_path_factory: pytest.TempPathFactory, seed: int, before: int, busy: int, burst: int
) -> None:
    """Whatever the host does between any two listings of a look, what is found is what a crash might have left."""
    root = tmp_path_factory.mktemp("root")
    look, kept, listings = RootLook(root), Kept(root), 0
    with pytest.MonkeyPatch.context() as patch:
        # No power fails here.
        patch.setattr(os, "fsync", lambda _handle: None)
        model = HostModel(root, seed)
        for _ in range(before):
            model.step()
        listed = RootFolders.seen

        def seen(self: RootFolders, folder: str) -> SeenFolder:
            # A look stalls once, or is not disturbed at all.
            nonlocal listings
            listings -= 1
            for _ in range(burst if listings == 0 else model.chance.choice((0, 0, 0, busy)) if listings > 0 else 0):
                model.step()
            return listed(self, folder)

        patch.setattr(RootFolders, "seen", seen)
        for stalls in (False, True) * 12:
            # A look soon after another finds most files known, so it holds together though much goes meanwhile.
            listings = model.chance.randint(1, 65) if stalls else 0
            found = look.whole(kept.tree)
            if found is not None and kept.take(found):
                assert [] == list(faults(kept.files))
            for _ in range(0 if stalls else model.chance.choice((0, 5, 20))):
                model.step()
        listings = busy = 0
        found = look.whole(kept.tree)
        assert found is not None
        assert kept.take(found)
        assert [] == list(faults(kept.files))
    on_disk = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert on_disk == set(kept.files)
