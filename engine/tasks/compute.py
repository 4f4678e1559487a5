"""Computation for its own sake: known work per event."""

from typing import Annotated

from pydantic import Field

from dags import Config, Kind, Schema, Schemas, TaskType


class PiVieteConfig(Config):
    """How much to compute."""

    iterations: Annotated[int, Field(ge=1)] = 1_600


def _pi(_config: PiVieteConfig, _inputs: Schemas) -> Schemas:
    return {"out": Schema.of(pi=Kind.FLOAT)}


PI_VIETE = TaskType(name="pi_viete", config=PiVieteConfig, output_schema=_pi, unique_per_cause=False)
"""Pi by Viète's product, once per event."""
