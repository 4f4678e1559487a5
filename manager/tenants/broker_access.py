"""The tenants' access to the broker: the topics that each may read and write, and its credentials.

Mosquitto permits only what a line of the list permits. It strips spaces around a name, so a name with such
spaces or a line break would mean something else. A wildcard in a line covers other topics too. After an
unreadable line it drops the rest of the list. So names with any of these are refused when a grant is made, and
every written list is readable. Only the topics of sources and outputs may have
wildcards, except in their first levels: they belong to nobody else, and neither does what they cover.

A subscription to more than a tenant may read is refused, by the embedded broker or by the relay before mosquitto
(`bridge.embedded.relay`), which also keep client ids apart by their users. A forbidden publication is answered
over MQTT 5 with reason 135 (not authorized); over MQTT 3.1.1 it is accepted and dropped. In both cases mosquitto
2.0.11 then closes the connection; the embedded broker does not.
"""

import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.broker_setup import ACCESS_LIST, PASSWORDS
from bridge.embedded import is_hash
from bridge.files import make_folder, write_whole
from bridge.topics import ROOT
from dags.source_topics import is_wild, source_topic, why_no_source_topic

OWN_USER = "braid"
"""Braid's own user, who may read and write everything; never the name of a tenant's user."""
_RESERVED = ROOT.partition("/")[0]
_WILD = frozenset("+#")
_MOST_BYTES = 65_535
"""MQTT's limit for a topic."""
_MOST_SLASHES = 200
"""Mosquitto's limit for a topic."""
_MOST_SHOWN = 80
_NO_CHARACTERS = frozenset({"Cc", "Cs"})
"""Unicode's categories of control characters and surrogates, which MQTT forbids."""


class UnfitName(ValueError):
    """A tenant or topic that a grant cannot name, with the reason and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTopic:
    """The topic filter of a source, with the tenant that owns it; made by the service."""

    owner: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The permissions of a tenant; made by `grant`. Names that would grant more are refused."""

    tenant: str
    writes: tuple[str, ...] = ()
    """The filters of what it may publish on: exactly those of its sources, and commands to edge nodes that its outputs
    are."""
    outputs: tuple[str, ...] = ()
    """The filters of the topics that outputs of its dataflows have of their own, and of those on which its devices take
    commands."""

    def __post_init__(self) -> None:
        _check_tenant(self.tenant)
        for topic in (*self.writes, *self.outputs):
            check_topic(topic)

    @property
    def user(self) -> str:
        """The user that it connects as."""
        return user_of(self.tenant)

    @property
    def reads(self) -> tuple[str, ...]:
        """The filters that it may subscribe to: the outputs of its own dataflows, and commands to its devices.

        >>> Grant(tenant="ann", outputs=("ann/averages",)).reads
        ('braid/1/out/ann/#', 'ann/averages')
        """
        return (f"{ROOT}/out/{self.tenant}/#", *self.outputs)


def grant(tenants: Iterable[str], topics: Iterable[OwnedTopic], outputs: Iterable[OwnedTopic] = ()) -> dict[str, Grant]:
    """Return the grant of each tenant. Topics of owners that are not tenants are granted to nobody.

    `topics` are those of sources, and those on which outputs take commands; `outputs` are those that outputs have of
    their own, or on which devices take commands.

    >>> grant(["ann"], [OwnedTopic(owner="ann", topic="city/street"), OwnedTopic(owner="bob", topic="city/bridge")])
    {'ann': Grant(tenant='ann', writes=('city/street',), outputs=())}
    """
    names = sorted(tenants)
    writes, reads = _by_owner(names, topics), _by_owner(names, outputs)
    return {tenant: Grant(tenant=tenant, writes=writes[tenant], outputs=reads[tenant]) for tenant in names}


def _by_owner(tenants: Iterable[str], topics: Iterable[OwnedTopic]) -> dict[str, tuple[str, ...]]:
    owned: dict[str, set[str]] = {tenant: set() for tenant in tenants}
    for owned_topic in topics:
        if owned_topic.owner in owned:
            owned[owned_topic.owner].add(owned_topic.topic)
    return {tenant: tuple(sorted(own)) for tenant, own in owned.items()}


def access_list(grants: Mapping[str, Grant]) -> str:
    """Return the text of mosquitto's `acl_file`; equal grants give equal text.

    >>> print(access_list(grant(["ann"], [OwnedTopic(owner="ann", topic="city/street")])), end="")
    user braid
    topic readwrite #
    topic readwrite $SYS/#
    <BLANKLINE>
    user tenant-ann
    topic read braid/1/out/ann/#
    topic write city/street
    """
    # At mosquitto, # does not cover topics that begin with $.
    users = [(OWN_USER, ["readwrite #", "readwrite $SYS/#"])]
    for _, granted in sorted(grants.items()):
        reads, writes = (f"read {topic}" for topic in granted.reads), (f"write {topic}" for topic in granted.writes)
        users.append((granted.user, [*reads, *writes]))
    return "\n".join(
        "".join([f"user {user}\n", *(f"topic {permission}\n" for permission in permissions)])
        for user, permissions in users
    )


def user_of(tenant: str) -> str:
    """Return the user that a tenant connects to the broker as.

    >>> user_of("ann")
    'tenant-ann'
    """
    return f"tenant-{tenant}"


def check_topic(topic: str) -> None:
    """Refuse a topic or topic filter that no tenant may write on.

    >>> check_topic("city/+/street")
    >>> check_topic("+/street")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    manager.tenants.broker_access.UnfitName: the topic '+/street' begins with a wildcard; write the first level out, ...
    """
    wild = is_wild(topic) and why_no_source_topic(topic)
    if reason := _why_unfit(topic, may_be_wild=True) or _why_no_topic(topic) or wild:
        raise UnfitName(f"the topic {_shown(topic)} {reason}")


