"""The check of what a behaviour emits: events of the declared fields, each with its cause, and none too large."""

from collections.abc import Mapping

import pyarrow as pa

from engine.event_streams import Numbers
from engine.kernel.task_bounds import check_sizes


class InvalidEmission(ValueError):
    """A behaviour returned something that breaks the rules for behaviours."""


def check_emission(port: str, rows: pa.RecordBatch, outputs: Mapping[str, pa.Schema]) -> None:
    """Check the events that a behaviour returned for a port. Raises `InvalidEmission`, or `BeyondBound`."""
    if not isinstance(rows, pa.RecordBatch):
        raise InvalidEmission(f"the task emits {type(rows).__name__} at port {port!r}, not a RecordBatch")
    if port not in outputs:
        raise InvalidEmission(
            f"the task emits at port {port!r}, but not for an empty batch; emit an empty batch there too"
        )
    if not rows.schema.equals(outputs[port]):
        fields = f"{_text(rows.schema)} at port {port!r}, but for an empty batch {_text(outputs[port])}"
        raise InvalidEmission(f"the task emits {fields}; emit the same fields for every batch")
    check_sizes(port, rows)


def causes_of(port: str, count: int, origin: Numbers | None, causes: Numbers) -> Numbers:
    """The causes of emitted events, by the indexes of the events that they were emitted for."""
    if origin is None:
        if count != len(causes):
            raise InvalidEmission(
                f"the task emits {count} events at port {port!r} for {len(causes)}; name the origin of each"
            )
        return causes
    if len(origin) != count:
        raise InvalidEmission(f"the task emits {count} events at port {port!r} and names the origins of {len(origin)}")
    if count and (origin[0] < 0 or origin[-1] >= len(causes) or bool((origin[1:] < origin[:-1]).any())):
        raise InvalidEmission(f"the origins at port {port!r} are not in ascending order, or outside the batch")
    of_each: Numbers = causes[origin]
    return of_each


def _text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "no field"
