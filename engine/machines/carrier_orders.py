"""Orders of who carries a host and who gets copies of its files, as the leading manager publishes them."""

import logging
from pathlib import Path
from urllib.parse import quote

import msgspec

from bridge.files import make_folder, write_whole
from engine.replicas.peer_sender import PeerAddress

log = logging.getLogger("braid.host")


class CarrierOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The latest carriage of a host, with the addresses of its peers."""

    host: str
    machine: str
    term: int
    version: int
    root: str = ""
    """The id of the carrier's root; a machine with another one has lost the files."""
    heir: str = ""
    peers: tuple[PeerAddress, ...] = ()
    kept_by: frozenset[str] = frozenset()

    @property
    def age(self) -> tuple[int, int]:
        """Orders the orders for one host from old to new."""
        return self.term, self.version

    def concerns(self, machine: str) -> bool:
        """Whether a machine carries the host, or is to have its files."""
        return machine in {self.machine, self.heir, *(each.machine for each in self.peers)}

    def with_counted(self, peers: frozenset[str]) -> "CarrierOrder":
        """The order, with more peers that count."""
        return msgspec.structs.replace(self, kept_by=self.kept_by | peers)

    def after(self, known: "CarrierOrder | None") -> "CarrierOrder":
        """The later of two orders for a host. An equal one may have new addresses, but what counts goes on to count."""
        if known is None or self.age > known.age:
            return self
        return self.with_counted(known.kept_by) if self.age == known.age else known


_DECODER = msgspec.json.Decoder(CarrierOrder)


def read_order(payload: bytes) -> CarrierOrder:
    """Read an order; raises ValueError."""
    return _DECODER.decode(payload)


class OrderStore:
    """The orders that a machine has taken up, so that without a broker it still knows what it carries."""

    def __init__(self, root: Path, machine: str) -> None:
        self._folder = root / "machines" / quote(machine, safe="")
        make_folder(self._folder)

    def keep(self, order: CarrierOrder) -> None:
        """Keep an order durably. Only then may it be acted upon."""
        # It holds the peers' secrets.
        write_whole(self._folder / f"{quote(order.host, safe='')}.json", msgspec.json.encode(order), mode=0o600)

    def all(self) -> list[CarrierOrder]:
        """The latest order for each host."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(read_order(path.read_bytes()))
            except (ValueError, OSError) as error:
                log.warning("%s is passed over, because it cannot be read: %s", path, error)
        return found
