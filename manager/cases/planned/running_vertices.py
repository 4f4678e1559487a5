"""What runs, as planning for reuse needs to know it."""

import json
from collections.abc import Collection, Iterable, Sequence

import rfc8785

from merge import RunningGraph, RunningTask
from planning.pipelines.candidates import computes
from planning.planning_problem import Inflow, Outlet, RunningVertex


def shareable(running: RunningGraph, texts: Collection[str]) -> Sequence[RunningTask]:
    """The tasks of the types in some texts that anybody may share, each after those it reads from."""
    names = {json.loads(text)[0] for text in texts}
    tasks = running.tasks
    return [tasks[each] for each in sorted(tasks) if tasks[each].type.name in names and tasks[each].key.scope is None]


def running_vertices(tasks: Iterable[RunningTask], texts: Collection[str]) -> Sequence[RunningVertex]:
    """Those of some tasks that compute what a text says."""
    found = ((task, computes(task.type.name, task.type.version, rfc8785.dumps(task.config))) for task in tasks)
    return [_vertex(task, text) for task, text in found if text in texts]


def _vertex(task: RunningTask, text: str) -> RunningVertex:
    ports: dict[str, list[Outlet]] = {}
    for entering in task.inputs:
        streams = [Outlet(str(entering.parent), entering.parent_port)] * entering.times
        ports.setdefault(entering.port, []).extend(streams)
    return RunningVertex(
        id=str(task.instance),
        computes=text,
        inputs=tuple(Inflow(port, tuple(streams)) for port, streams in ports.items()),
    )
