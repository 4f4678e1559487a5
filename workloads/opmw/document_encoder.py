"""The encoder of templates as documents: a task per step, a source per variable from outside, and outputs.

Sources are named after data types and variables, which may contain any letters. The input ports of steps that join are
assigned to their inputs by what these compute.
"""

import json
import random
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import Any

from dags import Kind, Schema, Source, Visibility
from engine.tasks.compute import JoinStepConfig, join_ports
from workloads.opmw.templates import Template, TemplateStep
from workloads.workload import Document, Event, WorkloadSource

START = "start"
"""The source of steps without inputs, and of all first steps if there is one source for all."""
_LONGEST = 100
_DIGITS = 8
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"}
)
"""Letters that are not a letter with a diacritic."""
_FIT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST - 1}}}")
_DIGESTED = re.compile(rf".*-[0-9a-f]{{{_DIGITS}}}")
"""Names that look as if they were made here."""


def source_name(name: str) -> str:
    """A valid source name: always the same for the same name, and different for different names.

    A valid name stays as it is. Any other is transliterated to ASCII, with a digest of the original.

    >>> source_name("Table"), source_name("Table of words")
    ('Table', 'Table-of-words-9ff3b04b')
    >>> source_name("Größe"), source_name("Grüße"), source_name("词")
    ('Grosse-aedc3f80', 'Grusse-f83e0397', 'u8BCD-52ff1aed')
    """
    if _FIT.fullmatch(name) and not _DIGESTED.fullmatch(name) and name != START:
        return name
    letters = map(_ascii, unicodedata.normalize("NFKD", name.translate(_LETTERS)))
    written = re.sub(r"[^A-Za-z0-9._]+", "-", "".join(letters)).strip("._-")
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{written[: _LONGEST - _DIGITS - 1] or 'unnamed'}-{digest}"


def _ascii(letter: str) -> str:
    """A letter in ASCII: diacritics are dropped, and other letters become their code points."""
    if letter.isascii() or unicodedata.combining(letter):
        return letter if letter.isascii() else ""
    return f"u{ord(letter):04X}" if letter.isalnum() else "-"


def input_ports(
    entering: Mapping[str, Sequence[str]], computes: Mapping[str, Sequence[object]]
) -> dict[tuple[str, str], str]:
    """The port of each input of each step, given the inputs of each step and the computation of each task.

    Ports follow the order of the digests of the inputs with all their ancestors. Names do not count, so equal steps of
    two templates have equal inputs at equal ports, and stay equal.

    >>> input_ports({"join": ["a", "b"]}, {"join": ["Merge"], "a": ["Sort"], "b": ["Plot"]})
    {('join', 'a'): 'in1', ('join', 'b'): 'in2'}
    >>> input_ports({"merge": ["y", "x"]}, {"merge": ["Merge"], "x": ["Sort"], "y": ["Plot"]})
    {('merge', 'x'): 'in1', ('merge', 'y'): 'in2'}
    """
    digests: dict[str, str] = {}
    for task in TopologicalSorter(entering).static_order():
        above = sorted(digests[parent] for parent in entering.get(task, ()))
        digests[task] = sha256(json.dumps([computes[task], above], sort_keys=True).encode()).hexdigest()
    return {
        (step, task): port
        for step, tasks in entering.items()
        for port, task in zip(join_ports(len(tasks)), sorted(tasks, key=digests.__getitem__), strict=True)
    }


ITERATIONS = 500
"""Iterations of the computation of pi in every step: about 0.5 ms per event on one core."""
EVENTS_PER_SECOND = 2.0
"""Events per second of each source."""
OPMW_SCHEMA = Schema.of(value=Kind.FLOAT, number=Kind.INTEGER)
"""The schema of every source."""
_LONGEST_ID = 100
_WORK = "iterations"
_FIELDS = frozenset(JoinStepConfig.model_fields)
"""Config fields that every step has."""


class SourcesBy(StrEnum):
    """The property by which variables from outside get their sources."""

    TYPE = "type"
    """The data type, or the name of a variable without one."""
    VARIABLE = "variable"
    NONE = "none"
    """None: one source feeds every step that no other step feeds."""


class Inputs(StrEnum):
    """The moments at which a step with several inputs works."""

    INTERLEAVE = "interleave"
    """At each event of any input."""
    JOIN = "join"
    """Once for each complete set: the first events of all inputs, then the second events, and so on."""


