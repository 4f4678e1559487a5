"""The reader of pipelines: documents with open places become planning problems, with candidates for every place.

A candidate is a module that may fill a place, with a config and one case of its fields; in a problem it is an option.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from dags import AnyTaskType, Catalogue, Config, Effect, InvalidDocument, Kind, Source
from dags.canonical.tasks import complete
from dags.json_text import read_form
from dags.problems import listed, pointer, problem_at, quoted, suggestion
from planning.constraint import NOTHING, PAIR, UNSET, All, Constraint, Equals, Some, ensured_by, required_by
from planning.forms import END, EVERYWHERE, MOST_WORTH, Choice, ConstraintReader, GoalForm, PipelineForm
from planning.pipelines.blueprint import Blueprint, Spot, draw
from planning.pipelines.module import Module, read_domains
from planning.pipelines.passages import Leaving, Passage, passages_of_code, passages_of_type
from planning.problem import Goal, Option, Outlet, PlanningProblem, RunningVertex, StateVariable, Vertex, below

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
    """The name of the module, or of the fixed task's type."""
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
    fitting = [module for module in modules if module.form.shape is choice.shape]
    newest: dict[str, Module] = {}
    for module in fitting:
        known = newest.get(module.form.name)
        if known is None or known.form.version < module.form.version:
            newest[module.form.name] = module
    if choice.modules is None:
        return sorted(newest.values(), key=lambda module: module.name)
    named = {
        module.name: module
        for wanted in choice.modules
        for module in fitting
        if module.name == wanted
        or (
            module is newest[module.form.name]
            and wanted in {module.form.name, *(f"{TAG}{tag}" for tag in module.form.tags)}
        )
    }
    return sorted(named.values(), key=lambda module: module.name)


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
    for passage in cases:
        yield Filling(name=module.name, module=module, type=kind, config=config, text=text, passage=passage)


