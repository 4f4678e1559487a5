"""Mosquitto's interpretation of an access list, implemented again to check written lists."""

from dataclasses import dataclass, field

_BLANKS = b" \t\n\v\f\r"
_ACCESS = {b"read": {"read"}, b"write": {"write"}, b"readwrite": {"read", "write"}, b"deny": set()}


class UnreadableLine(ValueError):
    """A line after which mosquitto would drop the rest of the list."""


@dataclass
class Rules:
    """The rules of a list, by user."""

    lines: dict[bytes | None, list[tuple[set[str], bytes]]] = field(default_factory=dict)

    def permit(self, user: str, access: str, topic: str) -> bool:
        """Return true if a user may read or write a topic."""
        permitted = False
        for accesses, covered in self.lines.get(user.encode(), []):
            if _covers(covered, topic.encode()):
                if not accesses:
                    return False
                permitted = permitted or access in accesses
        return permitted


def read_rules(text: str) -> Rules:
    """Parse a list from the bytes of its file."""
    rules, user = Rules(), None
    for line in text.encode().split(b"\n"):
        kept = line.rstrip(_BLANKS)
        words = kept.lstrip(b" ").split(b" ", 1)
        if not words[0] or kept.startswith(b"#"):
            continue
        rest = words[1] if len(words) > 1 else b""
        if words[0] == b"user" and rest:
            user = rest.strip(_BLANKS)
        elif words[0] == b"topic" and rest:
            first, _, topic = rest.lstrip(b" ").partition(b" ")
            accesses = _ACCESS.get(first) if topic else {"read", "write"}
            covered = (topic or first).strip(_BLANKS)
            if accesses is None or not _is_filter(covered):
                raise UnreadableLine(repr(line))
            rules.lines.setdefault(user, []).append((accesses, covered))
        else:
            raise UnreadableLine(repr(line))
    return rules


def _is_filter(covered: bytes) -> bool:
    levels = covered.split(b"/")
    wild = [level for level in levels if b"+" in level or b"#" in level]
    fit = all(len(level) == 1 for level in wild) and b"#" not in levels[:-1]
    return bool(covered) and fit and len(covered) <= 65_535 and len(levels) <= 201


def _covers(covered: bytes, topic: bytes) -> bool:
    if topic.startswith(b"$") and not covered.startswith(b"$"):
        return False
    wanted, given = covered.split(b"/"), topic.split(b"/")
    if wanted[-1] == b"#":
        wanted = wanted[:-1]
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(one in {b"+", other} for one, other in zip(wanted, given, strict=True))
