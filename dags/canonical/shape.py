"""Pass: check that the dataflow is a DAG from sources to sinks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from dags.canonical.draft import DraftDocument
from dags.problems import Problem, listed, pointer, quoted


def check_shape(draft: DraftDocument) -> DraftDocument:
    """Order the tasks, and find cycles, missing ends, dead ends and input ports without a stream.

    >>> from dags.canonical import join_streams
    >>> check_shape(join_streams(find_types(draft("s:source > a:map > k:sink")))).order
    (0, 1, 2)
    >>> check_shape(join_streams(find_types(draft("s:source > k:sink a:map > k")))).problems[0].message
    "no source reaches the task 'a'"
    """
    problems: list[Problem] = []
    try:
        order = _order(draft)
    except CycleError as error:
        order = ()
        # The sorter repeats the first task at the end.
        problems.append(_cycle(draft, error.args[1][:-1]))
    # If a type or stream has a problem, an apparent dead end may only be a misspelling.
    if draft.types and None not in draft.types:
        problems += _missing_ends(draft)
        if len(draft.wires) == len(draft.reading.streams):
            problems += _dead_ends(draft)
            problems += _unfed_ports(draft)
    return replace(draft, order=order, problems=(*draft.problems, *problems))


def _order(draft: DraftDocument) -> tuple[int, ...]:
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(draft.reading.tasks)), ()))
    for wire in draft.wires:
        sorter.add(wire.to, wire.origin)
    return tuple(sorter.static_order())


def _missing_ends(draft: DraftDocument) -> Iterable[Problem]:
    kinds = [kind for kind in draft.types if kind is not None]
    for there, what in ((any(k.is_source for k in kinds), "source"), (any(k.is_sink for k in kinds), "sink")):
        if not there:
            yield Problem(
                pointer=pointer("tasks"),
                code=f"no-{what}",
                message=f"the dataflow has no {what}",
                remedy=f"add a task of a {what} type",
            )


def _dead_ends(draft: DraftDocument) -> Iterable[Problem]:
    forward: list[list[int]] = [[] for _ in draft.types]
    backward: list[list[int]] = [[] for _ in draft.types]
    for wire in draft.wires:
        forward[wire.origin].append(wire.to)
        backward[wire.to].append(wire.origin)
    sources = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_source]
    sinks = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_sink]
    reached, reaching = _reach(forward, sources), _reach(backward, sinks)
    for i in range(len(draft.types)):
        name = quoted(_id(draft, i))
        if sources and i not in reached:
            yield _at_task(
                i, "unreached-task", f"no source reaches the task {name}", "connect it to a source, or remove it"
            )
        if sinks and i not in reaching:
            message = f"the task {name} reaches no sink"
            yield _at_task(i, "fruitless-task", message, "connect it to a sink, or remove it")


def _unfed_ports(draft: DraftDocument) -> Iterable[Problem]:
    fed: list[set[str]] = [set() for _ in draft.types]
    for wire in draft.wires:
        fed[wire.to].add(wire.to_port)
    for i, kind in enumerate(draft.types):
        if kind is not None and fed[i]:
            for port in kind.inputs:
                if port not in fed[i] and port not in kind.optional:
                    yield _at_task(
                        i,
                        "unfed-port",
                        f"no stream enters port {quoted(port)} of the task {quoted(_id(draft, i))}",
                        "add one; an input port needs a stream unless it is optional",
                    )


def _reach(neighbours: Sequence[Sequence[int]], starts: Iterable[int]) -> set[int]:
    reached = set(starts)
    open_ends = list(reached)
    while open_ends:
        for task in neighbours[open_ends.pop()]:
            if task not in reached:
                reached.add(task)
                open_ends.append(task)
    return reached


def _cycle(draft: DraftDocument, cycle: Sequence[int]) -> Problem:
    names = [_id(draft, i) for i in cycle]
    return _at_task(cycle[0], "cycle", f"the streams form a cycle: {listed(names)}", "remove one of its streams")


def _at_task(task: int, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer("tasks", task), code=code, message=message, remedy=remedy)


def _id(draft: DraftDocument, task: int) -> str:
    form = draft.reading.tasks[task]
    return "" if form is None else form.id
