"""Calls of a published function of an event: `entry(event: dict) -> dict | None`.

The function gets the declared fields, and returns a dictionary with every field that it adds or changes, or None to
drop the event. It may return fields that it got, if they are unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from engine.code.cell.published import Failure, failure
from engine.code.cell.values import GIVEN, WrongOutput, taken

Outcome: TypeAlias = list[Any] | Failure | None
"""The values of the declared output fields of one event, or its failure; None if it is dropped."""


class EventCalls:
    """The calls of one function."""

    def __init__(
        self, function: Callable[[Any], Any], digest: str, needed: Mapping[str, str], fields: Mapping[str, str]
    ) -> None:
        """`needed` and `fields` are the kinds of the input and output fields."""
        self._function = function
        self._digest = digest
        self._names = tuple(needed)
        self._givers = [(name, GIVEN[kind]) for name, kind in needed.items() if kind in GIVEN]
        self._fields = dict(fields)

    def outcomes(self, count: int, columns: Sequence[Sequence[Any]]) -> Iterator[Outcome]:
        """The outcome of each event, in order; the columns are those of the input fields."""
        rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True) if columns else iter([()] * count)
        for row in rows:
            yield self._outcome(row)

    def _outcome(self, row: tuple[Any, ...]) -> Outcome:
        event: dict[str, Any] = dict(zip(self._names, row, strict=True))
        try:
            for name, giver in self._givers:
                if event[name] is not None:
                    event[name] = giver(event[name])
            # The function may change what it gets.
            return self._taken(event, self._function(dict(event)))
        except WrongOutput as error:
            return Failure("WrongOutput", str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
            return failure(error, self._digest)

    def _taken(self, event: Mapping[str, Any], found: Any) -> list[Any] | None:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise WrongOutput(f"it returns a {type(found).__name__}, not a dictionary or None")
        if found.keys() != self._fields.keys():
            for name in found.keys() - self._fields.keys():
                if name not in event:
                    raise WrongOutput(f"it returns the field {name!r}, which it does not declare")
                if found[name] is not event[name] and found[name] != event[name]:
                    raise WrongOutput(f"it changes the field {name!r}, which it does not declare as output")
            if missing := sorted(self._fields.keys() - found.keys()):
                raise WrongOutput(f"it does not return the field {missing[0]!r}, which it declares")
        return [taken(name, kind, found[name]) for name, kind in self._fields.items()]
