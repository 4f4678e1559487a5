"""Where a machine has the copies of its hosts in object storage."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.replicas.copy_tls import CopyTls
from engine.replicas.store.channel import StoreChannel
from engine.replicas.store.objects import StoreObjects
from ring.fleet import STORE


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store, as the machine's option names it."""

    url: str
    identity: str
    """The id of the machine's root."""

    @property
    def machine(self) -> str:
        """The name by which it counts beside machines."""
        return STORE

    def connect(self, host: str, root: Path, _tls: CopyTls | None, on_answer: Callable[[], None]) -> StoreChannel:
        """Open the store; nothing is asked of it yet."""
        return StoreChannel(StoreObjects(self.url, host, on_answer=on_answer), root=root, identity=self.identity)
