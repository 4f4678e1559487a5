"""Names of sources, made from those of data types and variables, which may hold any letters."""

import re
import unicodedata
from hashlib import sha256

START = "start"
"""The source of steps that take nothing from outside, and of all first steps where sources are left out."""
_LONGEST = 100
_DIGITS = 8
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"}
)
"""Letters that are no other letter with a mark."""
_FIT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST - 1}}}")
_DIGESTED = re.compile(rf".*-[0-9a-f]{{{_DIGITS}}}")
"""Looks like a name that was made here."""


def source_name(name: str) -> str:
    """A name under which a source can be registered: always the same one, and another one for every other name.

    A name that fits stays as it is. Any other is written in ASCII as well as that goes, with a digest of what it was.

    >>> source_name("Table"), source_name("Table of words")
    ('Table', 'Table-of-words-9ff3b04b')
    >>> source_name("Größe"), source_name("Grüße"), source_name("词")
    ('Grosse-aedc3f80', 'Grusse-f83e0397', 'u8BCD-52ff1aed')
    """
    if _FIT.fullmatch(name) and not _DIGESTED.fullmatch(name) and name != START:
        return name
    letters = map(_written, unicodedata.normalize("NFKD", name.translate(_LETTERS)))
    written = re.sub(r"[^A-Za-z0-9._]+", "-", "".join(letters)).strip("._-")
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{written[: _LONGEST - _DIGITS - 1] or 'unnamed'}-{digest}"


def _written(letter: str) -> str:
    """A letter in ASCII; marks fall away, and what has no ASCII letter is written as its number."""
    if letter.isascii() or unicodedata.combining(letter):
        return letter if letter.isascii() else ""
    return f"u{ord(letter):04X}" if letter.isalnum() else "-"
