"""The reader of templates in OPMW, WINGS, or both mixed.

Missing or wrong statements are repaired if their meaning is clear, else left out; both become findings, and no file
causes a traceback. A link of WINGS is read as OPMW would say it: one step generates a variable, another uses it.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from rdflib import Literal
from rdflib.term import Node

from workloads.opmw.findings_log import FindingsLog
from workloads.opmw.rdf_facts import Facts, Unreadable, local_name, plain, read_facts
from workloads.opmw.step_links import Data, Wiring, wire
from workloads.opmw.templates import FindingOutcome, ImportFinding, Template, TemplateStep, Value, Variable

_EXACT = 2**53
"""The largest integer that all readers of JSON read exactly."""


def read_templates(path: Path) -> tuple[tuple[Template, ...], tuple[ImportFinding, ...]]:
    """Read the templates in a file, with all findings."""
    log = FindingsLog(str(path))
    try:
        facts = read_facts(path)
    except Unreadable as error:
        log.add(FindingOutcome.SKIPPED, str(error))
        return (), tuple(log.findings)
    return templates_in(facts, str(path))


def templates_in(facts: Facts, file: str) -> tuple[tuple[Template, ...], tuple[ImportFinding, ...]]:
    """The templates that a file's statements describe, with all findings."""
    log, found = FindingsLog(file), list[Template]()
    declared = facts.members("WorkflowTemplate")
    meant = [value for _, value in facts.pairs("isStepOfTemplate")] + [value for value, _ in facts.pairs("hasNode")]
    names: dict[str, int] = {}
    for node in dict.fromkeys([*declared, *(each for each in meant if not isinstance(each, Literal))]):
        log.template = _unique(facts.label(node) or local_name(node) or "template", names)
        if node not in declared:
            log.add(
                FindingOutcome.REPAIRED,
                "it is not declared as a template, but steps say that they belong to it",
                cause="templates are not declared, but steps say that they belong to them",
            )
        if (template := _template(facts, node, log)) is not None:
            found.append(template)
    if not names:
        log.template = None
        log.add(FindingOutcome.SKIPPED, "it declares no template")
    return tuple(found), tuple(log.findings)


def _template(facts: Facts, node: Node, log: FindingsLog) -> Template | None:
    members = [*facts.objects(node, "hasNode"), *facts.subjects("isStepOfTemplate", node)]
    names: dict[str, int] = {}
    steps = {
        each: _unique(_name(facts, each, node), names)
        for each in dict.fromkeys(members)
        if not isinstance(each, Literal)
    }
    if not steps:
        log.add(FindingOutcome.SKIPPED, "it has no steps")
        return None
    wiring = wire(facts, node, steps, log)
    if not any(wiring.uses.values()) and not any(wiring.gives.values()):
        log.add(FindingOutcome.SKIPPED, "it has steps, but no data that they use or generate")
        return None
    parameters = _parameters(facts, node, wiring)
    found = dict.fromkeys(
        data
        for step in steps
        for data in (*wiring.uses[step], *sorted(wiring.gives[step], key=str))
        if data.variable not in parameters
    )
    taken: dict[str, int] = {}
    # Data from outside gets the plain name of the variable, because sources may be named after it.
    names_of_data = {
        data: _unique(_name(facts, data.variable, node), taken)
        for data in sorted(found, key=lambda data: data.origin is not None)
    }
    variables = {data: names_of_data[data] for data in found}
    template = Template(
        name=log.template or "template",
        steps=tuple(_step(facts, each, name, wiring, variables, log) for each, name in steps.items()),
        variables=_variables(facts, variables, log),
    )
    if cycle := _cycle(template):
        log.add(FindingOutcome.SKIPPED, f"its steps form a cycle: {' > '.join(cycle)}")
        return None
    if (parts := template.parts()) > 1:
        log.add(FindingOutcome.NOTED, f"it has {parts} parts that no link joins")
    return template


def _parameters(facts: Facts, template: Node, wiring: Wiring) -> frozenset[Node]:
    """Variables that are parameters; a variable that a step generates is always data."""
    generated = wiring.generated()
    return frozenset(
        variable
        for uses in wiring.uses.values()
        for variable in (data.variable for data in uses)
        if variable not in generated
        and (
            facts.is_a(variable, "ParameterVariable")
            or template in facts.objects(variable, "isParameterOfTemplate")
            or facts.objects(variable, "hasParameterValue")
        )
    )


