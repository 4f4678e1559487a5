"""The sitting of a host's owner at its store: from its claim on, nothing that lower ones write counts.

A round counts if no higher claim is there after it was written. A higher owner first claims, and then reads. So either
it reads the round, or the round does not count.
"""

import uuid

from engine.replicas.store.objects import StoreObjects
from engine.replicas.store.stored import StoredClaim

CLAIM_FOLDER = "claims"


class HigherTerm(ConnectionError):
    """A store that a later carrier of the host writes to."""

    def __init__(self, objects: StoreObjects, term: int) -> None:
        super().__init__(f"the store {objects.url} follows a carrier of term {term}")
        self.term = term


class HigherSitting(ConnectionError):
    """A store that another connection of the same carrier writes to."""


class Sitting:
    """One sitting; it begins by claiming the store."""

    def __init__(self, objects: StoreObjects, term: int, claim: StoredClaim) -> None:
        """Raises HigherTerm, or HigherSitting: then another attempt gets the store."""
        self._objects = objects
        self.term = term
        self._number = 0
        self._number = 1 + max((number for of, number, _ in self._claims() if of == term), default=0)
        self.name = f"{term:010d}-{self._number:08d}-{uuid.uuid4().hex[:12]}"
        self.check()
        objects.put(f"{CLAIM_FOLDER}/{self.name}", b"", claim)
        self.check()

    def check(self) -> None:
        """Raise if the store is another's by now. What was written before counts if this does not raise."""
        for term, number, name in self._claims():
            if term > self.term:
                raise HigherTerm(self._objects, term)
            if term == self.term and number >= self._number and name != self.name:
                raise HigherSitting(f"the store {self._objects.url} has a later connection of this host")

    def _claims(self) -> list[tuple[int, int, str]]:
        return [(int(name[:10]), int(name[11:19]), name) for name in self._objects.sizes(CLAIM_FOLDER)]
