"""Assembly: the plain document that a plan makes of a pipeline. A place that holds nothing is not in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dags import AnyTaskType
from dags.document import TaskForm
from planning.pipelines.blueprint import Spot
from planning.pipelines.candidates import NO_OP
from planning.pipelines.pipeline import Pipeline
from planning.planning_problem import Outlet


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A document that a plan made."""

    document: Mapping[str, Any]
    spots: tuple[str, ...]
    """The spot of each of its tasks."""
    doubled: frozenset[str] = frozenset()
    """The places that hold nothing between a stream and a port that it then enters twice, which no document can say."""


def assembled(pipeline: Pipeline, options: Mapping[str, str]) -> Assembled:
    """The document with the chosen option at every place."""
    spots = {spot.id: spot for spot in pipeline.blueprint.spots}
    present = [spot for spot in pipeline.blueprint.spots if not _is_idle(spot, options)]
    order = sorted(present, key=lambda spot: (spot.at, pipeline.blueprint.spots.index(spot)))
    types = {spot.id: kind for spot in order if (kind := _type(pipeline, spot, options)) is not None}
    streams: list[dict[str, str]] = []
    doubled: set[str] = set()
    for spot in order:
        for port, outlets in spot.inputs:
            seen: dict[Outlet, frozenset[str]] = {}
            for outlet in outlets:
                for origin, passed in _origins(outlet, spots, options):
                    if origin in seen:
                        doubled |= seen[origin] | passed
                        continue
                    seen[origin] = passed
                    streams.append(_stream(types, origin, spot.id, port))
    return Assembled(
        document={
            "version": 1,
            "name": pipeline.blueprint.form.name,
            "tasks": [_task(pipeline, spot, options) for spot in order],
            "streams": streams,
        },
        spots=tuple(spot.id for spot in order),
        doubled=frozenset(doubled),
    )


def _type(pipeline: Pipeline, spot: Spot, options: Mapping[str, str]) -> AnyTaskType | None:
    return spot.type if spot.choice is None else pipeline.candidates[spot.id][options[spot.id]].type


def _stream(types: Mapping[str, AnyTaskType], origin: Outlet, to: str, port: str) -> dict[str, str]:
    """A stream as somebody would write it: without a port that is the only one."""
    return {
        "from": origin.origin,
        **({"from_port": origin.port} if len(types[origin.origin].outputs) > 1 else {}),
        "to": to,
        **({"to_port": port} if len(types[to].inputs) > 1 else {}),
    }


def _is_idle(spot: Spot, options: Mapping[str, str]) -> bool:
    return spot.choice is not None and options[spot.id] == NO_OP


def _origins(
    outlet: Outlet, spots: Mapping[str, Spot], options: Mapping[str, str]
) -> Iterator[tuple[Outlet, frozenset[str]]]:
    """The streams that reach an outlet through places that hold nothing, and those places."""
    spot = spots[outlet.origin]
    if not _is_idle(spot, options):
        yield outlet, frozenset()
        return
    for each in spot.inputs:
        for stream in each.streams:
            for origin, passed in _origins(stream, spots, options):
                yield origin, passed | {spot.id}


def _task(pipeline: Pipeline, spot: Spot, options: Mapping[str, str]) -> Mapping[str, Any]:
    if spot.task is not None:
        return _written(spot.task)
    candidate = pipeline.candidates[spot.id][options[spot.id]]
    tags = [] if candidate.module is None else sorted({*candidate.module.form.host_tags})
    return {
        "id": spot.id,
        "type": candidate.type.name,
        "config": dict(candidate.config),
        "module": candidate.name,
        **({"tags": tags} if tags else {}),
    }


def _written(task: TaskForm) -> Mapping[str, Any]:
    return task.model_dump(exclude_defaults=True)
