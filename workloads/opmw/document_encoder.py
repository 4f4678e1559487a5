"""Templates as documents: a task per step, a source per variable that comes from outside, outputs."""

import random
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from dags import Kind, Schema, Source, Visibility
from engine.tasks.compute import JoinStepConfig
from workloads.opmw.input_ports import ports_given
from workloads.opmw.source_names import START, source_name
from workloads.opmw.templates import Template, TemplateStep
from workloads.workload import Document, Event, WorkloadSource

ITERATIONS = 500
"""Of the computation of pi in every step: some 0.5 ms per event on one core."""
EVENTS_PER_SECOND = 2.0
"""Events of each source in a second."""
OPMW_SCHEMA = Schema.of(value=Kind.FLOAT, number=Kind.INTEGER)
"""Of every source."""
_LONGEST_ID = 100
_WORK = "iterations"
_FIELDS = frozenset(JoinStepConfig.model_fields)
"""What steps have for themselves."""


class SourcesBy(StrEnum):
    """What tells the sources of variables apart."""

    TYPE = "type"
    """The data type; that of a variable without one is told apart by its name."""
    VARIABLE = "variable"
    NONE = "none"
    """Nothing: one source feeds every step that no other step feeds."""


class Inputs(StrEnum):
    """When a step with several inputs works."""

    INTERLEAVE = "interleave"
    """Whenever an event comes, whatever input it comes from."""
    JOIN = "join"
    """Once for each complete set: the first event of each input make one, the second of each the next."""


def encode(
    template: Template,
    *,
    name: str,
    sources: SourcesBy = SourcesBy.TYPE,
    inputs: Inputs = Inputs.INTERLEAVE,
    sinks: bool = True,
) -> Document:
    """The document of a template.

    With sinks, each variable that is generated and used by no step has an output, and so has each last step that
    generates none; without, one output takes what all last steps give, since a document needs one.
    """
    ids = _Ids()
    steps = {step.name: ids.take(step.name) for step in template.steps}
    parents = template.parents()
    entering = {steps[step]: [steps[parent] for parent in found] for step, found in parents.items()}
    read: dict[str, str] = {}
    for variable, (source, takers) in _feeds(template, parents, sources).items():
        task = ids.take(variable)
        read[task] = source
        for step in takers:
            entering[steps[step]].append(task)
    joins = {step for step, found in entering.items() if len(found) > 1} if inputs is Inputs.JOIN else set[str]()
    tasks: list[dict[str, Any]] = [
        _task(task, step, joined=len(entering[task]) if task in joins else None)
        for step, task in ((step, steps[step.name]) for step in template.steps)
    ]
    tasks += [{"id": task, "type": "source", "config": {"source": source}} for task, source in read.items()]
    ports = ports_given(entering, {task["id"]: [task["type"], task["config"]] for task in tasks}) if joins else {}
    streams = [
        {"from": task, "to": step, **({"to_port": ports[step, task]} if step in joins else {})}
        for step, found in entering.items()
        for task in found
    ]
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
        name: Source(name=name, owner="opmw", schema=OPMW_SCHEMA, visibility=Visibility.PUBLIC)
        for name in sorted(names)
    }


def workload_source(name: str) -> WorkloadSource:
    """A source with its events."""
    return WorkloadSource(name=name, schema=OPMW_SCHEMA, events=partial(events, name), per_second=EVENTS_PER_SECOND)


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


def _task(task: str, step: TemplateStep, *, joined: int | None) -> dict[str, Any]:
    """The task of a step, which may join so many inputs."""
    if joined is None:
        return {"id": task, "type": f"opmw:{step.component}", "config": _config(step)}
    return {"id": task, "type": f"opmw-join:{step.component}", "config": {**_config(step), "inputs": joined}}


def _config(step: TemplateStep) -> dict[str, Any]:
    """A step's parameters, beside how much it computes; those that happen to be called as fields of all are renamed."""
    bound = {f"parameter {name}" if name in _FIELDS else name: value for name, value in sorted(step.parameters.items())}
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
                found[variable.name] = (source_name(by_type or variable.name), takers)
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


def _given(step: TemplateStep, used: set[str], *, last: bool) -> tuple[str, ...]:
    unused = tuple(variable for variable in step.gives if variable not in used)
    return unused or ((f"{step.name} result",) if last else ())
