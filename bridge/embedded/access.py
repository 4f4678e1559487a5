"""Access: the users of a listener and their rights, from the same files as mosquitto's; and topic filters.

The file of passwords has a line `user:hash` for each user. A hash is `$7$`, the iterations, a salt, and PBKDF2 with
HMAC-SHA512, as mosquitto keeps it, so that one file serves both brokers. Mosquitto's own tool is not used, because it
reads plain passwords from a file.

An access list has, after a line `user NAME`, lines `topic read FILTER`, `topic write FILTER` or `topic readwrite
FILTER`. Everything else is forbidden. Mosquitto knows more kinds of lines; a list with any of them is refused as a
whole, because ignoring one could permit too much.
"""

import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Literal

_LONGEST = 65_535
_DEEPEST = 200
"""The number of slashes that mosquitto permits in a topic."""


def covers(granted: str, asked: str) -> bool:
    """True if a filter matches every topic that another one matches.

    >>> [covers("a/b/#", each) for each in ("a/b/#", "a/b/+/c", "a/b", "a/+/c", "a/#", "#")]
    [True, True, True, False, False, False]
    >>> covers("a/+", "a/#"), covers("#", "$SYS/#")
    (False, False)
    """
    if asked.startswith("$") and not granted.startswith("$"):
        return False
    ours, theirs = granted.split("/"), asked.split("/")
    if ours[-1] == "#":
        ours.pop()
        theirs = theirs[: len(ours)]
    return len(ours) == len(theirs) and all(
        one == other or (one == "+" and other != "#") for one, other in zip(ours, theirs, strict=True)
    )


def why_no_topic(topic: str) -> str | None:
    """The reason why a topic cannot be published on; None if it can."""
    if "+" in topic or "#" in topic:
        return "a topic has no wildcards"
    return _why_neither(topic)


def why_no_filter(topic_filter: str) -> str | None:
    """The reason why a filter cannot be subscribed to; None if it can.

    >>> [bool(why_no_filter(each)) for each in ("a/+/b", "#", "a+", "a/#/b", "", "+/#")]
    [False, False, True, True, True, False]
    """
    levels = topic_filter.split("/")
    for number, level in enumerate(levels):
        if ("+" in level or "#" in level) and len(level) > 1:
            return "a wildcard is alone in its level"
        if level == "#" and number < len(levels) - 1:
            return "# comes last"
    return _why_neither(topic_filter)


def _why_neither(text: str) -> str | None:
    if not text:
        return "it is empty"
    if "\0" in text or len(text.encode()) > _LONGEST:
        return "it is too long, or holds a zero"
    return "it has too many levels" if text.count("/") > _DEEPEST else None


_ITERATIONS = 101
"""As in mosquitto's own tool. Passwords are long and random here, so guessing is useless however fast it is. After a
reload, mosquitto computes a hash for every connected client."""
_SALT_BYTES = 12
"""Mosquitto 2.0 reads no other length."""
_HASH = re.compile(r"\$7\$([1-9][0-9]{0,8})\$([A-Za-z0-9+/]{16})\$([A-Za-z0-9+/]{86}==)")


