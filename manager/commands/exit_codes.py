"""What a command ends with; scripts go by it, so a code keeps its meaning."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """One way for a command to end."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """A member with its meaning beside its number."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    WELL = 0, "all well"
    PROBLEMS = 1, "a document, a file or a setting has problems; nothing was done"
    WRONG_CALL = 2, "the command was called wrongly"
    UNREACHABLE = 3, "no service answers"
    NOT_ALLOWED = 4, "there is no API key, it is not valid, or its holder may not do this"
    NOT_FOUND = 5, "there is no such thing, or none that the caller may know of"
    CONFLICT = 6, "what is there already stands against it"
    LATER = 7, "not now: the quota is used up, or the service is not ready; ask again later"
    FAILED = 8, "the service failed, or answers what this version does not understand"
    UNWELL = 9, "`braid doctor` found something wrong"
    INTERRUPTED = 130, "Ctrl-C"
