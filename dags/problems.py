"""Problems of a document, worded so that its author can fix them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

# With more candidates a suggestion costs more than it helps. The bound keeps the time for a document linear.
_MOST_CANDIDATES = 200
_LONGEST_QUOTE = 60
# Names in documents are shorter, and comparing texts takes quadratic time.
_LONGEST_NAME = 200
_MOST_INDEX_DIGITS = 9
_PARTS = ("version", "name", "tasks", "streams")

MOST_DOCUMENT_PROBLEMS = 1_000
"""Checks stop after this many problems of one kind (form, configs, fields), so that a bad document stays cheap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason not to accept a document; made by the reader and by the passes."""

    pointer: str
    """The place, as a JSON pointer (RFC 6901) into the document."""
    code: str
    """The kind of problem, as a stable name for programs."""
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.pointer or '(document)'}: {self.message}; {self.remedy}"


def problem_at(code: str, message: str, remedy: str, *place: str | int) -> Problem:
    """The problem of a place in the document, which is given by the keys and indexes that lead there."""
    return Problem(pointer=pointer(*place), code=code, message=message, remedy=remedy)


class InvalidDocument(ValueError):
    """A document was refused. Carries every problem found, in the document's order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_position))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def pointer(*tokens: str | int) -> str:
    """Join tokens into a JSON pointer.

    >>> pointer("tasks", 3, "config", "a/b")
    '/tasks/3/config/a~1b'
    """
    return "".join("/" + _readable(str(token)).replace("~", "~0").replace("/", "~1") for token in tokens)


def quoted(text: str) -> str:
    """Quote a tenant's text, short enough to read and safe to print.

    >>> quoted("parse"), quoted("x" * 70) == "'" + "x" * 59 + "…'"
    ("'parse'", True)
    """
    # A member of an enumeration is a text too, but shows its name and class.
    plain = str(text)
    return repr(plain if len(plain) <= _LONGEST_QUOTE else plain[: _LONGEST_QUOTE - 1] + "…")


def listed(words: Iterable[str], most: int = 10) -> str:
    """List the first few words, for a message.

    >>> listed(["b", "a"]), listed([])
    ("'b', 'a'", 'none')
    """
    every = list(words)
    shown = ", ".join(quoted(word) for word in every[:most])
    return f"{shown}, … ({len(every)} in all)" if len(every) > most else shown or "none"


def nearest(word: str, candidates: Collection[str]) -> str | None:
    """The candidate most similar to the word, or None if none is similar.

    >>> nearest("range_fliter", ["range_filter", "kalman_filter"])
    'range_filter'
    >>> nearest("zzz", ["range_filter"])
    """
    if len(candidates) > _MOST_CANDIDATES or len(word) > _LONGEST_NAME:
        return None
    try:
        from rapidfuzz import fuzz, process  # noqa: PLC0415 - most programs never misspell a name
    except ImportError:
        # The client comes without it.
        from difflib import get_close_matches  # noqa: PLC0415 - likewise

        return next(iter(get_close_matches(word, candidates, 1)), None)
    best = process.extractOne(word, list(candidates), scorer=fuzz.ratio, score_cutoff=60)
    return best[0] if best else None


def suggestion(word: str, candidates: Collection[str], otherwise: str) -> str:
    """A remedy for a misspelt name: the most similar known name, or else the given advice.

    >>> suggestion("noop2", ["noop"], "remove it")
    "did you mean 'noop'?"
    """
    candidate = nearest(word, candidates)
    return f"did you mean {quoted(candidate)}?" if candidate else otherwise


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _position(problem: Problem) -> tuple[int, tuple[tuple[bool, int, str], ...]]:
    if not problem.pointer:
        return -1, ()
    part, *tokens = problem.pointer.split("/")[1:]
    # Keys may be digits of any length too; the index of an entry is a short number.
    indexes = [int(token) if token.isdecimal() and len(token) <= _MOST_INDEX_DIGITS else -1 for token in tokens]
    inside = tuple((index < 0, index, token) for index, token in zip(indexes, tokens, strict=True))
    return (_PARTS.index(part), inside) if part in _PARTS else (len(_PARTS), ((True, -1, part), *inside))
