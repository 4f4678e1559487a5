"""Candidates: the modules that may fill a place of a pipeline, and the options that they are there."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dags import AnyTaskType, Catalogue, Config, Effect, Kind
from dags.canonical.configs import complete
from dags.problems import quoted
from planning.constraint import NOTHING, UNSET, All, Constraint, Equals, Some
from planning.forms.module_form import MOST_WORTH
from planning.forms.pipeline_form import Choice
from planning.pipelines.module import Module
from planning.pipelines.passages import Leaving, Passage, passages_of_code, passages_of_type
from planning.planning_problem import Option

FIELD = "field:"
"""Begins the variable that says of which kind a field is; unset if events have no such field."""
NO_OP = "nothing"
TAG = "tag:"
_MICROSECONDS = 1_000
_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """One way to fill a place: a module or a fixed task, with a config and one case of its fields."""

    name: str
    """Of the module, or of the fixed task's type."""
    module: Module | None
    type: AnyTaskType
    config: Mapping[str, Any]
    text: bytes
    """The complete config, as canonical JSON."""
    passage: Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A module that cannot fill a place, and why."""

    module: str
    why: str


def chosen(choice: Choice, modules: Iterable[Module]) -> list[Module]:
    """The modules that a place asks for, by shape, name and tag; of each name the newest, unless it gives a version."""
    fitting = [each for each in modules if each.form.shape is choice.shape]
    newest: dict[str, Module] = {}
    for each in fitting:
        known = newest.get(each.form.name)
        if known is None or known.form.version < each.form.version:
            newest[each.form.name] = each
    if choice.modules is None:
        return sorted(newest.values(), key=lambda each: each.name)
    found = {
        each.name: each
        for wanted in choice.modules
        for each in fitting
        if each.name == wanted or (each is newest[each.form.name] and _is_meant(each, wanted))
    }
    return sorted(found.values(), key=lambda each: each.name)


def _is_meant(module: Module, wanted: str) -> bool:
    return wanted.removeprefix(TAG) in module.form.tags if wanted.startswith(TAG) else module.form.name == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place of a pipeline, as far as the modules there depend on it."""

    ports: tuple[str, ...]
    """The input ports that streams enter."""
    rest: Mapping[str, Any]
    """The part of the config that a module leaves open."""
    catalogue: Catalogue
    tenant: str


def candidates_of(module: Module, site: Site) -> Iterator[Filling | Unusable]:
    """The cases of a module at a place."""
    if excess := next(module.excesses(), None):
        yield Unusable(module=module.name, why=excess.message)
        return
    if module.form.installed is not None:
        yield from _candidates(module, site, None)
    for case in () if module.form.code is None else passages_of_code(module.form.code):
        yield from _candidates(module, site, case)


def _candidates(module: Module, site: Site, case: Passage | None) -> Iterator[Filling | Unusable]:
    kind = site.catalogue.find(module.type)
    config = module.config(site.rest, {} if case is None else case.binds)
    made = f"the task type {quoted(module.type)} is not installed" if kind is None else _completed(kind, config, site)
    if isinstance(made, str):
        yield Unusable(module=module.name, why=made)
        return
    kind, record, text = made
    cases = passages_of_type(kind, record, site.ports) if case is None else (case,)
    if why := _misfit(kind, site.ports) or ("" if cases else "its task type takes no events with such a config"):
        yield Unusable(module=module.name, why=why)
        return
    for each in cases:
        yield Filling(name=module.name, module=module, type=kind, config=config, text=text, passage=each)


def _completed(kind: AnyTaskType, config: Mapping[str, Any], site: Site) -> tuple[AnyTaskType, Config, bytes] | str:
    # Third parties may raise anything; a module that does fills no place.
    try:
        made = complete(kind, dict(config), site.tenant)
        if isinstance(made, ValidationError):
            found = made.errors(include_url=False, include_input=False)[0]
            return f"its config at {'/'.join(map(str, found['loc']))}: {found['msg']}"
        return (kind.of(made[0]), *made)
    except Exception as error:  # noqa: BLE001 - as above
        return f"its task type failed: {type(error).__name__}: {error}"


def _misfit(kind: AnyTaskType, ports: Collection[str]) -> str:
    if kind.is_source or kind.is_sink:
        return "it does not both take and emit events"
    if missing := sorted(set(kind.inputs) - kind.optional - set(ports)):
        return f"no stream enters its port {quoted(missing[0])}"
    if unknown := sorted(set(ports) - set(kind.inputs)):
        return f"it has no port {quoted(unknown[0])}"
    return ""


def option_of(name: str, candidate: Filling, fields: Collection[str], ports: Sequence[str]) -> Option:
    """The option that a candidate is, under a name of its own, in a problem about some fields."""
    module, passage = candidate.module, candidate.passage
    needed = NOTHING if module is None else All((module.require, module.form.shape.requires))
    effects = NOTHING if module is None else All((module.ensure, module.form.shape.ensures))
    rests = [each.rest for each in passage.leaves.values() if each.rest]
    is_shared = candidate.type.deterministic and candidate.type.effect is Effect.NONE
    return Option(
        name=name,
        module=candidate.name,
        requires={port: _all([needed, *_needs(passage, port)]) for port in ports},
        ensures_at={port: _all([effects, *_effects(each, fields)]) for port, each in passage.leaves.items()},
        base=rests[0] if rests else "",
        cost=_figure(None if module is None else module.form.cost, _MICROSECONDS),
        quality=_figure(None if module is None else module.form.quality, _MILLI),
        computes=computes(candidate.type.name, candidate.type.version, candidate.text) if is_shared else "",
    )


def _figure(stated: float | None, parts: int) -> int:
    """A figure as an integer. A fixed task has no other, so it may as well have the most there is."""
    return round(min(stated or 0, MOST_WORTH) * parts)


def no_op(choice: Choice) -> Option:
    """The option of doing nothing."""
    return Option(name=NO_OP, requires={"in": choice.shape.requires}, is_no_op=True)


def computes(kind: str, version: int, config: bytes) -> str:
    """What a task computes of its inputs, as a text that equal tasks have in common."""
    return json.dumps([kind, version, config.decode()])


def kind_value(kind: Kind) -> str:
    """A kind as the value of a variable."""
    return json.dumps(str(kind))


def _needs(passage: Passage, port: str) -> Iterator[Constraint]:
    for name, kinds in passage.needs.get(port, {}).items():
        yield _one_of(FIELD + name, [kind_value(kind) for kind in sorted(kinds)])


def _effects(leaving: Leaving, fields: Collection[str]) -> Iterator[Constraint]:
    for name, kind in leaving.sets.items():
        yield Equals(FIELD + name, kind_value(kind))
    gone = leaving.drops if leaving.rest else set(fields) - leaving.sets.keys() - leaving.keeps
    for name in sorted(gone):
        yield Equals(FIELD + name, UNSET)


def _one_of(variable: str, values: Sequence[str]) -> Constraint:
    return Equals(variable, values[0]) if len(values) == 1 else Some(tuple(Equals(variable, each) for each in values))


def _all(parts: Iterable[Constraint]) -> Constraint:
    """All of some constraints, as one flat list."""
    flat: list[Constraint] = []
    for part in parts:
        flat += _flat(part)
    return All(tuple(flat))


def _flat(part: Constraint) -> Iterable[Constraint]:
    return [each for inner in part.parts for each in _flat(inner)] if isinstance(part, All) else [part]
