"""Filters: tasks that pass on some of what they take."""

from typing import Literal, Self

from pydantic import model_validator

from dags import NUMBER, Config, Read, TaskType


class RangeFilterConfig(Config):
    """Bounds of one field, both included."""

    field: str
    min: float
    max: float
    outside: Literal["drop", "null"] = "drop"
    """What happens to a value out of range: its event is dropped, or the field becomes null."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self


RANGE_FILTER = TaskType(
    name="range_filter",
    config=RangeFilterConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
)
"""Keeps the events whose field is in range."""
