"""Secrets and places, from the root to the task that names them."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from bridge import Item, Spool
from bridge.spools.log import packed
from dags import Secret
from engine.behaviour import NoBehaviour
from engine.outside import VAULT_KEY, HostOutside, Vault
from engine.plan import Forward, Plan
from engine.records.job_folder import spool_folder
from tests.engine.kernels import enters, events, slot
from tests.tasks.revealing import RevealConfig
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
