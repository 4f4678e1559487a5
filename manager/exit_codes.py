"""The exit codes of commands. Scripts rely on them, so a code keeps its meaning."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The exit code of a command."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Make a member that has its meaning as an attribute."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    WELL = 0, "success"
    PROBLEMS = 1, "a document, a file or a setting is wrong; nothing was done"
    WRONG_CALL = 2, "the command was used wrongly"
    UNREACHABLE = 3, "no service answers"
    NOT_ALLOWED = 4, "the API key is missing or invalid, or its holder may not do this"
    NOT_FOUND = 5, "not found, or not visible to the caller"
    CONFLICT = 6, "it conflicts with the current state"
    LATER = 7, "not now: the quota is used up, or the service is not ready; try again later"
    FAILED = 8, "the service failed, or gave an answer that this version does not understand"
    UNWELL = 9, "`braid doctor` or `braid status` found something wrong"
    DIFFERENT = 10, "`braid diff` found differences"
    INTERRUPTED = 130, "Ctrl-C"
