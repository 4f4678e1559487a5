"""A store behind a real S3 API."""

from pathlib import Path

import pytest

from engine.replicas import store_copy
from engine.replicas.copies import HostSuperseded, Replicator
from engine.replicas.store_copy import NothingStored, StoreAddress, restorable, restore
from engine.replicas.store_objects import StoreAway, StoreObjects
from ring.fleet import STORE
from tests.engine.replicas.scene import Scene, files
from tests.engine.replicas.store.stores import OTHER
from tests.s3 import serving_s3


@pytest.mark.full
def test_a_host_is_restored_from_a_bucket(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After objects were gathered and removed; the owner before ends, and a bucket that is not there is named."""
    monkeypatch.setattr(store_copy, "MOST_ROUNDS", 5)
    with serving_s3() as url:
        with pytest.raises(NothingStored):
            restorable(StoreObjects(url, "h"))
        with pytest.raises(StoreAway, match="is not there"):
            StoreObjects("s3://no-such-bucket", "h").put("claims/1", b"")
        replicator = Replicator(
            "h", scene.root, "a", on_kept=scene.kept.release, store=StoreAddress(url=url, identity="the root of a")
        )
        scene.replicators.append(replicator)
        replicator.order(1, [], frozenset({STORE}))
        for number in range(20):
            path = scene.append(number, b"x" * 10_000)
            replicator.settle(path.parent)
            if number > 2:
                (path.parent / f"{number - 3:020d}-{number - 2:020d}").unlink()
        replicator.settle()
        restore(StoreObjects(url, "h"), 2, tmp_path / "new", OTHER)
        assert files(scene.root) == files(tmp_path / "new")
        assert sum(map(len, (StoreObjects(url, "h").sizes(of) for of in ("rounds", "packs", "states")))) < 15
        scene.append(20)
        with pytest.raises(HostSuperseded):
            replicator.settle()
