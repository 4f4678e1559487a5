"""Bloom filters: sets that may take a stranger for a member, and never a member for a stranger.

A model is the text of one: how many members it was made for, at which rate, and its bits in base 64. The same members
make the same text, on every machine.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.behaviour import NoBehaviour
from engine.tasks.filters import Members

if TYPE_CHECKING:
    from rbloom import Bloom

BYTES = 16
"""How long a digest is."""
_KIND = "bloom1"


def digest(value: str) -> bytes:
    """What stands for a value in a filter, on every machine the same."""
    return hashlib.blake2b(value.encode(), digest_size=BYTES).digest()


def number(value: str) -> int:
    """The digest of a value as filters take it."""
    return int.from_bytes(digest(value), "big", signed=True)


def numbers(digests: bytes) -> Iterator[int]:
    """Digests, one after the other, as filters take them."""
    for at in range(0, len(digests), BYTES):
        yield int.from_bytes(digests[at : at + BYTES], "big", signed=True)


def bloom_of(members: Iterable[int], expected: int, false_positives: float) -> "Bloom":
    """A filter with these members, given as numbers."""
    try:
        from rbloom import Bloom  # noqa: PLC0415 - only who runs such a task needs the package
    except ImportError as error:
        raise NoBehaviour(f"Bloom filters need a package: {error}; install braid[sketches] on every worker") from error
    made = Bloom(expected, false_positives, int)
    made.update(members)
    return made


def model_of(bloom: "Bloom", expected: int, false_positives: float) -> str:
    """The text of a filter."""
    return f"{_KIND}:{expected}:{false_positives!r}:{base64.b64encode(bloom.save_bytes()).decode()}"


def bloom_in(model: str) -> "Bloom":
    """The filter that a text is; raises ValueError where it is none."""
    from rbloom import Bloom  # noqa: PLC0415 - see `bloom_of`

    try:
        kind, expected, rate, text = model.split(":")
        saved = base64.b64decode(text, validate=True)
        # Its bits are as many as were written, so that a text that lies about them costs nothing.
        count = int(expected)
        if kind != _KIND or not 0 < count <= 8 * len(saved):
            raise ValueError("it is none")  # noqa: TRY301 - as for all else that is wrong with it
        empty = bloom_of((), count, float(rate)).save_bytes()
        if (len(saved), saved[:8]) != (len(empty), empty[:8]):
            raise ValueError("its size is another")  # noqa: TRY301 - as for all else that is wrong with it
        return Bloom.load_bytes(saved, int)
    except (ValueError, OverflowError) as error:
        told = f"the model {model[:40]!r} is no Bloom filter: {error}"
        raise ValueError(f"{told}; make it with bloom_filter_train") from None


def bloom_for(members: Members) -> "Bloom":
    """The filter that a config asks for; made in a worker."""
    if members.file is None:
        return bloom_of(map(number, members.known), members.expected, members.false_positives)
    path = Path(members.file.path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoBehaviour(f"the model {members.file.place!r} cannot be read: {error.strerror}; put it there") from error
    if (found := hashlib.sha256(content).hexdigest()) != members.sha256:
        raise NoBehaviour(
            f"the file {members.file.place!r} has the digest {found}, not the one in the config; "
            "name the digest of the file that is meant"
        )
    bloom_of((), 1, 0.5)
    return bloom_in(content.decode("ascii", "replace").strip())
