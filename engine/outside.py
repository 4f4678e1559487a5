"""The outside world of tasks: the secrets, files and hosts that workers find by the root of their host.

**Reachable hosts.** A tenant chooses the URLs of its databases and buckets, as secrets, and a host connects from inside
its operator's network. So a URL may lead to addresses of the internet, and otherwise only to hosts that the operator
lists in a file of the root.

**The vault** has the secrets of tenants, as encrypted files in the root. The manager writes them. A worker reads those
that a config names, when it makes the behaviour. The key is also in the root, readable by its owner only. So it
protects copies that leave the root, such as backups and copied folders.
"""

import json
import socket
from collections.abc import Collection, Sequence
from functools import cached_property
from ipaddress import IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from bridge.files import link_whole, make_folder, sync_folder, write_whole
from dags.internet_addresses import MAPPED, IPAddress, IPNetwork, embedded, is_on_internet, unmapped
from engine.behaviour import NoBehaviour
from engine.code.store import CodeStore, Voucher, VoucherFile, WheelStore

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


REACHABLE = "reachable"
"""The operator's file in the root: more names, addresses and networks that tasks may connect to, one per line."""


class HostBarred(ConnectionRefusedError):
    """Tasks may not connect to a host. Says why, without its addresses."""


def listed(path: Path) -> list[str]:
    """The entries of the operator's file. Lines that begin with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def allowed(host: str, addresses: Collection[IPAddress], names: Collection[str]) -> bool:
    """True if a host is listed by name, or each of its addresses is listed or belongs to the internet.

    An IPv6 address that leads to IPv4 ones is also allowed if these are. A mapped one counts as what it stands for.

    >>> [allowed("db", [ip_address("10.1.2.3")], names) for names in ([], ["db"], ["10.1.0.0/16"], ["10.2.0.0/16"])]
    [False, True, True, False]
    """
    networks = [network for name in names if (network := _network(name)) is not None]
    return host in names or all(_is_allowed(unmapped(address), networks) for address in addresses)


def _is_allowed(address: IPAddress, networks: Collection[IPNetwork]) -> bool:
    if any(address in network for network in networks):
        return True
    if inside := embedded(address):
        return all(_is_allowed(ipv4, networks) for ipv4 in inside)
    return is_on_internet(address)


def _network(name: str) -> IPNetwork | None:
    try:
        network = ip_network(name, strict=False)
    except ValueError:
        # The name of a host.
        return None
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        return ip_network((unmapped(network.network_address), network.prefixlen - MAPPED.prefixlen))
    return network


VAULT_KEY = "secrets.key"
VAULT_FOLDER = "secrets"


class NoSecret(LookupError):
    """A secret is not available. Says which, why, and what to do."""


class Vault:
    """The vault of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / VAULT_FOLDER
        self._key = root / VAULT_KEY

    def put(self, owner: str, name: str, secret: str) -> None:
        """Save a secret. Replaces the owner's secret of that name."""
        make_folder(self._folder / _file(owner))
        content = json.dumps({"owner": owner, "name": name, "secret": secret}).encode()
        write_whole(self._path(owner, name), self._cipher(make=True).encrypt(content), mode=0o600)
        self._changed()

    def remove(self, owner: str, name: str) -> bool:
        """Remove a secret; False if there was none."""
        path = self._path(owner, name)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        self._changed()
        return True

    def names(self, owner: str) -> list[str]:
        """The names of a tenant's secrets."""
        return _named(self._folder / _file(owner))

    def owners(self) -> list[str]:
        """The tenants that have secrets, or had some."""
        return _named(self._folder)

    def reveal(self, owner: str, name: str) -> str:
        """The secret itself."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - most workers have no secrets and do not need it

        try:
            kept = self._path(owner, name).read_bytes()
        except FileNotFoundError:
            raise NoSecret(f"{owner!r} has no secret {name!r}; put it with `braid secrets put {name}`") from None
        try:
            content = json.loads(self._cipher().decrypt(kept))
        except InvalidToken:
            content = {}
        if (content.get("owner"), content.get("name")) != (owner, name):
            raise NoSecret(
                f"the secret {name!r} of {owner!r} cannot be read with the key in {self._key}; restore the key that it "
                f"was written with, or put it again with `braid secrets put {name}`"
            )
        return str(content["secret"])

    def sealed(self, secret: str) -> str:
        """A secret as a text that is kept elsewhere, and read only with the key of this root."""
        return self._cipher(make=True).encrypt(secret.encode()).decode()

    def unsealed(self, text: str) -> str:
        """The secret in such a text."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - see above

        try:
            return self._cipher().decrypt(text).decode()
        except InvalidToken:
            raise NoSecret(f"a secret cannot be read with the key in {self._key}; restore that key") from None

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes with every change of a secret."""
        try:
            changed = (self._folder / "changed").stat()
        except FileNotFoundError:
            return (0, 0)
        return (changed.st_mtime_ns, changed.st_ino)

    def _changed(self) -> None:
        write_whole(self._folder / "changed", uuid4().hex.encode())

    def _path(self, owner: str, name: str) -> Path:
        return self._folder / _file(owner) / _file(name)

    def _cipher(self, *, make: bool = False) -> "Fernet":
        from cryptography.fernet import Fernet  # noqa: PLC0415 - see above

        if make and not self._key.exists():
            make_folder(self._key.parent)
            link_whole(self._key, Fernet.generate_key(), mode=0o600)
        try:
            return Fernet(self._key.read_bytes())
        except FileNotFoundError:
            raise NoSecret(f"{self._key} is missing; restore it, or put the secrets again") from None
        except ValueError:
            raise NoSecret(f"{self._key} is not a key; restore it, or remove it and put the secrets again") from None


def _file(name: str) -> str:
    # The prefix keeps a name apart from those of other files, and inside the folder.
    return f"={quote(name, safe='')}"


def _named(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(unquote(path.name[1:]) for path in folder.iterdir() if path.name.startswith("="))


FILES = "files"
"""The folder in the root with the files of tenants; each tenant has one in it."""
DEPLOYMENT = "deployment"


class HostOutside:
    """Access to secrets, hosts, published code and the files of tenants, by a root; made by each worker."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._vault = Vault(root)
        self._vouchers = VoucherFile(root)

    def secret(self, owner: str, name: str) -> str:
        """The tenant's secret of that name."""
        try:
            return self._vault.reveal(owner, name)
        except NoSecret as error:
            raise NoBehaviour(str(error)) from None

    def place(self, owner: str, path: str) -> str:
        """The path on this machine of a tenant's file or folder."""
        if not owner:
            raise NoBehaviour(f"the place {path!r} has no owner; name it in the plan")
        return str(self._root / FILES / quote(owner, safe="").replace(".", "%2E") / path)

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host; empty if they may."""
        try:
            self.addresses(host)
        except HostBarred as error:
            return str(error)
        return ""

    def addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host, looked up each time. Raises `HostBarred` if tasks may not connect to them."""
        try:
            entries = socket.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            raise HostBarred("its host cannot be found; correct the URL") from None
        addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries))
        if not allowed(host, [ip_address(address) for address in addresses], listed(self._root / REACHABLE)):
            raise HostBarred(
                "its host is not on the internet; tasks may connect to it only if an operator lists the host or its "
                f"network in the file {REACHABLE!r} of the root"
            )
        return addresses

    def code(self, digest: str) -> str:
        """The path on this machine of a published source, whether it exists or not."""
        return CodeStore(self._root).path(digest)

    def wheel(self, digest: str) -> str:
        """The path on this machine of a wheel that published code imports from, whether it exists or not."""
        return WheelStore(self._root).path(digest)

    def vouched(self, owner: str, digest: str, entry: str, per: str) -> bool:
        """Whether an operator vouches for a published function now: its own, or one of a tenant."""
        return not owner or self._vouchers.has(Voucher(owner=owner, digest=digest, entry=entry, per=per))

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes whenever a secret may have changed."""
        return self._vault.version

    @cached_property
    def deployment(self) -> str:
        """The id of the root. A restored root gets a new one, so that its repeated effects count as new."""
        path = self._root / DEPLOYMENT
        if not path.exists():
            make_folder(self._root)
            link_whole(path, uuid4().hex[:12].encode())
        return path.read_text()