def encode(
    template: Template,
    *,
    name: str,
    sources: SourcesBy = SourcesBy.TYPE,
    inputs: Inputs = Inputs.INTERLEAVE,
    sinks: bool = True,
) -> Document:
    """The document of a template.

    With sinks, each generated variable that no step uses has an output, and so has each last step that generates none.
    Without, one output takes the results of all last steps, since a document needs one.
    """
    ids = _Ids()
    steps = {step.name: ids.take(step.name) for step in template.steps}
    parents = template.parents()
    entering = {steps[step]: [steps[parent] for parent in above] for step, above in parents.items()}
    read: dict[str, str] = {}
    for variable, (source, takers) in _feeds(template, parents, sources).items():
        task = ids.take(variable)
        read[task] = source
        for step in takers:
            entering[steps[step]].append(task)
    joins = (
        {step for step, tasks_above in entering.items() if len(tasks_above) > 1}
        if inputs is Inputs.JOIN
        else set[str]()
    )
    tasks: list[dict[str, Any]] = [
        _task(task, step, joined=len(entering[task]) if task in joins else None)
        for step, task in ((step, steps[step.name]) for step in template.steps)
    ]
    tasks += [{"id": task, "type": "source", "config": {"source": source}} for task, source in read.items()]
    ports = input_ports(entering, {task["id"]: [task["type"], task["config"]] for task in tasks}) if joins else {}
    streams = [
        {"from": task, "to": step, **({"to_port": ports[step, task]} if step in joins else {})}
        for step, tasks_above in entering.items()
        for task in tasks_above
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
    """Sources as they are registered, readable by all tenants."""
    return {
        name: Source(name=name, owner="opmw", schema=OPMW_SCHEMA, visibility=Visibility.PUBLIC)
        for name in sorted(names)
    }


def workload_source(name: str) -> WorkloadSource:
    """A source with its events."""
    return WorkloadSource(name=name, schema=OPMW_SCHEMA, events=partial(events, name), per_second=EVENTS_PER_SECOND)


def events(source: str, seed: int) -> Iterator[Event]:
    """Endless events of a source: a random walk, and the number of the event."""
    draw, value, number = random.Random(f"{source} {seed}"), 50.0, 0  # noqa: S311 - generated events are no secret
    while True:
        value += draw.gauss(0.0, 1.0) + (50.0 - value) / 50.0
        yield {"value": round(value, 3), "number": number}
        number += 1


class _Ids:
    """The ids of one document: unique, and without the characters that mean something in MQTT."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """A new id that resembles the name."""
        plain = re.sub(r"[/+#\x00-\x1f\x7f-\x9f]", "-", name)[:_LONGEST_ID] or "unnamed"
        unique, number = plain, 1
        while unique in self._taken:
            number += 1
            unique = f"{plain}-{number}"
        self._taken.add(unique)
        return unique


def _task(task: str, step: TemplateStep, *, joined: int | None) -> dict[str, Any]:
    """The task of a step; `joined` is the number of inputs that it joins."""
    if joined is None:
        return {"id": task, "type": f"opmw:{step.component}", "config": _config(step)}
    return {"id": task, "type": f"opmw-join:{step.component}", "config": {**_config(step), "inputs": joined}}


def _config(step: TemplateStep) -> dict[str, Any]:
    """A step's parameters and its iterations; parameters with the name of a common field are renamed."""
    bound = {f"parameter {name}" if name in _FIELDS else name: value for name, value in sorted(step.parameters.items())}
    return {**bound, _WORK: ITERATIONS}


def _feeds(
    template: Template, parents: Mapping[str, list[str]], sources: SourcesBy
) -> dict[str, tuple[str, list[str]]]:
    """For each source task its source and the steps that read it."""
    feeds: dict[str, tuple[str, list[str]]] = {}
    if sources is not SourcesBy.NONE:
        generated = template.givers()
        for variable in template.variables:
            takers = [step.name for step in template.steps if variable.name in step.uses]
            if takers and variable.name not in generated:
                by_type = sources is SourcesBy.TYPE and variable.data_type
                feeds[variable.name] = (source_name(by_type or variable.name), takers)
    fed = {step for _, takers in feeds.values() for step in takers}
    unfed = [step for step, above in parents.items() if not above and step not in fed]
    return {**feeds, START: (START, unfed)} if unfed else feeds


def _ends(template: Template, parents: Mapping[str, list[str]], *, sinks: bool) -> dict[str, list[str]]:
    """For each output the steps that feed it."""
    above = {parent for above_step in parents.values() for parent in above_step}
    last = [step for step in template.steps if step.name not in above]
    if not sinks:
        return {"result": [step.name for step in last]}
    used = {variable for step in template.steps for variable in step.uses}
    outputs: dict[str, list[str]] = {}
    for step in template.steps:
        for variable in _given(step, used, last=step in last):
            outputs.setdefault(variable, []).append(step.name)
    return outputs


def _given(step: TemplateStep, used: set[str], *, last: bool) -> tuple[str, ...]:
    unused = tuple(variable for variable in step.gives if variable not in used)
    return unused or ((f"{step.name} result",) if last else ())
