"""What each tenant may read and write on the broker, and how the broker is told.

Mosquitto permits what some line permits, and nothing else. It reads a line up to its end and drops spaces around a
name, so a name with a line break or such spaces could say something else than it seems to. A wildcard in a line covers
other topics too. One line that it cannot read makes it drop the rest of the list. So names that hold any of these are
refused when a grant is made, and every list that is written can be read.

A subscription is never refused: whoever subscribes to more than it may read gets what it may read. Who publishes where
it may not is told so over MQTT 5 (reason 135, not authorized); over MQTT 3.1.1 the message is taken and dropped. Either
way mosquitto 2.0.11 then closes the connection, and the embedded broker does not.

At mosquitto a client id belongs to whoever connected with it last, whatever user that is: no access list keeps a tenant
from taking the connection of another client whose id it knows. The embedded broker knows clients by user and id.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.topics import ROOT

OWN_USER = "braid"
"""Braid's own user, who may read and write everything. Those of tenants never have this name."""
_RESERVED = ROOT.partition("/")[0]
_WILD = frozenset("+#")
_MOST_BYTES = 65_535
"""How long MQTT lets a topic be."""
_MOST_SLASHES = 200
"""How deep mosquitto lets a topic be."""
_NO_CHARACTERS = frozenset({"Cc", "Cs"})
"""Control characters and halves of characters, as Unicode calls them; MQTT knows neither."""


class UnfitName(ValueError):
    """A tenant or topic that a grant cannot name; says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTopic:
    """Where the events of a source of kind `topic` come in, and the tenant that owns it; made by the service."""

    owner: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a tenant may do on the broker; made by `grant`. None can be made that would grant more than it says."""

    tenant: str
    writes: tuple[str, ...] = ()
    """The topics that it may publish on: those of its sources, and nothing below them."""

    def __post_init__(self) -> None:
        _check_tenant(self.tenant)
        for topic in self.writes:
            check_topic(topic)

    @property
    def user(self) -> str:
        """As whom it connects."""
        return user_of(self.tenant)

    @property
    def reads(self) -> tuple[str, ...]:
        """What it may subscribe to: the outputs of its own dataflows.

        >>> Grant(tenant="ann").reads
        ('braid/1/out/ann/#',)
        """
        return (f"{ROOT}/out/{self.tenant}/#",)


def grant(tenants: Iterable[str], topics: Iterable[OwnedTopic]) -> dict[str, Grant]:
    """What each tenant may do; the topics of whoever is no tenant, or not any more, are nobody's to write.

    >>> grant(["ann"], [OwnedTopic(owner="ann", topic="city/street"), OwnedTopic(owner="bob", topic="city/bridge")])
    {'ann': Grant(tenant='ann', writes=('city/street',))}
    """
    owned: dict[str, set[str]] = {tenant: set() for tenant in tenants}
    for each in topics:
        if each.owner in owned:
            owned[each.owner].add(each.topic)
    return {tenant: Grant(tenant=tenant, writes=tuple(sorted(owned[tenant]))) for tenant in sorted(owned)}


def access_list(grants: Mapping[str, Grant]) -> str:
    """The text of mosquitto's `acl_file`; equal grants give equal text.

    >>> print(access_list(grant(["ann"], [OwnedTopic(owner="ann", topic="city/street")])), end="")
    user braid
    topic readwrite #
    topic readwrite $SYS/#
    <BLANKLINE>
    user tenant-ann
    topic read braid/1/out/ann/#
    topic write city/street
    """
    # To mosquitto # does not cover what begins with $.
    own = _lines(OWN_USER, [("readwrite", "#"), ("readwrite", "$SYS/#")])
    return "\n".join(
        [
            own,
            *(
                _lines(each.user, [*(("read", topic) for topic in each.reads), *(("write", t) for t in each.writes)])
                for _, each in sorted(grants.items())
            ),
        ]
    )


def user_of(tenant: str) -> str:
    """As whom a tenant connects to the broker.

    >>> user_of("ann")
    'tenant-ann'
    """
    return f"tenant-{tenant}"


def check_topic(topic: str) -> None:
    """Refuse a topic that no tenant may be let write on; the error says why.

    >>> check_topic("city/+/street")
    Traceback (most recent call last):
    manager.access.grants.UnfitName: the topic 'city/+/street' holds a wildcard; name one topic exactly, without + and #
    """
    if reason := _why_unfit(topic) or _why_no_topic(topic):
        raise UnfitName(f"the topic {_shown(topic)} {reason}")


def _check_tenant(tenant: str) -> None:
    reason = _why_unfit(tenant)
    if not reason and "/" in tenant:
        reason = "holds a slash; a tenant's name is one level of its topics"
    if not reason and ":" in tenant:
        reason = "holds a colon, which ends a name in the broker's list of passwords"
    if reason:
        raise UnfitName(f"the tenant {_shown(tenant)} {reason}")


def _why_unfit(name: str) -> str:
    """Why no line of an access list can hold a name; empty where one can."""
    if not name:
        return "is empty; name it"
    if name != name.strip():
        return "has spaces around it, which a broker drops; leave them out"
    if any(unicodedata.category(character) in _NO_CHARACTERS or _is_no_character(character) for character in name):
        return "holds a control character or something that is none; leave it out"
    if _WILD & set(name):
        return "holds a wildcard; name one topic exactly, without + and #"
    return ""


def _why_no_topic(topic: str) -> str:
    """Why nobody but Braid or the broker may write on a topic, or nobody can; empty where a tenant may."""
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
    """Whether Unicode promises that no character will ever be there; mosquitto refuses these too."""
    return 0xFDD0 <= ord(character) <= 0xFDEF or ord(character) & 0xFFFE == 0xFFFE  # noqa: PLR2004 - where they are


def _shown(name: str) -> str:
    """A name as an error shows it: escaped, and not at any length."""
    most = 80
    return ascii(name) if len(name) <= most else f"{name[:most]!a}..."


def _lines(user: str, permissions: Iterable[tuple[str, str]]) -> str:
    return "".join([f"user {user}\n", *(f"topic {access} {topic}\n" for access, topic in permissions)])
