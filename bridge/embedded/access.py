"""The users of a listener and their rights, read from the same files as mosquitto's.

The file of passwords has a line `user:hash` for each user. An access list has, after a line `user NAME`, lines `topic
read FILTER`, `topic write FILTER` or `topic readwrite FILTER`. Everything else is forbidden. Mosquitto knows more kinds
of lines; a list with any of them is refused as a whole, because ignoring one could permit too much.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from .filters import TopicFilters, covers, why_no_filter
from .passwords import is_hash, matches

Access = Literal["read", "write"]
_ACCESSES: dict[str, tuple[Access, ...]] = {"read": ("read",), "write": ("write",), "readwrite": ("read", "write")}
_REMEMBERED = 10_000


class UnfitList(ValueError):
    """A file of passwords or an access list that cannot be read; names the file and the line, but no secret."""


class Right(NamedTuple):
    """One line of an access list."""

    user: str
    accesses: tuple[Access, ...]
    topic: str


class ReadRights:
    """The filters that each user may subscribe to."""

    def __init__(self, rights: Iterable[Right]) -> None:
        self._granted: dict[str, list[str]] = {}
        for right in rights:
            if "read" in right.accesses:
                self._granted.setdefault(right.user, []).append(right.topic)

    def permit(self, user: str, topic_filter: str) -> bool:
        """True if a user may read every topic that a filter matches, alone or in a group that shares its messages."""
        if topic_filter.startswith("$share/"):
            topic_filter = topic_filter.split("/", 2)[-1]
        return any(covers(granted, topic_filter) for granted in self._granted.get(user, ()))


class Door:
    """A listener's users and their rights, as of the last reading of its files."""

    def __init__(self, passwords: Path, access_list: Path | None = None) -> None:
        self._passwords = passwords
        self._access_list = access_list
        self._users: dict[str, str] = {}
        self._granted: dict[tuple[str, Access], TopicFilters[bool]] | None = None
        """The rights of each user; None if every user may do everything."""
        self._read_rights: ReadRights | None = None
        self._answers: dict[tuple[str, Access, str], bool] = {}
        self.read()

    @property
    def has_list(self) -> bool:
        """True if it lets in tenants, whose rights are in an access list."""
        return self._access_list is not None

    def read(self) -> None:
        """Read the files; if one cannot be read, nothing changes."""
        users = _read_users(self._passwords)
        if self._access_list is not None:
            rights = read_list(self._access_list)
            self._granted, self._read_rights = _matchers(rights), ReadRights(rights)
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
        return self._read_rights is None or self._read_rights.permit(user, topic_filter)

    def permits(self, user: str, access: Access, topic: str) -> bool:
        """True if a user may read or write a topic."""
        if self._granted is None:
            return user in self._users
        asked = (user, access, topic)
        if (answer := self._answers.get(asked)) is None:
            granted = self._granted.get((user, access))
            answer = granted is not None and user in self._users and any(granted.match(topic))
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
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


def read_list(path: Path) -> list[Right]:
    """Read an access list."""
    rights, user = [], None
    for number, line in enumerate(_lines(path), start=1):
        what, _, rest = line.partition(" ")
        if what == "user" and rest:
            user = rest
        elif what == "topic" and user is not None:
            access, _, topic = rest.partition(" ")
            if access not in _ACCESSES or why_no_filter(topic):
                raise UnfitList(f"{path}, line {number}: expected topic read, write or readwrite, and a topic")
            rights.append(Right(user, _ACCESSES[access], topic))
        elif line.strip() and not line.startswith("#"):
            raise UnfitList(f"{path}, line {number}: expected user NAME, and then topic ACCESS TOPIC")
    return rights


def _matchers(rights: Iterable[Right]) -> dict[tuple[str, Access], TopicFilters[bool]]:
    granted: dict[tuple[str, Access], TopicFilters[bool]] = {}
    for right in rights:
        for access in right.accesses:
            granted.setdefault((right.user, access), TopicFilters())[right.topic] = True
    return granted


def _lines(path: Path) -> list[str]:
    try:
        # Not splitlines: names may hold characters that it takes for the end of a line.
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UnfitList(f"{path} cannot be read: {error}") from error
