"""Templates from what a file states: OPMW, WINGS, and both mixed.

Whatever is missing or does not fit is repaired where its meaning is plain, else left out, and told either way: no file
ends in a traceback. A link of WINGS becomes what OPMW says: a step generates a variable, another uses it.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from rdflib import Literal
from rdflib.term import Node

from workloads.opmw.findings_log import FindingsLog
from workloads.opmw.rdf_facts import Facts, Unreadable, own_name, plain, read_facts
from workloads.opmw.step_links import Data, Wiring, wire
from workloads.opmw.templates import FindingOutcome, ImportFinding, Template, TemplateStep, Value, Variable

_EXACT = 2**53
"""Beyond it readers of JSON lose digits of an integer."""


def read_templates(path: Path) -> tuple[tuple[Template, ...], tuple[ImportFinding, ...]]:
    """The templates in a file, and all that is wrong with them or with it."""
    telling = FindingsLog(str(path))
    try:
        facts = read_facts(path)
    except Unreadable as error:
        telling.tell(FindingOutcome.SKIPPED, str(error))
        return (), tuple(telling.findings)
    return templates_in(facts, str(path))


def templates_in(facts: Facts, file: str) -> tuple[tuple[Template, ...], tuple[ImportFinding, ...]]:
    """The templates that a file's statements describe, and all that is wrong with them."""
    telling, found = FindingsLog(file), list[Template]()
    declared = facts.members("WorkflowTemplate")
    meant = [value for _, value in facts.pairs("isStepOfTemplate")] + [value for value, _ in facts.pairs("hasNode")]
    names: dict[str, int] = {}
    for node in dict.fromkeys([*declared, *(each for each in meant if not isinstance(each, Literal))]):
        telling.template = _unique(facts.label(node) or own_name(node) or "template", names)
        if node not in declared:
            told = "it is not declared a template, but steps say that they belong to it"
            telling.tell(
                FindingOutcome.REPAIRED,
                told,
                cause="templates are not declared, but steps say that they belong to them",
            )
        if (template := _template(facts, node, telling)) is not None:
            found.append(template)
    if not names:
        telling.template = None
        telling.tell(FindingOutcome.SKIPPED, "it declares no template")
    return tuple(found), tuple(telling.findings)


def _template(facts: Facts, node: Node, telling: FindingsLog) -> Template | None:
    members = [*facts.objects(node, "hasNode"), *facts.subjects("isStepOfTemplate", node)]
    names: dict[str, int] = {}
    steps = {
        each: _unique(_name(facts, each, node), names)
        for each in dict.fromkeys(members)
        if not isinstance(each, Literal)
    }
    if not steps:
        telling.tell(FindingOutcome.SKIPPED, "it has no steps")
        return None
    wiring = wire(facts, node, steps, telling)
    if not any(wiring.uses.values()) and not any(wiring.gives.values()):
        telling.tell(
            FindingOutcome.SKIPPED, "it says which steps it has, but neither what they use nor what they generate"
        )
        return None
    parameters = _parameters(facts, node, wiring)
    found = dict.fromkeys(
        data
        for step in steps
        for data in (*wiring.uses[step], *sorted(wiring.gives[step], key=str))
        if data.variable not in parameters
    )
    taken: dict[str, int] = {}
    # What comes from outside is called as the variable is, for sources may go by its name.
    called = {
        data: _unique(_name(facts, data.variable, node), taken)
        for data in sorted(found, key=lambda data: data.origin is not None)
    }
    variables = {data: called[data] for data in found}
    template = Template(
        name=telling.template or "template",
        steps=tuple(_step(facts, each, name, wiring, variables, telling) for each, name in steps.items()),
        variables=_variables(facts, variables, telling),
    )
    if circle := _circle(template):
        telling.tell(FindingOutcome.SKIPPED, f"its steps lead in a circle: {' > '.join(circle)}")
        return None
    if (parts := template.parts()) > 1:
        telling.tell(FindingOutcome.NOTED, f"it is in {parts} parts that no link joins")
    return template


