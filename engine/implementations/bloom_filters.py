"""Bloom filters: sets that may report false members, but never miss a member.

A model is the text of a filter: the number of members it was made for, its error rate, and its bits in base64. The same
members make the same text on every machine.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.behaviour import NoBehaviour
from engine.tasks.bloom_filters import MOST_FILTER_BITS, Members

if TYPE_CHECKING:
    from rbloom import Bloom

BYTES = 16
"""The length of a digest."""
_KIND = "bloom1"
_LARGEST_FILE = MOST_FILTER_BITS // 6 + 1_000
"""Bytes of a file with a model: base64 takes a byte for six bits."""


def digest(value: str) -> bytes:
    """The digest of a value, the same on every machine."""
    return hashlib.blake2b(value.encode(), digest_size=BYTES).digest()


def number(value: str) -> int:
    """The digest of a value, as a number for filters."""
    return int.from_bytes(digest(value), "big", signed=True)


def numbers(digests: bytes) -> Iterator[int]:
    """Concatenated digests, as numbers for filters."""
    for at in range(0, len(digests), BYTES):
        yield int.from_bytes(digests[at : at + BYTES], "big", signed=True)


def bloom_of(members: Iterable[int], expected: int, false_positives: float) -> "Bloom":
    """Make a filter with these members, given as numbers."""
    try:
        from rbloom import Bloom  # noqa: PLC0415 - an optional package, which only these tasks need
    except ImportError as error:
        raise NoBehaviour(f"Bloom filters need rbloom ({error}); install braid[sketches] on every worker") from error
    made = Bloom(expected, false_positives, int)
    made.update(members)
    return made


def model_of(bloom: "Bloom", expected: int, false_positives: float) -> str:
    """The text of a filter."""
    return f"{_KIND}:{expected}:{false_positives!r}:{base64.b64encode(bloom.save_bytes()).decode()}"


def bloom_in(model: str) -> "Bloom":
    """Read a filter from its text. Raises ValueError if it is not one."""
    from rbloom import Bloom  # noqa: PLC0415 - see `bloom_of`

    try:
        kind, expected, rate, text = model.split(":")
        saved = base64.b64decode(text, validate=True)
        # Checked against the actual number of bits, so that a forged text costs nothing.
        count = int(expected)
        if kind != _KIND or not 0 < count <= 8 * len(saved):
            raise ValueError("its form is wrong")  # noqa: TRY301 - handled like all other faults
        empty = bloom_of((), count, float(rate)).save_bytes()
        if (len(saved), saved[:8]) != (len(empty), empty[:8]):
            raise ValueError("its size is wrong")  # noqa: TRY301 - handled like all other faults
        return Bloom.load_bytes(saved, int)
    except (ValueError, OverflowError) as error:
        message = f"the model {model[:40]!r} is not a Bloom filter: {error}"
        raise ValueError(f"{message}; make it with bloom_filter_train") from None


def bloom_for(members: Members) -> "Bloom":
    """Make the filter of a config, in a worker."""
    if members.file is None:
        return bloom_of(map(number, members.known), members.expected, members.false_positives)
    path = Path(members.file.path)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise NoBehaviour(
                f"the model {members.file.place!r} has more than {_LARGEST_FILE:,} bytes; make it for fewer values"
            )
        content = path.read_bytes()
    except OSError as error:
        raise NoBehaviour(f"the model {members.file.place!r} cannot be read: {error.strerror}; put it there") from error
    if (found := hashlib.sha256(content).hexdigest()) != members.sha256:
        raise NoBehaviour(
            f"the file {members.file.place!r} has the digest {found}, not that in the config; correct one of the two"
        )
    bloom_of((), 1, 0.5)
    return bloom_in(content.decode("ascii", "replace").strip())
