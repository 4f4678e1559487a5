"""The writer of a host's rounds to its store. What is written for one round is in one object, unless it is long.

From time to time the latest state is written, and everything that it does not need is removed. So a store has at most
about twice the bytes of the host's files, and few objects: what outlived its round is gathered in packs.
"""

from collections.abc import Iterator

import msgspec

from engine.replicas.store.latest import PACKS, ROUNDS, STATES, LatestState
from engine.replicas.store.objects import StoreObjects
from engine.replicas.store.sitting import CLAIM_FOLDER, Sitting
from engine.replicas.store.stored import StoredClaim, StoredFile, StoredPart, StoredRound, StoredState

PACK_BYTES = 8 << 20
"""The most bytes of contents in one object, and those of rounds after which a state is written."""
SMALL_PACK = 1 << 20
"""Packs with less are gathered in larger ones."""
MOST_MOVED = 4
"""Packs whose contents are moved at once."""
MOST_ROUNDS = 64
"""Rounds after which a state is written."""


class IncomingFile:
    """A file of the next round, as far as it came."""

    def __init__(self, path: str, size: int, mtime_ns: int) -> None:
        self.path = path
        self.size = size
        self.mtime_ns = mtime_ns
        self.digest = b""
        self.parts: list[StoredPart] = []

    @property
    def came(self) -> int:
        """The bytes that came."""
        return sum(part.size for part in self.parts)

    def stored(self) -> StoredFile:
        """The file, once all of it came."""
        return StoredFile(self.path, self.size, self.mtime_ns, self.digest, tuple(self.parts))


class StoreWriter:
    """Writes what follows a state, in a sitting; used by one thread."""

    def __init__(self, objects: StoreObjects, sitting: Sitting, before: LatestState, claim: StoredClaim) -> None:
        """Begins with a state of its own, so that it is known whose files they are."""
        self._objects = objects
        self._sitting = sitting
        self._claim = claim
        self.files = before.files.copy()
        self._whole = before.whole
        self._number = self._packs = 0
        self._rounds = self._bytes = 0
        """The rounds since the last state, and their bytes."""
        self._payloads: dict[str, bytes] = {}
        """Their contents, so that they need not be read again."""
        self._payload = bytearray()
        self._open: list[IncomingFile] = []
        """The files with a part in the payload."""
        self._write_state()
        sitting.check()

    def add(self, file: "IncomingFile", data: bytes) -> None:
        """Add a part to a file of the next round."""
        if not data:
            return
        if self._payload and len(self._payload) + len(data) > PACK_BYTES:
            self._flush()
        file.parts.append(StoredPart("", len(self._payload), len(data)))
        if not self._open or self._open[-1] is not file:
            self._open.append(file)
        self._payload += data

    def write(self, done: StoredRound) -> None:
        """Write a round. It counts if this does not raise."""
        self._number += 1
        name = f"{ROUNDS}/{self._sitting.name}-{self._number:010d}"
        payload = self._payloads[name] = bytes(self._payload)
        self._objects.put(name, payload, done)
        self._sitting.check()
        self.files.apply(done, name)
        self._whole = not done.portion
        self._rounds += 1
        self._bytes += len(self._payload)

    def forget(self) -> None:
        """Forget what was added for a round."""
        self._payload, self._open = bytearray(), []

    def check(self) -> None:
        """Raise if the store is another's by now, or away."""
        self._sitting.check()

    @property
    def is_whole(self) -> bool:
        """Whether a host could begin from what was written."""
        return self._whole

    @property
    def is_full(self) -> bool:
        """Whether it is time for a state; one that no host could begin from would take the place of one that could."""
        return self._whole and (self._rounds >= MOST_ROUNDS or self._bytes >= PACK_BYTES)

    def gather(self) -> None:
        """Write the latest state, and remove what it does not need."""
        there = {
            f"{of}/{name}": size
            for of in (ROUNDS, PACKS, STATES, CLAIM_FOLDER)
            for name, size in self._objects.sizes(of).items()
        }
        live = self.files.live()
        rounds = {name for name in live if name.startswith(ROUNDS)}
        packs = live.keys() - rounds
        worn = [name for name in packs if there.get(name, 0) < SMALL_PACK or 2 * live[name] < there.get(name, 0)]
        # Those with the least first, and not all at once: rounds wait meanwhile.
        moving = {*rounds, *sorted(worn, key=lambda name: live[name])[:MOST_MOVED]}
        self._move(moving)
        needed = {*self.files.live(), self._write_state(), f"{CLAIM_FOLDER}/{self._sitting.name}"}
        self._sitting.check()
        # What came meanwhile is not in the list. A higher sitting begins from this state, or from a later one.
        self._objects.remove(name for name in sorted(there) if name not in needed)

    def _write_state(self) -> str:
        name = f"{STATES}/{self._sitting.name}-{self._number:010d}"
        state = StoredState(
            root=self._claim.root,
            machine=self._claim.machine,
            whole=self._whole,
            files=tuple(self.files.files.values()),
            folders=tuple(self.files.folders),
        )
        self._objects.put(name, b"", state)
        self._rounds = self._bytes = 0
        self._payloads.clear()
        return name

    def _move(self, names: set[str]) -> None:
        """Move what files need of some objects to new packs."""
        moved: dict[StoredPart, StoredPart] = {}
        payload, waiting = bytearray(), list[StoredPart]()
        for name in sorted(names):
            content = self._payloads.get(name)
            if content is None:
                content, _ = self._objects.get(name, msgspec.Raw)
            for part in self._parts_in(name):
                if payload and len(payload) + part.size > PACK_BYTES:
                    moved |= self._packed(payload, waiting)
                    payload, waiting = bytearray(), []
                waiting.append(part)
                payload += content[part.at : part.at + part.size]
        if payload:
            moved |= self._packed(payload, waiting)
        for path, file in self.files.files.items():
            if any(part.object in names for part in file.parts):
                self.files.files[path] = msgspec.structs.replace(
                    file, parts=tuple(moved.get(part, part) for part in file.parts)
                )

    def _parts_in(self, name: str) -> Iterator[StoredPart]:
        for file in self.files.files.values():
            for part in file.parts:
                if part.object == name:
                    yield part

    def _packed(self, payload: bytearray, parts: list[StoredPart]) -> dict[StoredPart, StoredPart]:
        name, at = self._pack(payload), 0
        moved = {}
        for part in parts:
            moved[part] = StoredPart(name, at, part.size)
            at += part.size
        return moved

    def _flush(self) -> None:
        """Write the payload before its round."""
        name = self._pack(self._payload)
        for file in self._open:
            file.parts = [part if part.object else StoredPart(name, part.at, part.size) for part in file.parts]
        self.forget()

    def _pack(self, payload: bytearray) -> str:
        self._packs += 1
        name = f"{PACKS}/{self._sitting.name}-{self._packs:010d}"
        self._objects.put(name, bytes(payload))
        return name
