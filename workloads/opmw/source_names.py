"""Names of sources, made from names of data types and variables, which may contain any letters."""

import re
import unicodedata
from hashlib import sha256

START = "start"
"""The source of steps without inputs, and of all first steps if there is one source for all."""
_LONGEST = 100
_DIGITS = 8
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"}
)
"""Letters that are not a letter with a diacritic."""
_FIT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST - 1}}}")
_DIGESTED = re.compile(rf".*-[0-9a-f]{{{_DIGITS}}}")
"""Names that look as if they were made here."""


def source_name(name: str) -> str:
    """A valid source name: always the same for the same name, and different for different names.

    A valid name stays as it is. Any other is transliterated to ASCII, with a digest of the original.

    >>> source_name("Table"), source_name("Table of words")
    ('Table', 'Table-of-words-9ff3b04b')
    >>> source_name("Größe"), source_name("Grüße"), source_name("词")
    ('Grosse-aedc3f80', 'Grusse-f83e0397', 'u8BCD-52ff1aed')
    """
    if _FIT.fullmatch(name) and not _DIGESTED.fullmatch(name) and name != START:
        return name
    letters = map(_ascii, unicodedata.normalize("NFKD", name.translate(_LETTERS)))
    written = re.sub(r"[^A-Za-z0-9._]+", "-", "".join(letters)).strip("._-")
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{written[: _LONGEST - _DIGITS - 1] or 'unnamed'}-{digest}"


def _ascii(letter: str) -> str:
    """A letter in ASCII: diacritics are dropped, and other letters become their code points."""
    if letter.isascii() or unicodedata.combining(letter):
        return letter if letter.isascii() else ""
    return f"u{ord(letter):04X}" if letter.isalnum() else "-"
