"""The words of a line: as they stand between spaces, or without punctuation, endings and words that say nothing."""

import re
from typing import Any

WORD = re.compile(r"[a-z]+")
SILENT = frozenset({"a", "an", "and", "in", "is", "it", "of", "on", "the", "to", "was"})
ENDINGS = (("ies", "y"), ("sses", "ss"), ("ingly", ""), ("edly", ""), ("ing", ""), ("ed", ""), ("ly", ""), ("s", ""))
"""Each with what takes its place, the longest first where one ends with another."""
VOWELS = frozenset("aeiouy")
SHORTEST = 3


def plain(event: dict[str, Any]) -> dict[str, Any]:
    """What stands between spaces, in small letters."""
    return {"word": event["line"].lower().split()}


def stemmed(event: dict[str, Any]) -> dict[str, Any]:
    """The stems of words that say something."""
    return {"word": [stem(word) for word in WORD.findall(event["line"].lower()) if word not in SILENT]}


def stem(word: str) -> str:
    """A word without its endings, one after the other, as long as what is left has a vowel."""
    while True:
        for ending, instead in ENDINGS:
            left = word[: -len(ending)] + instead
            if ending == "s" and word.endswith("ss"):
                continue
            if word.endswith(ending) and len(left) >= SHORTEST and any(letter in VOWELS for letter in left):
                break
        else:
            return word
        # A doubled letter belongs to the ending, as in running.
        word = left[:-1] if ending in {"ing", "ed"} and left[-1] == left[-2] and left[-1] not in "ls" else left
