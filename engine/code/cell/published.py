"""A published source as a module, and the failures of its code."""

import linecache
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from engine.code.cell.values import WrongOutput

_LONGEST_MESSAGE = 500
_LONGEST_TRACEBACK = 4_000
_MOST_FRAMES = 20


class Failure(NamedTuple):
    """What went wrong with an event, or with a whole batch."""

    error: str
    """The type of the error."""
    message: str
    traceback: str = ""
    """The lines of the published code that led there, for its owner."""


def load(digest: str, text: str, entry: str) -> Callable[[Any], Any]:
    """The function of a source. Raises whatever its code raises, and `WrongOutput` if there is no such function."""
    name = f"published_{digest[:16]}"
    module = ModuleType(name)
    # Dataclasses look their module up, and tracebacks their lines.
    sys.modules[name] = module
    linecache.cache[file_of(digest)] = (len(text), None, text.splitlines(keepends=True), file_of(digest))
    exec(compile(text, file_of(digest), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - it is what it is for
    found = module.__dict__.get(entry)
    if not callable(found):
        raise WrongOutput(f"the source defines no function {entry!r}; publish one that does")
    function: Callable[[Any], Any] = found
    return function


def file_of(digest: str) -> str:
    """The name of a source in tracebacks."""
    return f"<published {digest[:16]}>"


def failure(error: BaseException, digest: str) -> Failure:
    """An error as text; the traceback shows only lines of the published source."""
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES)
        if each.filename == file_of(digest)
    ]
    if isinstance(error, SyntaxError):
        text = "".join(traceback.format_exception_only(error))
    else:
        text = "".join(traceback.format_list(frames))
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - it calls the published code
        message = "its message cannot be shown"
    return Failure(
        _sound(type(error).__name__)[:100], _sound(message)[:_LONGEST_MESSAGE], _sound(text)[-_LONGEST_TRACEBACK:]
    )


def _sound(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
