"""Calls of a published function of an event, `entry(event: dict) -> dict | None`: its source, values and failures.

The function gets the declared fields, and returns a dictionary with every field that it adds or changes, or None to
drop the event. It may return fields that it got, if they are unchanged.

Values are given and taken by the kinds of their fields. Between processes a time is an integer of milliseconds since
1970, and JSON is a text.
"""

import json
import linecache
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class WrongOutput(ValueError):
    """The code gives something else than it declares."""


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


GIVEN: Mapping[str, Callable[[Any], Any]] = {"timestamp": _time, "json": json.loads}
"""What makes the values that code gets, for the kinds whose values it does not get as they are."""


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise TypeError


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and _SMALLEST <= value <= _LARGEST:
        return int(value)
    raise TypeError


def _float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise TypeError


def _string(value: Any) -> str:
    if isinstance(value, str):
        value.encode()
        return str(value)
    raise TypeError


def _milliseconds(value: Any) -> int:
    if isinstance(value, datetime):
        # Without a zone it is UTC, as in raw events.
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    raise TypeError


def _json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


_TAKEN: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "float": _float,
    "string": _string,
    "timestamp": _milliseconds,
    "json": _json,
}


def taken(name: str, kind: str, value: Any) -> Any:
    """A value that code gives, checked against its kind. Raises `WrongOutput`.

    >>> taken("warmth", "float", 20), taken("at", "timestamp", datetime(1970, 1, 2))
    (20.0, 86400000)
    """
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = value.item()
    try:
        return _TAKEN[kind](value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise WrongOutput(f"the field {name!r} should be of kind {kind}, and is a {type(value).__name__}") from None


_LONGEST_MESSAGE = 500
_LONGEST_TRACEBACK = 4_000
_MOST_FRAMES = 20


class Failure(NamedTuple):
    """The failure of a function at an event, or at a whole batch."""

    error: str
    """The type of the error."""
    message: str
    traceback: str = ""
    """The lines of the published code that led there, for its owner."""


def load(digest: str, text: str, entry: str) -> Callable[..., Any]:
    """The function of a source. Raises whatever its code raises, and `WrongOutput` if there is no such function."""
    name = f"published_{digest[:16]}"
    module = ModuleType(name)
    # Dataclasses look their module up, and tracebacks their lines.
    sys.modules[name] = module
    linecache.cache[file_of(digest)] = (len(text), None, text.splitlines(keepends=True), file_of(digest))
    exec(compile(text, file_of(digest), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - it is what it is for
    entered = module.__dict__.get(entry)
    if not callable(entered):
        raise WrongOutput(f"the source defines no function {entry!r}; publish one that does")
    function: Callable[..., Any] = entered
    return function


def file_of(digest: str) -> str:
    """The name of a source in tracebacks."""
    return f"<published {digest[:16]}>"


def failure(error: BaseException, digest: str) -> Failure:
    """An error as text; the traceback shows only lines of the published source."""
    if isinstance(error, WrongOutput):
        return Failure(WrongOutput.__name__, str(error))
    if isinstance(error, SyntaxError):
        text = "".join(traceback.format_exception_only(error))
    else:
        frames = traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES)
        text = "".join(traceback.format_list(frame for frame in frames if frame.filename == file_of(digest)))
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - it calls the published code
        message = "its message cannot be shown"
    return Failure(
        _sound(type(error).__name__)[:100],
        _sound(message)[:_LONGEST_MESSAGE],
        _sound(text)[-_LONGEST_TRACEBACK:],
    )


def _sound(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


Outcome: TypeAlias = list[Any] | Failure | None
"""The values of the declared output fields of one event, or its failure; None if it is dropped."""


class EventCalls:
    """The calls of one function."""

    def __init__(
        self, function: Callable[..., Any], digest: str, needed: Mapping[str, str], fields: Mapping[str, str]
    ) -> None:
        """`needed` and `fields` are the kinds of the input and output fields."""
        self._function = function
        self._digest = digest
        self._names = tuple(needed)
        self._givers = [(name, GIVEN[kind]) for name, kind in needed.items() if kind in GIVEN]
        self._fields = dict(fields)

    def outcomes(self, count: int, columns: Sequence[Sequence[Any]]) -> Iterator[Outcome]:
        """The outcome of each event, in order; the columns are those of the input fields."""
        return map(self._outcome, zip(*columns, strict=True) if columns else [()] * count)

    def _outcome(self, row: tuple[Any, ...]) -> Outcome:
        event: dict[str, Any] = dict(zip(self._names, row, strict=True))
        try:
            if self._givers:
                self._give(event)
            # The function may change what it gets.
            return self._taken(event, self._function(dict(event)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
            return failure(error, self._digest)

    def _give(self, event: dict[str, Any]) -> None:
        """Put objects of Python in place of values that are carried otherwise."""
        for name, giver in self._givers:
            if event[name] is not None:
                event[name] = giver(event[name])

    def _taken(self, event: Mapping[str, Any], output: Any) -> list[Any] | None:
        if output is None:
            return None
        if not isinstance(output, dict):
            raise WrongOutput(f"it returns a {type(output).__name__}, not a dictionary or None")
        if output.keys() != self._fields.keys():
            for name in output.keys() - self._fields.keys():
                if name not in event:
                    raise WrongOutput(f"it returns the field {name!r}, which it does not declare")
                if output[name] is not event[name] and output[name] != event[name]:
                    raise WrongOutput(f"it changes the field {name!r}, which it does not declare as output")
            if missing := sorted(self._fields.keys() - output.keys()):
                raise WrongOutput(f"it does not return the field {missing[0]!r}, which it declares")
        return [taken(name, kind, output[name]) for name, kind in self._fields.items()]
