"""Templates as documents: a task per step, a source per variable that comes from outside, outputs."""

import random
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from dags import Kind, Schema, Source, Visibility
from workloads.opmw.templates import Step, Template, Value
from workloads.workload import Document, Event, WorkloadSource

ITERATIONS = 500
"""Of the computation of pi in every step: some 0.5 ms per event on one core."""
PER_SECOND = 2.0
"""Events of each source in a second."""
SCHEMA = Schema.of(value=Kind.FLOAT, number=Kind.INTEGER)
"""Of every source."""
START = "start"
"""The source of steps that take nothing from outside, and of all first steps where sources are left out."""
_LONGEST_ID = 100
_WORK = "iterations"


class SourcesBy(StrEnum):
    """What tells the sources of variables apart."""

    TYPE = "type"
    """The data type; that of a variable without one is told apart by its name."""
    VARIABLE = "variable"
    NONE = "none"
    """Nothing: one source feeds every step that no other step feeds."""


def encode(template: Template, *, name: str, sources: SourcesBy = SourcesBy.TYPE, sinks: bool = True) -> Document:
    """The document of a template.

    With sinks, each variable that is generated and used by no step has an output, and so has each last step that
    generates none; without, one output takes what all last steps give, since a document needs one.
    """
    ids = _Ids()
    steps = {step.name: ids.take(step.name) for step in template.steps}
    parents = template.parents()
    tasks = [
        {"id": steps[step.name], "type": f"opmw:{step.component}", "config": _config(step.parameters)}
        for step in template.steps
    ]
    streams = [{"from": steps[parent], "to": steps[step]} for step, found in parents.items() for parent in found]
    for source, (read, takers) in _feeds(template, parents, sources).items():
        task = ids.take(source)
        tasks.append({"id": task, "type": "source", "config": {"source": read}})
        streams += [{"from": task, "to": steps[step]} for step in takers]
    for output, givers in _ends(template, parents, sinks=sinks).items():
        task = ids.take(output)
        tasks.append({"id": task, "type": "output", "config": {}})
        streams += [{"from": steps[step], "to": task} for step in givers]
    return {"version": 1, "name": name, "tasks": tasks, "streams": streams}


def sources_of(document: Document) -> tuple[str, ...]:
    """The names of the sources that a document reads, sorted."""
    return tuple(sorted({task["config"]["source"] for task in document["tasks"] if task["type"] == "source"}))


def registered(names: tuple[str, ...]) -> dict[str, Source]:
    """Sources as they are registered: readable by everybody."""
    return {
        name: Source(name=name, owner="opmw", schema=SCHEMA, visibility=Visibility.PUBLIC) for name in sorted(names)
    }


def workload_source(name: str) -> WorkloadSource:
    """A source with its events."""
    return WorkloadSource(name=name, schema=SCHEMA, events=partial(events, name), per_second=PER_SECOND)


def events(source: str, seed: int) -> Iterator[Event]:
    """Endless events of a source: a number that walks about, and how many came before."""
    draw, value, number = random.Random(f"{source} {seed}"), 50.0, 0  # noqa: S311 - made-up events are no secret
    while True:
        value += draw.gauss(0.0, 1.0) + (50.0 - value) / 50.0
        yield {"value": round(value, 3), "number": number}
        number += 1


class _Ids:
    """Ids of one document; MQTT gives some characters a meaning, and no two tasks have the same."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """An id like the name that nothing has yet."""
        plain = re.sub(r"[/+#\x00-\x1f\x7f-\x9f]", "-", name)[:_LONGEST_ID] or "unnamed"
        found, number = plain, 1
        while found in self._taken:
            number += 1
            found = f"{plain}-{number}"
        self._taken.add(found)
        return found


def _config(parameters: Mapping[str, Value]) -> dict[str, Any]:
    """A step's parameters, beside how much it computes; one that happens to be called the same is told apart."""
    bound = {f"parameter {_WORK}" if name == _WORK else name: value for name, value in sorted(parameters.items())}
    return {**bound, _WORK: ITERATIONS}


def _feeds(
    template: Template, parents: Mapping[str, list[str]], sources: SourcesBy
) -> dict[str, tuple[str, list[str]]]:
    """For each source task the source that it reads, and the steps that take it."""
    found: dict[str, tuple[str, list[str]]] = {}
    if sources is not SourcesBy.NONE:
        generated = template.givers()
        for variable in template.variables:
            takers = [step.name for step in template.steps if variable.name in step.uses]
            if takers and variable.name not in generated:
                by_type = sources is SourcesBy.TYPE and variable.data_type
                found[variable.name] = (_source_name(by_type or variable.name), takers)
    fed = {step for _, takers in found.values() for step in takers}
    unfed = [step for step, above in parents.items() if not above and step not in fed]
    return {**found, START: (START, unfed)} if unfed else found


def _ends(template: Template, parents: Mapping[str, list[str]], *, sinks: bool) -> dict[str, list[str]]:
    """For each output the steps that it takes from."""
    above = {parent for found in parents.values() for parent in found}
    last = [step for step in template.steps if step.name not in above]
    if not sinks:
        return {"result": [step.name for step in last]}
    used = {variable for step in template.steps for variable in step.uses}
    found: dict[str, list[str]] = {}
    for step in template.steps:
        for variable in _given(step, used, last=step in last):
            found.setdefault(variable, []).append(step.name)
    return found


def _given(step: Step, used: set[str], *, last: bool) -> tuple[str, ...]:
    unused = tuple(variable for variable in step.gives if variable not in used)
    return unused or ((f"{step.name} result",) if last else ())


def _source_name(name: str) -> str:
    """A name under which a source can be registered.

    >>> _source_name("Table of words")
    'Table-of-words'
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:_LONGEST_ID] or "unnamed"
