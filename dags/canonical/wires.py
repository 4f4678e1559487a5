"""Pass: connect every stream to a port of a task at both ends."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dags.canonical.draft import DraftDocument, Wire
from dags.document import StreamForm
from dags.problems import Problem, listed, pointer, quoted, suggestion
from dags.task_type import AnyTaskType


class _End(NamedTuple):
    """One end of a stream: the document's fields for it, its side of a task, and the problem of a task without it."""

    task: str
    port: str
    side: str
    role: str
    code: str


_FROM = _End("from", "from_port", "output", "a sink; sinks have no output", "sink-with-outputs")
_TO = _End("to", "to_port", "input", "a source; sources have no input", "source-with-inputs")


def join_streams(draft: DraftDocument) -> DraftDocument:
    """Replace ids by positions, and name every port. A document may leave out a port that is the only one.

    >>> join_streams(find_types(draft("s:source > a:map > k:sink"))).wires[0]
    Wire(origin=0, from_port='out', to=1, to_port='in')
    >>> join_streams(find_types(draft("s:source > a:map > k:sink a > a"))).problems[0].message
    "the stream leads from 'a' to itself"
    """
    positions: dict[str, int] = {}
    repeated: set[str] = set()
    problems: list[Problem] = []
    for i, task in enumerate(draft.reading.tasks):
        if task is None:
            continue
        if task.id in positions:
            repeated.add(task.id)
            problems.append(
                Problem(
                    pointer=pointer("tasks", i, "id"),
                    code="repeated-id",
                    message=f"the id {quoted(task.id)} is already that of task {positions[task.id]}",
                    remedy="give each task its own id",
                )
            )
        positions.setdefault(task.id, i)
    # A stream may mean either of the two, so its end is not checked.
    positions = {name: i for name, i in positions.items() if name not in repeated}
    ambiguous = draft.reading.unreadable_ids | repeated
    wires: list[Wire] = []
    first: dict[Wire, int] = {}
    for i, stream in enumerate(draft.reading.streams):
        if stream is None:
            continue
        joined = _join(i, stream, positions, ambiguous, draft.types)
        if isinstance(joined, Wire):
            if joined in first:
                problems.append(_repeated(i, first[joined]))
            first.setdefault(joined, i)
            wires.append(joined)
        else:
            problems += joined
    return replace(draft, wires=tuple(wires), problems=(*draft.problems, *problems))


def _join(
    i: int,
    stream: StreamForm,
    positions: Mapping[str, int],
    ambiguous: Container[str],
    types: Sequence[AnyTaskType | None],
) -> Wire | list[Problem]:
    problems: list[Problem] = []
    found: list[tuple[int, str]] = []
    for end, task, port in ((_FROM, stream.origin, stream.from_port), (_TO, stream.to, stream.to_port)):
        if task not in positions:
            if task not in ambiguous:
                problems.append(_unknown_task(i, end, task))
        elif (kind := types[positions[task]]) is not None:
            named = _port(i, end, task, kind, port)
            if isinstance(named, Problem):
                problems.append(named)
            else:
                found.append((positions[task], named))
    if stream.origin == stream.to and stream.to not in ambiguous:
        problems.append(
            Problem(
                pointer=pointer("streams", i),
                code="self-loop",
                message=f"the stream leads from {quoted(stream.to)} to itself",
                remedy="remove it; a dataflow has no cycles",
            )
        )
    if problems or len(found) < 2:  # noqa: PLR2004 - a stream has two ends
        return problems
    (origin, from_port), (to, to_port) = found
    return Wire(origin, from_port, to, to_port)


def _port(i: int, end: _End, task: str, kind: AnyTaskType, named: str | None) -> str | Problem:
    ports = kind.outputs if end is _FROM else kind.inputs
    if not ports:
        return Problem(
            pointer=pointer("streams", i, end.task),
            code=end.code,
            message=f"the task {quoted(task)} is {end.role}",
            remedy="remove the stream, or change the task's type",
        )
    if named is None:
        if len(ports) == 1:
            return ports[0]
        return Problem(
            pointer=pointer("streams", i),
            code="missing-port",
            message=f"the task {quoted(task)} has several {end.side} ports, and the stream names none",
            remedy=f"add {quoted(end.port)}, one of {listed(ports)}",
        )
    if named in ports:
        return named
    return Problem(
        pointer=pointer("streams", i, end.port),
        code="unknown-port",
        message=f"the task {quoted(task)} of type {quoted(kind.name)} has no {end.side} port {quoted(named)}",
        remedy=suggestion(named, ports, f"it has {listed(ports)}"),
    )


def _unknown_task(i: int, end: _End, task: str) -> Problem:
    return Problem(
        pointer=pointer("streams", i, end.task),
        code="unknown-task",
        message=f"no task has the id {quoted(task)}",
        remedy="correct the id, or add the task",
    )


def _repeated(i: int, first: int) -> Problem:
    return Problem(
        pointer=pointer("streams", i),
        code="repeated-stream",
        message=f"the stream repeats stream {first}: it connects the same tasks and ports",
        remedy="remove one of the two",
    )