def _completed(kind: AnyTaskType, config: Mapping[str, Any], site: Site) -> tuple[AnyTaskType, Config, bytes] | str:
    # Third parties may raise anything; a module that does fills no place.
    try:
        made = complete(kind, dict(config), site.tenant)
        if isinstance(made, ValidationError):
            detail = made.errors(include_url=False, include_input=False)[0]
            return f"its config at {'/'.join(map(str, detail['loc']))}: {detail['msg']}"
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
    needed = NOTHING if module is None else All((module.require, required_by(module.form.shape)))
    effects = NOTHING if module is None else All((module.ensure, ensured_by(module.form.shape)))
    rests = [leaving.rest for leaving in passage.leaves.values() if leaving.rest]
    is_shared = candidate.type.deterministic and candidate.type.effect is Effect.NONE
    return Option(
        name=name,
        module=candidate.name,
        requires={port: _all([needed, *_needs(passage, port)]) for port in ports},
        ensures_at={port: _all([effects, *_effects(leaving, fields)]) for port, leaving in passage.leaves.items()},
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
    return Option(name=NO_OP, requires={"in": required_by(choice.shape)}, is_no_op=True)


def computes(kind: str, version: int, config: bytes) -> str:
    """What a task computes of its inputs, as a text that equal tasks have in common."""
    return json.dumps([kind, version, config.decode()])


def kind_value(kind: Kind) -> str:
    """A kind as the value of a variable."""
    return json.dumps(str(kind))


def _needs(passage: Passage, port: str) -> Iterator[Constraint]:
    for name, kinds in passage.needs.get(port, {}).items():
        equals = tuple(Equals(FIELD + name, kind_value(kind)) for kind in sorted(kinds))
        yield equals[0] if len(equals) == 1 else Some(equals)


def _effects(leaving: Leaving, fields: Collection[str]) -> Iterator[Constraint]:
    for name, kind in leaving.sets.items():
        yield Equals(FIELD + name, kind_value(kind))
    gone = leaving.drops if leaving.rest else set(fields) - leaving.sets.keys() - leaving.keeps
    for name in sorted(gone):
        yield Equals(FIELD + name, UNSET)


def _all(parts: Iterable[Constraint]) -> Constraint:
    """All of some constraints, as one flat list."""
    flat: list[Constraint] = []
    for part in parts:
        flat += _flat(part)
    return All(tuple(flat))


def _flat(part: Constraint) -> Iterable[Constraint]:
    return [leaf for inner in part.parts for leaf in _flat(inner)] if isinstance(part, All) else [part]


_KINDS = frozenset({UNSET, *map(kind_value, Kind)})


Running = Callable[[Collection[str]], Sequence[RunningVertex]]


def nothing_runs(_texts: Collection[str]) -> Sequence[RunningVertex]:
    """What runs where nothing does."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a pipeline is planned against."""

    dataflow: str
    tenant: str
    catalogue: Catalogue
    sources: Mapping[str, Source]
    modules: Sequence[Module]
    """Those that the tenant may use."""
    without: frozenset[str] = frozenset()
    """Those of them that must not be chosen, by name or by name and version."""
    running: Running = nothing_runs
    """What runs already, of tasks that compute what some texts say."""
    present: Mapping[str, str] = field(default_factory=dict)
    """What each place holds at present."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline as a planning problem; made by `read_pipeline`."""

    blueprint: Blueprint
    problem: PlanningProblem
    candidates: Mapping[str, Mapping[str, Filling]]
    """Those of every open place, by the names of the options that they are."""


PLACES = frozenset({"point", "gap"})
"""The fields by which an entry of a document is an open place."""
OWN_FIELDS = frozenset({"variables", "given", "goals", "meets", "prefer", "follow"})
"""The fields that only documents of pipelines have."""


def is_pipeline(value: Mapping[str, object]) -> bool:
    """Whether a document is one with open places or goals, to be planned."""
    tasks = value.get("tasks")
    entries = tasks if isinstance(tasks, list) else []
    return bool(value.keys() & OWN_FIELDS) or any(
        isinstance(entry, dict) and entry.keys() & PLACES for entry in entries
    )


def read_pipeline(raw: bytes | str, around: Surroundings) -> Pipeline:
    """The pipeline of a document. Raises `InvalidDocument` with every problem of one kind."""
    form = read_form(raw, PipelineForm)
    blueprint = draw(
        form, dataflow=around.dataflow, tenant=around.tenant, catalogue=around.catalogue, sources=around.sources
    )
    return _Builder(blueprint, around).pipeline()


class _Builder:
    """Builds the problem of one pipeline, and collects what is wrong with it."""

    def __init__(self, blueprint: Blueprint, around: Surroundings) -> None:
        self.blueprint, self.form, self.around = blueprint, blueprint.form, around
        self.domains, self.problems = read_domains(self.form.variables, {})
        self.offered = [module for module in around.modules if not _is_left_out(module, around)]
        self.fillings: dict[str, list[Filling]] = {}
        self.known: dict[tuple[str, tuple[str, ...], str], Sequence[Filling | Unusable]] = {}
        for spot in blueprint.spots:
            if spot.choice is not None:
                self.fillings[spot.id] = self._candidates(spot)
            elif spot.type is not None and spot.config is not None and not spot.type.is_source:
                self.fillings[spot.id] = self._fixed(spot, spot.type, spot.config)
        modules = {
            filling.name: filling.module
            for cases in self.fillings.values()
            for filling in cases
            if filling.module is not None
        }
        # What a pipeline does without it may speak of all the same.
        modules |= {module.name: module for module in around.modules if _is_left_out(module, around)}
        domains = dict(self.domains)
        for module in modules.values():
            domains |= {name: domains.get(name, frozenset()) | values for name, values in module.domains.items()}
        self.domains = domains
        self.fields = frozenset(
            name for cases in self.fillings.values() for filling in cases for name in filling.passage.fields()
        ).union(*(goal.fields for goal in self.form.goals))

    def pipeline(self) -> Pipeline:
        reader = ConstraintReader(self.domains)
        given = {
            Outlet(spot.id, port): self._given(spot, reader)
            for spot in self.blueprint.spots
            for port in spot.outputs
            if spot.type is not None and spot.type.is_source
        }
        vertices = tuple(self._vertex(spot, reader) for spot in self.blueprint.spots if spot.id in self.fillings)
        goals = tuple(
            Goal(name=pointer("goals", at), holds=self._holds(at, goal, reader), streams=self._aimed(goal, vertices))
            for at, goal in enumerate(self.form.goals)
        )
        if problems := [*self.problems, *reader.problems]:
            raise InvalidDocument(problems)
        texts = {option.computes for vertex in vertices for option in vertex.options}
        sources = {
            spot.id: computes(spot.type.name, spot.type.version, spot.text)
            for spot in self.blueprint.spots
            if spot.type is not None and spot.type.is_source
        }
        running = self.around.running({*texts, *sources.values()} - {""})
        known = {task.computes: task.id for task in running if not task.inputs}
        return Pipeline(
            blueprint=self.blueprint,
            problem=PlanningProblem(
                variables=self._variables(),
                given=given,
                vertices=vertices,
                goals=goals,
                running=tuple(running),
                origins={spot: known.get(text, text) for spot, text in sources.items()},
                confined=frozenset(
                    spot.id for spot in self.blueprint.spots if _is_fresh(spot) and spot.id not in self.fillings
                ),
                present=self.around.present,
            ),
            candidates={
                spot.id: _named(self.fillings[spot.id]) for spot in self.blueprint.spots if spot.choice is not None
            },
        )

    def _candidates(self, spot: Spot) -> list[Filling]:
        choice = spot.choice
        if choice is None:
            return []
        ports = tuple(inflow.port for inflow in spot.inputs)
        site = Site(ports=ports, rest=choice.config, catalogue=self.around.catalogue, tenant=self.around.tenant)
        asked = chosen(choice, self.offered)
        cases = [case for module in asked for case in self._asked(module, site)]
        fitting = [case for case in cases if isinstance(case, Filling)]
        place = ("tasks", spot.at, "point" if spot.point is not None else "gap")
        self._find_unknown(choice.modules or (), place)
        if choice.modules is not None:
            for module in asked:
                self.problems += [replace(problem, pointer=pointer(*place, "modules")) for problem in module.excesses()]
        if not fitting and not choice.shape.allows_no_op:
            why = "; ".join(f"{case.module}: {case.why}" for case in cases if isinstance(case, Unusable))
            message = f"no module of shape {choice.shape} fits here{': ' if why else ''}{why}"
            self.problems.append(
                problem_at("no-module", message, "publish one, or change what the place asks for", *place)
            )
        return fitting

    def _asked(self, module: Module, site: Site) -> Sequence[Filling | Unusable]:
        """The cases of a module at a place. Places that are alike have the same, and types are slow to ask."""
        alike = (module.name, site.ports, json.dumps(site.rest, sort_keys=True))
        if alike not in self.known:
            self.known[alike] = list(candidates_of(module, site))
        return self.known[alike]

    def _find_unknown(self, wanted: Sequence[str], place: tuple[str | int, ...]) -> None:
        names = {module.form.name for module in self.around.modules} | {module.name for module in self.around.modules}
        tags = {f"{TAG}{tag}" for module in self.around.modules for tag in module.form.tags}
        for at, name in enumerate(wanted):
            if name not in names | tags:
                remedy = suggestion(name, names | tags, f"there are {listed(sorted(names))}")
                message = f"unknown module {quoted(name)}"
                self.problems.append(problem_at("unknown-module", message, remedy, *place, "modules", at))

    def _fixed(self, spot: Spot, kind: AnyTaskType, config: Config) -> list[Filling]:
        ports = tuple(inflow.port for inflow in spot.inputs)
        given = {} if spot.task is None else spot.task.config
        module = next((module for module in self.around.modules if _is_of(module, kind, given)), None)
        return [
            Filling(name=kind.name, module=module, type=kind, config=given, text=spot.text, passage=passage)
            for passage in passages_of_type(kind, config, ports)
        ]

    def _vertex(self, spot: Spot, reader: ConstraintReader) -> Vertex:
        ports = tuple(inflow.port for inflow in spot.inputs)
        options = [
            option_of(name, candidate, self.fields, ports) for name, candidate in _named(self.fillings[spot.id]).items()
        ]
        if _is_fresh(spot):
            options = [replace(option, computes="") for option in options]
        if not options and spot.choice is None:
            # Its type refuses every field that it might get. The document that a plan makes is checked again.
            options = [Option(name=spot.id)]
        choice, point = spot.choice, spot.point
        if choice is not None and choice.shape.allows_no_op and ports == ("in",) and len(spot.outputs) == 1:
            options.append(no_op(choice))
        return Vertex(
            id=spot.id,
            inputs=spot.inputs,
            outputs=spot.outputs,
            options=tuple(options),
            meeting=spot.meeting,
            is_open=choice is not None,
            same="" if point is None or point.same is None else point.same,
            requires=All() if point is None else reader.read(point.require, "tasks", spot.at, "point", "require"),
            ensures=All() if point is None else reader.read(point.ensure, "tasks", spot.at, "point", "ensure"),
        )

    def _given(self, spot: Spot, reader: ConstraintReader) -> Mapping[str, str]:
        state = dict(reader.read_state(self.form.given.get(spot.id, {}), "given", spot.id))
        kinds: Mapping[str, Kind] = {}
        if spot.source is not None:
            kinds = spot.source.schema.fields
        elif spot.type is not None and spot.config is not None:
            made = spot.type.output_schema(spot.config, {})
            kinds = made[spot.outputs[0]].fields if spot.outputs else {}
        return {**state, **{FIELD + name: kind_value(kind) for name, kind in kinds.items() if name in self.fields}}

    def _holds(self, at: int, goal: GoalForm, reader: ConstraintReader) -> Constraint:
        parts = [reader.read(goal.holds, "goals", at, "holds")]
        for name, kind in goal.fields.items():
            if kind in set(Kind):
                parts.append(Equals(FIELD + name, kind_value(Kind(kind))))
            else:
                remedy = suggestion(kind, list(Kind), f"the kinds are {listed(Kind)}")
                message = f"unknown kind {quoted(kind)}"
                self.problems.append(problem_at("unknown-kind", message, remedy, "goals", at, "fields", name))
        return All(tuple(parts))

    def _aimed(self, goal: GoalForm, vertices: Sequence[Vertex]) -> tuple[Outlet, ...]:
        raw = [Outlet(spot.id, port) for spot in self.blueprint.spots if spot.source for port in spot.outputs]
        every = [stream for vertex in vertices for stream in vertex.streams()]
        if goal.since is not None:
            reached = below(vertices, self.blueprint.last(goal.since))
            return tuple(stream for stream in (*raw, *every) if stream.origin in reached)
        if goal.at == EVERYWHERE:
            return (*raw, *every)
        if goal.at in {END, None}:
            sinks = [vertex for vertex in vertices if not vertex.outputs]
            return tuple(dict.fromkeys(stream for sink in sinks for at in sink.inputs for stream in at.streams))
        last = self.blueprint.last(goal.at)
        return tuple(Outlet(last, port) for spot in self.blueprint.spots if spot.id == last for port in spot.outputs)

    def _variables(self) -> tuple[StateVariable, ...]:
        named = {PAIR, *(FIELD + name for name in self.fields)}
        types = [
            StateVariable(name=name, domain=frozenset({UNSET, "true"}) if name == PAIR else _KINDS, is_type=True)
            for name in sorted(named)
        ]
        return (*(StateVariable(name=name, domain=self.domains[name]) for name in sorted(self.domains)), *types)


def _is_fresh(spot: Spot) -> bool:
    """Whether its document wants it for itself alone."""
    return spot.task is not None and spot.task.fresh


def _named(candidates: Sequence[Filling]) -> dict[str, Filling]:
    """Candidates by names of their own: a module has several if it has several cases."""
    named: dict[str, Filling] = {}
    for candidate in candidates:
        same = sum(other.name == candidate.name for other in named.values())
        named[f"{candidate.name} #{same + 1}" if same else candidate.name] = candidate
    return named


def _is_left_out(module: Module, around: Surroundings) -> bool:
    return not around.without.isdisjoint({module.name, module.form.name})


def _is_of(module: Module, kind: AnyTaskType, config: Mapping[str, object]) -> bool:
    """Whether a fixed task is one of a module: of its type, with its part of the config."""
    installed = module.form.installed
    return (
        installed is not None
        and installed.type == kind.name
        and all(name in config and config[name] == value for name, value in installed.config.items())
    )