def _variables(facts: Facts, variables: Mapping[Data, str], log: FindingsLog) -> tuple[Variable, ...]:
    names_of_data: dict[Node, str] = {}
    for data, name in variables.items():
        names_of_data.setdefault(data.variable, name)
    data_types = {variable: _data_type(facts, variable, name, log) for variable, name in names_of_data.items()}
    return tuple(Variable(name=name, data_type=data_types[data.variable]) for data, name in variables.items())


def _step(  # noqa: PLR0913, PLR0917 - a step is made of these
    facts: Facts, node: Node, name: str, wiring: Wiring, variables: Mapping[Data, str], log: FindingsLog
) -> TemplateStep:
    bound: dict[str, Value] = {}
    for data, role in wiring.uses[node].items():
        variable = data.variable
        values = facts.objects(variable, "hasParameterValue", "hasValue") if data not in variables else []
        if values:
            key = role or _name(facts, variable, None)
            bound[key if key not in bound else local_name(variable)] = _value(values[0])
        if len(values) > 1:
            reason = f"parameter {local_name(variable)!r} has {len(values)} values; the first is taken"
            cause = "parameters have several values; the first is taken"
            log.add(FindingOutcome.REPAIRED, reason, cause=cause, name=local_name(variable))
    return TemplateStep(
        name=name,
        component=_component(facts, node, name, log),
        uses=tuple(sorted(variables[each] for each in wiring.uses[node] if each in variables)),
        gives=tuple(sorted(variables[each] for each in wiring.gives[node] if each in variables)),
        parameters=bound,
    )


def _component(facts: Facts, node: Node, step: str, log: FindingsLog) -> str:
    components = facts.objects(node, "hasComponent")
    candidates: tuple[Iterable[str], ...] = (
        (local_name(each) for component in components for each in facts.objects(component, "hasComponentBinding")),
        (name for component in components for name in facts.classes(component)),
        map(local_name, components),
        facts.classes(node),
        map(local_name, facts.objects(node, "hasComponentBinding")),
    )
    for names in map(tuple, candidates):
        if names := tuple(dict.fromkeys(filter(None, names))):
            if len(names) > 1:
                reason = f"step {step!r} has {len(names)} components, {', '.join(names)}; the first is taken"
                cause = "steps have several components; the first that the file declares is taken"
                log.add(FindingOutcome.REPAIRED, reason, cause=cause, name=step)
            return names[0]
    reason = f"step {step!r} has no component; its own name is taken"
    log.add(FindingOutcome.REPAIRED, reason, cause="steps have no component; their own names are taken", name=step)
    return step


def _data_type(facts: Facts, node: Node, variable: str, log: FindingsLog) -> str | None:
    names = facts.classes(node)
    if len(names) > 1:
        reason = f"variable {variable!r} has {len(names)} data types, {', '.join(names)}; the first is taken"
        cause = "variables have several data types; the first that the file declares is taken"
        log.add(FindingOutcome.REPAIRED, reason, cause=cause, name=variable)
    return names[0] if names else None


def _cycle(template: Template) -> list[str]:
    """The steps of a cycle, in order; empty if there is none."""
    parents, done, path = template.parents(), set[str](), list[str]()
    for first in parents:
        # Without recursion, because a file may hold a chain of any length.
        stack = [iter([first])]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                if path:
                    done.add(path.pop())
            elif following in path:
                return [*reversed(path[path.index(following) :]), path[-1]]
            elif following not in done:
                path.append(following)
                stack.append(iter(parents[following]))
    return []


def _name(facts: Facts, node: Node, template: Node | None) -> str:
    """The name of a step or variable, without its template's name, which published names repeat at the front."""
    if (label := facts.label(node)) is not None:
        return label.strip()
    name = local_name(node)
    prefix = "" if template is None else f"{local_name(template)}_"
    return (name.removeprefix(prefix) if prefix else name) or name or "unnamed"


def _unique(name: str, taken: dict[str, int]) -> str:
    """The name, with a number if it is already taken."""
    while True:
        number = taken[name] = taken.get(name, 0) + 1
        if number == 1:
            return name
        name = f"{name}-{number}"


def _value(node: Node) -> Value:
    """A parameter's value in JSON; a value that JSON cannot represent exactly stays text."""
    value = node.toPython() if isinstance(node, Literal) else str(node)
    match value:
        case bool():
            return value
        case int() if abs(value) <= _EXACT:
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            return plain(str(node))
