"""What is wrong with a document, said so that its author can mend it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rapidfuzz import fuzz, process

# Beyond this many candidates a suggestion costs more than it helps: the time of a whole document stays linear.
_MOST_CANDIDATES = 200
_LONGEST_QUOTE = 60
# Names in documents are shorter; comparing texts takes quadratic time in their length.
_LONGEST_NAME = 200
_LONGEST_PLACE = 9
_PARTS = ("version", "name", "tasks", "streams")


MOST_DOCUMENT_PROBLEMS = 1_000
"""After so many problems of one kind (form, configs, fields) the rest is not looked at: a bad document stays cheap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that keeps a document from being accepted; made by the reader and by the passes."""

    pointer: str
    """Where, as a JSON pointer (RFC 6901) into the document."""
    code: str
    """What kind of problem, as a stable name for programs."""
    message: str
    """What is wrong."""
    remedy: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.pointer or '(document)'}: {self.message}; {self.remedy}"


class InvalidDocument(ValueError):
    """A document was refused; carries every problem found, in the document's order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_position))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def pointer(*tokens: str | int) -> str:
    """Join tokens to a JSON pointer.

    >>> pointer("tasks", 3, "config", "a/b")
    '/tasks/3/config/a~1b'
    """
    return "".join("/" + _readable(str(token)).replace("~", "~0").replace("/", "~1") for token in tokens)


def quoted(text: str) -> str:
    """Quote what a tenant wrote, short enough to read and safe to print.

    >>> quoted("parse"), quoted("x" * 70) == "'" + "x" * 59 + "…'"
    ("'parse'", True)
    """
    return repr(text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…")


def listed(words: Iterable[str], most: int = 10) -> str:
    """List words for a message, the first few only.

    >>> listed(["b", "a"]), listed([])
    ("'b', 'a'", 'none')
    """
    every = list(words)
    shown = ", ".join(quoted(word) for word in every[:most])
    return f"{shown}, … ({len(every)} in all)" if len(every) > most else shown or "none"


def nearest(word: str, candidates: Collection[str]) -> str | None:
    """The candidate that looks most like the word, if any looks like it at all.

    >>> nearest("range_fliter", ["range_filter", "kalman_filter"])
    'range_filter'
    >>> nearest("zzz", ["range_filter"])
    """
    if len(candidates) > _MOST_CANDIDATES or len(word) > _LONGEST_NAME:
        return None
    found = process.extractOne(word, list(candidates), scorer=fuzz.ratio, score_cutoff=60)
    return found[0] if found else None


def suggestion(word: str, candidates: Collection[str], otherwise: str) -> str:
    """A remedy for a misspelt name: the nearest known one, or else the given advice.

    >>> suggestion("noop2", ["noop"], "remove it")
    "did you mean 'noop'?"
    """
    found = nearest(word, candidates)
    return f"did you mean {quoted(found)}?" if found else otherwise


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _position(problem: Problem) -> tuple[int, tuple[tuple[bool, int, str], ...]]:
    if not problem.pointer:
        return -1, ()
    part, *tokens = problem.pointer.split("/")[1:]
    # Keys may be digits too, and of any length; the place of an entry is a short number.
    places = [int(token) if token.isdecimal() and len(token) <= _LONGEST_PLACE else -1 for token in tokens]
    inside = tuple((place < 0, place, token) for place, token in zip(places, tokens, strict=True))
    return (_PARTS.index(part), inside) if part in _PARTS else (len(_PARTS), ((True, -1, part), *inside))
