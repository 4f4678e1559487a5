"""Messages of the manager to machines: orders of who carries which host, and the files that tasks of any host read.

The files are for machines without a common folder. They go over the broker, in retained parts, on topics that tenants
cannot read. A list of all files, with their digests, comes last, and only by it they take effect: files that it does
not name are removed. So a machine has exactly what the manager has, however often the broker or either of them was
away. Secrets are sent as the vault keeps them: encrypted. The vault's key is never sent.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from bridge import topics
from bridge.files import make_folder, write_whole
from engine.code.store import CODE_FOLDER, VOUCHERS
from engine.outside import REACHABLE, VAULT_FOLDER
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
        return machine in {self.machine, self.heir, *(peer.machine for peer in self.peers)}

    def with_counted(self, peers: frozenset[str]) -> "CarrierOrder":
        """The order, with more peers that count."""
        return msgspec.structs.replace(self, kept_by=self.kept_by | peers)

    def after(self, known: "CarrierOrder | None") -> "CarrierOrder":
        """The later of two orders for a host. An equal one may have new addresses, but what counts goes on to count."""
        if known is None or self.age > known.age:
            return self
        return self.with_counted(known.kept_by) if self.age == known.age else known


_ORDER_DECODER = msgspec.json.Decoder(CarrierOrder)


def read_order(payload: bytes) -> CarrierOrder:
    """Read an order; raises ValueError."""
    return _ORDER_DECODER.decode(payload)


class OrderStore:
    """The orders that a machine has taken up, so that without a broker it still knows what it carries."""

    def __init__(self, root: Path, machine: str) -> None:
        self._folder = root / "machines" / quote(machine, safe="")
        make_folder(self._folder)

    def keep(self, order: CarrierOrder) -> None:
        """Keep an order durably, before anything acts upon it."""
        # It holds the peers' secrets.
        write_whole(self._folder / f"{quote(order.host, safe='')}.json", msgspec.json.encode(order), mode=0o600)

    def all(self) -> list[CarrierOrder]:
        """The latest order for each host."""
        orders = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                orders.append(read_order(path.read_bytes()))
            except (ValueError, OSError) as error:
                log.warning("%s is passed over, because it cannot be read: %s", path, error)
        return orders


_LIST = "list"
_PART_BYTES = 512 * 1024
_IS_THERE = b"="
"""The first byte of each part: the broker would take an empty message for none."""
_NAME = r"=[\w.~%-]+"
_PATH = re.compile(
    rf"{CODE_FOLDER}/[0-9a-f]{{64}}\.py|{CODE_FOLDER}/wheels/[0-9a-f]{{64}}\.whl|{re.escape(VOUCHERS)}|{REACHABLE}"
    rf"|{VAULT_FOLDER}/(?:changed|{_NAME}/{_NAME})",
    re.ASCII,
)


class _Listed(msgspec.Struct, frozen=True):
    digest: str
    parts: int


_FILES = msgspec.json.Decoder(dict[str, _Listed])


def common_files(root: Path) -> Iterator[str]:
    """The paths of all such files in a root."""
    places = (f"{CODE_FOLDER}/*.py", f"{CODE_FOLDER}/wheels/*.whl", VOUCHERS, REACHABLE, f"{VAULT_FOLDER}/**/*")
    for place in places:
        for path in root.glob(place):
            if path.is_file() and _PATH.fullmatch(name := path.relative_to(root).as_posix()):
                yield name


def common_messages(root: Path) -> dict[str, bytes]:
    """The retained messages that bring these files, by topic; the list is the last."""
    messages, listed = dict[str, bytes](), dict[str, _Listed]()
    for name in sorted(common_files(root)):
        try:
            content = (root / name).read_bytes()
        except FileNotFoundError:
            continue
        parts = [content[at : at + _PART_BYTES] for at in range(0, max(1, len(content)), _PART_BYTES)]
        messages |= {_topic(name, number): _IS_THERE + part for number, part in enumerate(parts)}
        listed[name] = _Listed(hashlib.sha256(content).hexdigest(), len(parts))
    return {**messages, topics.common(_LIST): msgspec.json.encode(listed)}


def _topic(name: str, part: int) -> str:
    return topics.common(f"{quote(name, safe='')}/{part}")


class CommonFiles:
    """The files in the root of a machine; used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parts: dict[str, dict[int, bytes]] = {}
        """The parts of each file that came and did not take effect yet; those that are not listed may be soon."""
        self._listed: Mapping[str, _Listed] = {}

    def take(self, topic: str, payload: bytes) -> None:
        """Take a message. One that cannot be read is passed over."""
        name, _, part = topic.removeprefix(topics.common("")).partition("/")
        try:
            if name == _LIST and not part:
                self._take_list(_FILES.decode(payload))
            elif not payload:
                self._parts.get(unquote(name), {}).pop(int(part), None)
            elif payload.startswith(_IS_THERE):
                self._parts.setdefault(unquote(name), {})[int(part)] = payload[1:]
                self._settle(unquote(name))
        except (ValueError, OSError) as error:
            log.warning("topic %s: passed over: %s", topic, error)

    def _take_list(self, listed: Mapping[str, _Listed]) -> None:
        if wrong := [name for name in listed if not _PATH.fullmatch(name)]:
            raise ValueError(f"it names files that are none of the manager's: {', '.join(wrong)}")
        self._listed = listed
        for name in listed:
            self._settle(name)
        for name in list(common_files(self._root)):
            if name not in listed:
                (self._root / name).unlink(missing_ok=True)

    def _settle(self, name: str) -> None:
        """Put a file that is listed into its place, if all of it is there."""
        listed, parts = self._listed.get(name), self._parts.get(name, {})
        if listed is None or not set(range(listed.parts)) <= parts.keys():
            return
        content = b"".join(parts[number] for number in range(listed.parts))
        path = self._root / name
        if hashlib.sha256(content).hexdigest() == listed.digest:
            if not path.exists() or path.read_bytes() != content:
                make_folder(path.parent)
                write_whole(path, content, mode=0o600 if name.startswith(VAULT_FOLDER) else None)
            del self._parts[name]