def hashed(password: str) -> str:
    """The hash of a password, with a salt of its own.

    >>> matches(hashed("a secret"), b"a secret"), matches(hashed("a secret"), b"another")
    (True, False)
    """
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def is_hash(text: str) -> bool:
    """True if a text is such a hash.

    >>> is_hash(hashed("a secret")), is_hash("a secret")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def matches(digest: str, password: bytes) -> bool:
    """True if a hash belongs to a password."""
    parts = _HASH.fullmatch(digest)
    if parts is None:
        return False
    iterations, salt, key = parts.groups()
    key_of_password = hashlib.pbkdf2_hmac("sha512", password, base64.b64decode(salt), int(iterations))
    return hmac.compare_digest(key_of_password, base64.b64decode(key))


Access = Literal["read", "write"]
_ACCESSES: dict[str, tuple[Access, ...]] = {"read": ("read",), "write": ("write",), "readwrite": ("read", "write")}
_REMEMBERED = 10_000
LONGEST_REMEMBERED = 1_000
"""Characters of a topic, of which publishers may make up long ones."""


class UnfitList(ValueError):
    """A file of passwords or an access list that cannot be read; names the file and the line, but no secret."""


class Rights:
    """The filters that each user may read and write, as of an access list."""

    def __init__(self, path: Path) -> None:
        self._granted: dict[tuple[str, Access], list[str]] = {}
        user = None
        for number, line in enumerate(_lines(path), start=1):
            what, _, rest = line.partition(" ")
            if what == "user" and rest:
                user = rest
            elif what == "topic" and user is not None:
                accesses, _, topic = rest.partition(" ")
                if accesses not in _ACCESSES or why_no_filter(topic):
                    raise UnfitList(f"{path}, line {number}: expected topic read, write or readwrite, and a topic")
                for access in _ACCESSES[accesses]:
                    self._granted.setdefault((user, access), []).append(topic)
            elif line.strip() and not line.startswith("#"):
                raise UnfitList(f"{path}, line {number}: expected user NAME, and then topic ACCESS TOPIC")

    def permit(self, user: str, access: Access, topic_filter: str) -> bool:
        """True if a user may read or write every topic that a filter matches, alone or in a group that shares them."""
        if topic_filter.startswith("$share/"):
            topic_filter = topic_filter.split("/", 2)[-1]
        return any(covers(granted, topic_filter) for granted in self._granted.get((user, access), ()))

    def permit_retaining(self, user: str, topic: str) -> bool:
        """True if what a user publishes on a topic may be retained: if the topic is granted by name, or all are.

        By a filter a user may make up any number of topics, and what they retain would fill the broker's memory.
        """
        return not {topic, "#"}.isdisjoint(self._granted.get((user, "write"), ()))


class Door:
    """A listener's users and their rights, as of the last reading of its files."""

    def __init__(self, passwords: Path, access_list: Path | None = None) -> None:
        self._passwords = passwords
        self.access_list = access_list
        """The list with the rights of tenants; None if every user may do everything."""
        self._users: dict[str, str] = {}
        self._rights: Rights | None = None
        self._answers: dict[tuple[str, Access, str], bool] = {}
        self.read()

    def read(self) -> None:
        """Read the files; if one cannot be read, nothing changes."""
        users = _read_users(self._passwords)
        if self.access_list is not None:
            self._rights = Rights(self.access_list)
        self._users = users
        self._answers.clear()

    def key(self, user: str | None, password: bytes | None) -> str | None:
        """The key that a user is accepted with; None if the password is wrong. It is valid while it is `current`."""
        digest = self._users.get(user or "")
        return digest if digest is not None and password is not None and matches(digest, password) else None

    def current(self, user: str, key: str) -> bool:
        """True if a user who was accepted with a key would be accepted again."""
        return self._users.get(user) == key

    def knows(self, user: str) -> bool:
        """True if a user is one of this listener's."""
        return user in self._users

    def lets_subscribe(self, user: str, topic_filter: str) -> bool:
        """True if a user may read every topic that a filter matches."""
        return self._rights is None or self._rights.permit(user, "read", topic_filter)

    def lets_retain(self, user: str, topic: str) -> bool:
        """True if what a user publishes on a topic may be retained."""
        return self._rights is None or self._rights.permit_retaining(user, topic)

    def permits(self, user: str, access: Access, topic: str) -> bool:
        """True if a user may read or write a topic."""
        if self._rights is None:
            return user in self._users
        asked = (user, access, topic)
        if (answer := self._answers.get(asked)) is None:
            answer = user in self._users and self._rights.permit(user, access, topic)
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            if len(topic) <= LONGEST_REMEMBERED:
                self._answers[asked] = answer
        return answer


def _read_users(path: Path) -> dict[str, str]:
    users = {}
    for number, line in enumerate(_lines(path), start=1):
        user, _, digest = line.rpartition(":")
        if not user or not is_hash(digest):
            raise UnfitList(f"{path}, line {number}: expected user:hash, with a hash that begins with $7$")
        users[user] = digest
    return users


def _lines(path: Path) -> list[str]:
    try:
        # Not splitlines: names may hold characters that it takes for the end of a line.
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UnfitList(f"{path} cannot be read: {error}") from error