def check_source_topic(topic: str) -> None:
    """Refuse what cannot be the topic of a source, as its owner writes it."""
    check_topic(source_topic(topic).filter)
    if reason := why_no_source_topic(topic):
        raise UnfitName(f"the topic {_shown(topic)} {reason}")


def _check_tenant(tenant: str) -> None:
    reason = _why_unfit(tenant)
    if not reason and "/" in tenant:
        reason = "holds a slash; a tenant's name is one level of its topics"
    if not reason and ":" in tenant:
        reason = "holds a colon, which ends a name in the broker's list of passwords"
    if reason:
        raise UnfitName(f"the tenant {_shown(tenant)} {reason}")


def _why_unfit(name: str, *, may_be_wild: bool = False) -> str:
    """Return the reason why an access list cannot hold a name; empty if it can."""
    if not name:
        return "is empty; name it"
    if name != name.strip():
        return "has spaces around it, which a broker drops; leave them out"
    if any(unicodedata.category(character) in _NO_CHARACTERS or _is_no_character(character) for character in name):
        return "holds a control character or something that is no character; leave it out"
    if not may_be_wild and _WILD & set(name):
        return "holds a wildcard; name one topic exactly, without + and #"
    return ""


def _why_no_topic(topic: str) -> str:
    """Return the reason why no tenant may write on a topic; empty if one may."""
    if topic.startswith("$"):
        return "begins with $, which is the broker's own; choose another"
    if topic == _RESERVED or topic.startswith(f"{_RESERVED}/"):
        return f"is one of Braid's own; choose one that is not below {_RESERVED}/"
    if len(topic.encode()) > _MOST_BYTES:
        return f"is longer than {_MOST_BYTES:,} bytes; choose a shorter one"
    if topic.count("/") > _MOST_SLASHES:
        return f"has more than {_MOST_SLASHES} slashes, which is too deep for a broker; choose a shorter one"
    return ""


def _is_no_character(character: str) -> bool:
    """Return true for Unicode's noncharacters, which mosquitto refuses too."""
    return 0xFDD0 <= ord(character) <= 0xFDEF or ord(character) & 0xFFFE == 0xFFFE  # noqa: PLR2004 - Unicode's ranges


def _shown(name: str) -> str:
    """Return a name for an error message: escaped and shortened."""
    return ascii(name) if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]!a}..."


_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f:]|^\s|\s$|^#|^$")


def password_list(hashes: Mapping[str, str]) -> str:
    """Return the text of a broker's password file; equal hashes give equal text."""
    for user, digest in hashes.items():
        if _UNFIT.search(user):
            raise ValueError(
                f"{user!a} cannot name a user of the broker: name one without colons, control characters, spaces "
                "around it, and # in front"
            )
        if not is_hash(digest):
            # Not shown, because it may be a password.
            raise ValueError(f"the entry for the user {user!r} is no hash of a password; make it with hashed()")
    return "".join(f"{user}:{digest}\n" for user, digest in sorted(hashes.items()))


_FOR_OWNER = 0o600
_FOR_GROUP = 0o640


class AccessKeeper:
    """Keeps the files `acl` and `passwords` in a folder, and lets the broker reload them. Thread-safe.

    For a broker that Braid runs, call `keep` once before `start_broker(..., entrance=Entrance(folder=folder))`; from
    then on `reload` calls `Broker.reload`.

    An external mosquitto needs a listener of its own for tenants that names these files, at a socket that only
    `braid entrance` reaches; `docs/how-to/postgresql-and-a-broker.md` shows it. Braid's own user has the other
    listener, without an access list: once it has started again, mosquitto has no permissions for users of a listener
    with a list whose sessions it restored from its store, and drops their messages until they connect again. Topics are
    common to all listeners, so the lists of other listeners must leave `braid/#` out.

    Mosquitto reads the files as the user that it runs as. If that is not Braid's user, the folder needs mosquitto's
    group and the set-group-id bit: then that group can read the files, otherwise only their owner can. It reads them
    again on SIGHUP, which its operator has to send after each change; `reload` may then do nothing.
    """

    def __init__(self, folder: Path, reload: Callable[[], None]) -> None:
        self._folder = folder
        self._reload = reload
        self._lock = threading.Lock()
        self._read: tuple[str, str] | None = None
        """The texts that the broker reloaded last, as far as this process knows."""

    def keep(self, grants: Mapping[str, Grant], hashes: Mapping[str, str]) -> None:
        """Write the files that differ, and let the broker reload them if it may not have.

        `hashes` has the password hash of each user. A user in only one of the lists has no access. Some milliseconds
        after this returns, new users are admitted, and clients whose password is no longer listed are disconnected.
        """
        wanted = access_list(grants), password_list(hashes)
        with self._lock:
            make_folder(self._folder)
            mode = _FOR_GROUP if self._folder.stat().st_mode & stat.S_ISGID else _FOR_OWNER
            for name, text in zip((ACCESS_LIST, PASSWORDS), wanted, strict=True):
                _write(self._folder / name, text.encode(), mode)
            # Even if nothing was written: the process that wrote the files may have died before the reload.
            if wanted != self._read:
                self._read = None
                self._reload()
                self._read = wanted


def _write(path: Path, content: bytes, mode: int) -> None:
    if not path.exists() or path.read_bytes() != content or stat.S_IMODE(path.stat().st_mode) != mode:
        write_whole(path, content, mode=mode)
