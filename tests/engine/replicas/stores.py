"""Stores for tests: in memory, with a step before and after each change, at which they break or are looked at."""

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import fsspec

from bridge.files import Steps, no_steps
from engine.replicas.channel import CopyTls
from engine.replicas.store_copy import StoreConnection, restore
from engine.replicas.store_objects import StoredClaim, StoreObjects
from ring.fleet import STORE

OTHER = StoredClaim(machine="new", root="the root of new")


class MemoryStore:
    """A store of its own for the host `h`, and where it is as a destination of copies."""

    machine = STORE

    def __init__(self, step: Steps = no_steps, identity: str = "the root of a") -> None:
        self.url = f"memory://{uuid.uuid4().hex}"
        self._step = step
        self._identity = identity

    def connect(self, host: str, root: Path, _tls: CopyTls | None, on_answer: Callable[[], None]) -> StoreConnection:
        objects = StoreObjects(self.url, host, step=self._step, on_answer=on_answer)
        return StoreConnection(objects, root=root, identity=self._identity)

    def objects(self) -> StoreObjects:
        return StoreObjects(self.url, "h")

    def names(self) -> list[str]:
        """The names of all objects."""
        found = self.objects()
        return [f"{of}/{name}" for of in ("claims", "packs", "rounds", "states") for name in found.sizes(of)]

    def path(self, name: str) -> str:
        return f"{self.url}/h/{name}"

    def contents(self) -> dict[str, bytes]:
        """All objects, by their names."""
        return {name: fsspec.filesystem("memory").cat_file(self.path(name)) for name in self.names()}

    def put(self, name: str, content: bytes) -> None:
        fsspec.filesystem("memory").pipe_file(self.path(name), content)

    def remove(self, name: str) -> None:
        fsspec.filesystem("memory").rm_file(self.path(name))

    def restored(self, place: Path, term: int = 9) -> Path:
        """Its host in an empty folder; for each time, a higher term."""
        shutil.rmtree(place, ignore_errors=True)
        restore(self.objects(), term, place, OTHER)
        return place