def _parameters(facts: Facts, template: Node, wiring: Wiring) -> frozenset[Node]:
    """What is used as a parameter, and so is no data; what a step generates is data, whatever it is called."""
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


def _variables(facts: Facts, variables: Mapping[Data, str], telling: FindingsLog) -> tuple[Variable, ...]:
    called: dict[Node, str] = {}
    for data, name in variables.items():
        called.setdefault(data.variable, name)
    data_types = {variable: _data_type(facts, variable, name, telling) for variable, name in called.items()}
    return tuple(Variable(name=name, data_type=data_types[data.variable]) for data, name in variables.items())


def _step(  # noqa: PLR0913, PLR0917 - all that is known of it
    facts: Facts, node: Node, name: str, wiring: Wiring, variables: Mapping[Data, str], telling: FindingsLog
) -> TemplateStep:
    bound: dict[str, Value] = {}
    for data, role in wiring.uses[node].items():
        variable = data.variable
        values = facts.objects(variable, "hasParameterValue", "hasValue") if data not in variables else []
        if values:
            key = role or _name(facts, variable, None)
            bound[key if key not in bound else own_name(variable)] = _value(values[0])
        if len(values) > 1:
            told = f"parameter {own_name(variable)!r} has {len(values)} values; the first is taken"
            cause = "parameters have several values; the first is taken"
            telling.tell(FindingOutcome.REPAIRED, told, cause=cause, name=own_name(variable))
    return TemplateStep(
        name=name,
        component=_component(facts, node, name, telling),
        uses=tuple(sorted(variables[each] for each in wiring.uses[node] if each in variables)),
        gives=tuple(sorted(variables[each] for each in wiring.gives[node] if each in variables)),
        parameters=bound,
    )


def _component(facts: Facts, node: Node, step: str, telling: FindingsLog) -> str:
    components = facts.objects(node, "hasComponent")
    candidates: tuple[Iterable[str], ...] = (
        (own_name(each) for component in components for each in facts.objects(component, "hasComponentBinding")),
        (name for component in components for name in facts.classes(component)),
        map(own_name, components),
        facts.classes(node),
        map(own_name, facts.objects(node, "hasComponentBinding")),
    )
    for names in map(tuple, candidates):
        if names := tuple(dict.fromkeys(filter(None, names))):
            if len(names) > 1:
                told = f"step {step!r} has {len(names)} components, {', '.join(names)}; the first is taken"
                cause = "steps have several components; the first that the file declares is taken"
                telling.tell(FindingOutcome.REPAIRED, told, cause=cause, name=step)
            return names[0]
    told = f"step {step!r} has no component; its own name is taken"
    telling.tell(FindingOutcome.REPAIRED, told, cause="steps have no component; their own names are taken", name=step)
    return step


def _data_type(facts: Facts, node: Node, variable: str, telling: FindingsLog) -> str | None:
    names = facts.classes(node)
    if len(names) > 1:
        told = f"variable {variable!r} has {len(names)} data types, {', '.join(names)}; the first is taken"
        cause = "variables have several data types; the first that the file declares is taken"
        telling.tell(FindingOutcome.REPAIRED, told, cause=cause, name=variable)
    return names[0] if names else None


def _circle(template: Template) -> list[str]:
    """Steps that lead in a circle, in order; none where there is no circle."""
    parents, done, path = template.parents(), set[str](), list[str]()
    for first in parents:
        # Downwards without recursion: a file may hold a chain of any length.
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
    """What a step or variable is called; published names repeat their template's at the front."""
    if (label := facts.label(node)) is not None:
        return label.strip()
    name = own_name(node)
    prefix = "" if template is None else f"{own_name(template)}_"
    return (name.removeprefix(prefix) if prefix else name) or name or "unnamed"


def _unique(name: str, taken: dict[str, int]) -> str:
    """The name, with a number where it is taken already."""
    while True:
        number = taken[name] = taken.get(name, 0) + 1
        if number == 1:
            return name
        name = f"{name}-{number}"


def _value(node: Node) -> Value:
    """A parameter's value as JSON has it; what JSON cannot say exactly stays text."""
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
