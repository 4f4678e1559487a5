"""Pipelines: documents with open places, read and turned into planning problems."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dags import AnyTaskType, Catalogue, Config, InvalidDocument, Kind, Problem, Source
from dags.form_reader import read_form
from dags.problems import listed, pointer, quoted, suggestion
from planning.constraint import UNSET, All, Constraint, Equals
from planning.forms.constraint_reader import ConstraintReader
from planning.forms.pipeline_form import END, EVERYWHERE, GoalForm, PipelineForm
from planning.pipelines.blueprint import Blueprint, Spot, draw
from planning.pipelines.candidates import (
    FIELD,
    TAG,
    Filling,
    Site,
    Unusable,
    candidates_of,
    chosen,
    computes,
    kind_value,
    no_op,
    option_of,
)
from planning.pipelines.module import Module, read_domains
from planning.pipelines.passages import passages_of_type
from planning.planning_problem import Goal, Option, Outlet, PlanningProblem, RunningVertex, StateVariable, Vertex, below
from planning.shape import PAIR

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
    """Of every open place, by the names of the options that they are."""


PLACES = frozenset({"point", "gap"})
"""The fields by which an entry of a document is an open place."""
OWN_FIELDS = frozenset({"variables", "given", "goals", "meets", "prefer", "follow"})
"""The fields that only documents of pipelines have."""


def is_pipeline(value: Mapping[str, object]) -> bool:
    """Whether a document is one with open places or goals, to be planned."""
    tasks = value.get("tasks")
    entries = tasks if isinstance(tasks, list) else []
    return bool(value.keys() & OWN_FIELDS) or any(isinstance(each, dict) and each.keys() & PLACES for each in entries)


def read_pipeline(raw: bytes | str, around: Surroundings) -> Pipeline:
    """The pipeline of a document. Raises `InvalidDocument` with every problem of one kind."""
    form = read_form(raw, PipelineForm)
    blueprint = draw(
        form,
        dataflow=around.dataflow,
        tenant=around.tenant,
        catalogue=around.catalogue,
        sources=around.sources,
    )
    return _Builder(blueprint, around).pipeline()


class _Builder:
    """Builds the problem of one pipeline, and collects what is wrong with it."""

    def __init__(self, blueprint: Blueprint, around: Surroundings) -> None:
        self.blueprint, self.form, self.around = blueprint, blueprint.form, around
        self.domains, self.problems = read_domains(self.form.variables, {})
        self.offered = [each for each in around.modules if not _is_left_out(each, around)]
        self.found: dict[str, list[Filling]] = {}
        self.known: dict[tuple[str, tuple[str, ...], str], Sequence[Filling | Unusable]] = {}
        for spot in blueprint.spots:
            if spot.choice is not None:
                self.found[spot.id] = self._candidates(spot)
            elif spot.type is not None and spot.config is not None and not spot.type.is_source:
                self.found[spot.id] = self._fixed(spot, spot.type, spot.config)
        modules = {each.name: each.module for cases in self.found.values() for each in cases if each.module is not None}
        # What a pipeline does without it may speak of all the same.
        modules |= {each.name: each for each in around.modules if _is_left_out(each, around)}
        domains = dict(self.domains)
        for module in modules.values():
            domains |= {name: domains.get(name, frozenset()) | values for name, values in module.domains.items()}
        self.domains = domains
        self.fields = frozenset(
            name for cases in self.found.values() for each in cases for name in each.passage.fields()
        ).union(*(goal.fields for goal in self.form.goals))

    def pipeline(self) -> Pipeline:
        """The pipeline, or its problems."""
        reader = ConstraintReader(self.domains)
        given = {
            Outlet(spot.id, port): self._given(spot, reader)
            for spot in self.blueprint.spots
            for port in spot.outputs
            if spot.type is not None and spot.type.is_source
        }
        vertices = tuple(self._vertex(spot, reader) for spot in self.blueprint.spots if spot.id in self.found)
        goals = tuple(
            Goal(name=pointer("goals", at), holds=self._holds(at, goal, reader), streams=self._aimed(goal, vertices))
            for at, goal in enumerate(self.form.goals)
        )
        if problems := [*self.problems, *reader.problems]:
            raise InvalidDocument(problems)
        texts = {option.computes for vertex in vertices for option in vertex.options}
        running = self.around.running({*texts, *self._sources().values()} - {""})
        return Pipeline(
            blueprint=self.blueprint,
            problem=PlanningProblem(
                variables=self._variables(),
                given=given,
                vertices=vertices,
                goals=goals,
                running=tuple(running),
                origins=self._origins(running),
                confined=frozenset(
                    spot.id for spot in self.blueprint.spots if _is_fresh(spot) and spot.id not in self.found
                ),
                present=self.around.present,
            ),
            candidates={
                spot.id: _named(self.found[spot.id]) for spot in self.blueprint.spots if spot.choice is not None
            },
        )

    def _candidates(self, spot: Spot) -> list[Filling]:
        choice = spot.choice
        if choice is None:
            return []
        ports = tuple(each.port for each in spot.inputs)
        site = Site(ports=ports, rest=choice.config, catalogue=self.around.catalogue, tenant=self.around.tenant)
        asked = chosen(choice, self.offered)
        found = [each for module in asked for each in self._asked(module, site)]
        fitting = [each for each in found if isinstance(each, Filling)]
        place = ("tasks", spot.at, "point" if spot.point is not None else "gap")
        self._find_unknown(choice.modules or (), place)
        if choice.modules is not None:
            for module in asked:
                self.problems += [replace(each, pointer=pointer(*place, "modules")) for each in module.excesses()]
        if not fitting and not choice.shape.allows_no_op:
            why = "; ".join(f"{each.module}: {each.why}" for each in found if isinstance(each, Unusable))
            message = f"no module of shape {choice.shape} fits here{': ' if why else ''}{why}"
            self._add(place, "no-module", message, "publish one, or change what the place asks for")
        return fitting

    def _asked(self, module: Module, site: Site) -> Sequence[Filling | Unusable]:
        """The cases of a module at a place. Places that are alike have the same, and types are slow to ask."""
        alike = (module.name, site.ports, json.dumps(site.rest, sort_keys=True))
        if alike not in self.known:
            self.known[alike] = list(candidates_of(module, site))
        return self.known[alike]

    def _find_unknown(self, wanted: Sequence[str], place: tuple[str | int, ...]) -> None:
        names = {each.form.name for each in self.around.modules} | {each.name for each in self.around.modules}
        tags = {f"{TAG}{tag}" for each in self.around.modules for tag in each.form.tags}
        for at, name in enumerate(wanted):
            if name not in names | tags:
                remedy = suggestion(name, names | tags, f"there are {listed(sorted(names))}")
                self._add((*place, "modules", at), "unknown-module", f"unknown module {quoted(name)}", remedy)

    def _fixed(self, spot: Spot, kind: AnyTaskType, config: Config) -> list[Filling]:
        ports = tuple(each.port for each in spot.inputs)
        given = {} if spot.task is None else spot.task.config
        module = next((each for each in self.around.modules if _is_of(each, kind, given)), None)
        return [
            Filling(name=kind.name, module=module, type=kind, config=given, text=spot.text, passage=passage)
            for passage in passages_of_type(kind, config, ports)
        ]

    def _vertex(self, spot: Spot, reader: ConstraintReader) -> Vertex:
        ports = tuple(each.port for each in spot.inputs)
        options = [option_of(name, each, self.fields, ports) for name, each in _named(self.found[spot.id]).items()]
        if _is_fresh(spot):
            options = [replace(each, computes="") for each in options]
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
                self._add(("goals", at, "fields", name), "unknown-kind", f"unknown kind {quoted(kind)}", remedy)
        return All(tuple(parts))

    def _aimed(self, goal: GoalForm, vertices: Sequence[Vertex]) -> tuple[Outlet, ...]:
        raw = [Outlet(each.id, port) for each in self.blueprint.spots if each.source for port in each.outputs]
        every = [stream for vertex in vertices for stream in vertex.streams()]
        if goal.since is not None:
            reached = below(vertices, self.blueprint.last(goal.since))
            return tuple(stream for stream in (*raw, *every) if stream.origin in reached)
        if goal.at == EVERYWHERE:
            return (*raw, *every)
        if goal.at in {END, None}:
            sinks = [vertex for vertex in vertices if not vertex.outputs]
            return tuple(dict.fromkeys(stream for each in sinks for at in each.inputs for stream in at.streams))
        last = self.blueprint.last(goal.at)
        return tuple(Outlet(last, port) for each in self.blueprint.spots if each.id == last for port in each.outputs)

    def _sources(self) -> Mapping[str, str]:
        """What each source computes."""
        return {
            spot.id: computes(spot.type.name, spot.type.version, spot.text)
            for spot in self.blueprint.spots
            if spot.type is not None and spot.type.is_source
        }

    def _origins(self, running: Sequence[RunningVertex]) -> Mapping[str, str]:
        known = {task.computes: task.id for task in running if not task.inputs}
        return {spot: known.get(text, text) for spot, text in self._sources().items()}

    def _variables(self) -> tuple[StateVariable, ...]:
        named = {PAIR, *(FIELD + name for name in self.fields)}
        types = [
            StateVariable(name=name, domain=frozenset({UNSET, "true"}) if name == PAIR else _KINDS, is_type=True)
            for name in sorted(named)
        ]
        return (*(StateVariable(name=name, domain=self.domains[name]) for name in sorted(self.domains)), *types)

    def _add(self, place: Sequence[str | int], code: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(pointer=pointer(*place), code=code, message=message, remedy=remedy))


def _is_fresh(spot: Spot) -> bool:
    """Whether its document wants it for itself alone."""
    return spot.task is not None and spot.task.fresh


def _named(candidates: Sequence[Filling]) -> dict[str, Filling]:
    """Candidates by names of their own: a module has several if it has several cases."""
    found: dict[str, Filling] = {}
    for each in candidates:
        same = sum(other.name == each.name for other in found.values())
        found[f"{each.name} #{same + 1}" if same else each.name] = each
    return found


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
