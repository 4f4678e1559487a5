"""The composer of pipelines: plans a document with open places against published modules and what runs.

Fallbacks: for each module of a plan the next best plan, which does without it. They are planned when they are
needed and not kept. That takes a tenth of a second, a failure is known after three batches, and what is kept
grows old with every change of modules, sources and what runs.
"""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import rfc8785

from braid_client.answers.pipelines import FallbackAnswer, FigureAnswer, GoalAnswer, PlaceAnswer, PlanAnswer
from dags import InvalidDocument, Problem
from dags.json_text import object_naming
from dags.vocabulary import Criterion
from manager.documents.canonical import modules_of, problems_of_documents
from manager.kernel.dataflow_rows import WrittenDocument, WrittenKind
from manager.kernel.registered_sources import Readable
from manager.problem import InvalidDataflow
from manager.use_case import Tools
from merge import RunningGraph, RunningTask
from planning.explanation import alternatives, supports
from planning.pipelines.planned import Assembled, Check, InvalidDocuments, PlannedPipeline, plan_pipeline, plan_together
from planning.pipelines.reader import (
    NO_OP,
    OWN_FIELDS,
    PLACES,
    Pipeline,
    Surroundings,
    computes,
    is_pipeline,
    read_pipeline,
)
from planning.plan import OutOfTime, TimeLeft
from planning.problem import Inflow, Outlet, RunningVertex


def shareable(running: RunningGraph, texts: Collection[str]) -> Sequence[RunningTask]:
    """The tasks of the types in some texts that anybody may share, each after those it reads from."""
    names = {json.loads(text)[0] for text in texts}
    tasks = running.tasks
    return [task for _, task in sorted(tasks.items()) if task.type.name in names and task.key.scope is None]


def running_vertices(tasks: Iterable[RunningTask], texts: Collection[str]) -> Sequence[RunningVertex]:
    """Return those of some tasks that compute what a text says."""
    pairs = ((task, computes(task.type.name, task.type.version, rfc8785.dumps(task.config))) for task in tasks)
    return [_vertex(task, text) for task, text in pairs if text in texts]


def _vertex(task: RunningTask, text: str) -> RunningVertex:
    ports: dict[str, list[Outlet]] = {}
    for entering in task.inputs:
        streams = [Outlet(str(entering.parent), entering.parent_port)] * entering.times
        ports.setdefault(entering.port, []).extend(streams)
    return RunningVertex(
        id=str(task.instance),
        computes=text,
        inputs=tuple(Inflow(port, tuple(streams)) for port, streams in ports.items()),
    )


_LONGEST_S = 10.0
"""A request waits no longer for the planner. What it has found by then is the plan."""
TOO_LONG = Problem(
    pointer="",
    code="planning-took-too-long",
    message=f"no plan was found in {_LONGEST_S:g} s, nor that there is none",
    remedy="name fewer modules at each place, or fix some places",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A planned pipeline, and the documents that are kept of it."""

    planned: PlannedPipeline
    pipeline: bytes
    """The document with open places, as it was sent."""

    @property
    def document(self) -> bytes:
        """The plain document that runs."""
        return json.dumps(self.planned.assembled.document, ensure_ascii=False).encode()

    @property
    def origin(self) -> WrittenDocument:
        """Return the pipeline of which the document was made."""
        return WrittenDocument(kind=WrittenKind.PIPELINE, written=self.pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The part of a pipeline that runs already."""

    dataflow: str = "planned"
    fillings: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    """The modules that it shall not hold any more, by name or by name and version."""


def steady(prefer: Sequence[Criterion]) -> Sequence[Criterion]:
    """Return the criteria where something runs already: fewest changes, then what is preferred."""
    return (Criterion.CHANGES, *(criterion for criterion in prefer if criterion is not Criterion.CHANGES))


def countdown() -> TimeLeft:
    """The time that a request has for planning, from now on."""
    end = time.monotonic() + _LONGEST_S
    return lambda: end - time.monotonic()


def pipeline_in(raw: bytes) -> bool:
    """Tell whether a document has open places or goals. One that cannot be read is refused as a document later."""
    return is_pipeline(object_naming(raw, PLACES | OWN_FIELDS))


def fillings_in(document: str, pipeline: str) -> Mapping[str, str]:
    """The module at each place of a pipeline whose document runs; `nothing` for a place that is not in it."""
    modules = {task["id"]: task.get("module") for task in json.loads(document)["tasks"]}
    places: dict[str, str] = {}
    for entry in json.loads(pipeline)["tasks"]:
        if "point" in entry:
            places[entry["id"]] = modules.get(entry["id"]) or NO_OP
        elif "gap" in entry:
            names = [f"{entry['id']}.{number}" for number in range(1, entry["gap"]["most"] + 1)]
            places |= {name: modules.get(name) or NO_OP for name in names}
    return places


class PipelineComposer:
    """Plans pipelines; any thread may ask it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def composed(  # noqa: PLR0913 - a pipeline, what runs of it, and how it is planned
        self,
        tenant: str,
        raw: bytes,
        *,
        present: Present | None = None,
        criteria: Sequence[Criterion] | None = None,
        left: TimeLeft | None = None,
        reasons: bool = True,
    ) -> Composed:
        """The best plan for a pipeline as it is now, within ten seconds; refused with all of its problems."""
        standing = present or Present()
        try:
            reading = self._read(tenant, raw, standing)
            planned = plan_pipeline(
                reading.pipeline, reading.check, criteria, left=left or countdown(), reasons=reasons
            )
        except InvalidDocument as refused:
            raise InvalidDataflow(refused.problems) from refused
        except OutOfTime as late:
            raise InvalidDataflow([TOO_LONG]) from late
        return Composed(planned=planned, pipeline=raw)

    def together(self, tenant: str, documents: Sequence[bytes]) -> tuple[Composed | None, ...]:
        """The best plans for several documents, of which some may be plain; None for those.

        They start as few tasks as they can in all. Refused with all of their problems.
        """
        refusals: dict[int, Sequence[Problem]] = {}
        readings: list[_Reading] = []
        for at, raw in enumerate(documents):
            try:
                readings.append(self._read(tenant, raw, Present(dataflow=f"planned-{at}")))
            except InvalidDocument as refused:
                refusals[at] = refused.problems
        if refusals:
            raise InvalidDataflow(problems_of_documents(refusals))
        try:
            planned = plan_together(
                [reading.pipeline for reading in readings], [reading.check for reading in readings], left=countdown()
            )
        except InvalidDocuments as several:
            problems = {at: refused.problems for at, refused in several.refusals.items()}
            raise InvalidDataflow(problems_of_documents(problems)) from several
        except OutOfTime as late:
            raise InvalidDataflow([TOO_LONG]) from late
        return tuple(
            Composed(planned=plan, pipeline=raw) if pipeline_in(raw) else None
            for raw, plan in zip(documents, planned, strict=True)
        )

    def _read(self, tenant: str, raw: bytes, standing: Present) -> "_Reading":
        with self._tools.committer.looking() as state:
            sources = state.sources
        with self._tools.store.read() as session:
            modules = modules_of(session, tenant, _held(raw, standing))

        def check(made: Assembled) -> Sequence[Problem]:
            text = json.dumps(made.document, ensure_ascii=False).encode()
            try:
                self._tools.canonical(text, dataflow=standing.dataflow, tenant=tenant, sources=sources)
            except InvalidDataflow as refused:
                return refused.errors
            return ()

        pipeline = read_pipeline(
            raw,
            Surroundings(
                dataflow=standing.dataflow,
                tenant=tenant,
                catalogue=self._tools.catalogue,
                sources=Readable(tenant, sources),
                modules=modules,
                without=standing.without,
                running=self._running,
                present=standing.fillings,
            ),
        )
        return _Reading(pipeline, check)

    def _running(self, texts: Collection[str]) -> Sequence[RunningVertex]:
        with self._tools.committer.looking() as state:
            tasks = shareable(state.running, texts)
        return running_vertices(tasks, texts)


class _Reading(NamedTuple):
    """A pipeline that was read, and the check of the documents that plans make of it."""

    pipeline: Pipeline
    check: Check


def _held(raw: bytes, present: Present) -> set[str]:
    """The modules that a pipeline holds or names, deprecated or not."""
    named = set(present.fillings.values())
    for entry in tasks_in(raw):
        for choice in ("point", "gap"):
            place = entry.get(choice)
            wanted = place.get("modules") if isinstance(place, dict) else None
            named |= {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    return named


def tasks_in(raw: bytes) -> list[dict[str, Any]]:
    """The tasks of a document as they are written; none of one that is refused when it is read."""
    try:
        tasks = json.loads(raw)["tasks"]
    except (ValueError, KeyError, TypeError):
        return []
    return [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []


_MOST_PLACES = 20
"""With more places, what would do as well takes too long to find."""


def changed_places(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[PlaceAnswer, ...]:
    """The places that hold something else afterwards."""
    return tuple(
        PlaceAnswer(id=place, module=_module(filling))
        for place, filling in after.items()
        if before.get(place) != filling
    )


def previewed(composer: PipelineComposer, tenant: str, composed: Composed, *, dataflow: str = "planned") -> PlanAnswer:
    """A plan with what would do as well, and what would happen if one of its modules failed."""
    fallbacks = _fallbacks(composer, tenant, composed, dataflow)
    return plan_answer(composed.planned, with_alternatives=True, fallbacks=fallbacks)


def plan_answer(
    planned: PlannedPipeline, *, with_alternatives: bool = False, fallbacks: tuple[FallbackAnswer, ...] = ()
) -> PlanAnswer:
    """A plan, and where it is wanted what would do as well."""
    problem, plan = planned.pipeline.problem, planned.plan
    open_places = [vertex.id for vertex in problem.vertices if vertex.is_open]
    asked: Collection[str] = open_places if with_alternatives and len(open_places) <= _MOST_PLACES else ()
    left = countdown()
    criteria = [figure.criterion for figure in plan.reached]
    document: dict[str, Any] = dict(planned.assembled.document)
    return PlanAnswer(
        places=tuple(
            PlaceAnswer(
                id=place,
                module=_module(filling),
                alternatives=alternatives(problem, plan, criteria, place, left=left) if place in asked else (),
            )
            for place, filling in planned.fillings.items()
        ),
        goals=tuple(GoalAnswer(goal=goal.name, rests_on=supports(problem, plan, goal)) for goal in problem.goals),
        figures=tuple(
            FigureAnswer(criterion=figure.criterion, value=figure.value, bound=figure.bound) for figure in plan.reached
        ),
        optimal=plan.is_optimal,
        document=document,
        fallbacks=fallbacks,
    )


def _module(filling: str) -> str | None:
    return None if filling == NO_OP else filling


_MOST_MODULES = 20
"""With more modules, all fallbacks take too long to plan."""


def _fallbacks(
    composer: PipelineComposer, tenant: str, composed: Composed, dataflow: str
) -> tuple[FallbackAnswer, ...]:
    """Say what would happen if one of the modules of a plan failed; nothing for a plan of very many."""
    modules = sorted(set(composed.planned.fillings.values()) - {NO_OP})
    if len(modules) > _MOST_MODULES:
        return ()
    left = countdown()
    fillings = composed.planned.fillings
    criteria = steady(composed.planned.pipeline.blueprint.form.prefer)
    fallbacks = []
    for module in modules:
        present = Present(dataflow=dataflow, fillings=fillings, without=frozenset({module}))
        try:
            other = composer.composed(
                tenant, composed.pipeline, present=present, criteria=criteria, left=left, reasons=False
            )
        except InvalidDataflow as refused:
            if TOO_LONG in refused.errors:
                # What would happen is not known.
                break
            fallbacks.append(
                FallbackAnswer(module=module, no_plan="; ".join(problem.message for problem in refused.errors))
            )
        else:
            fallbacks.append(FallbackAnswer(module=module, places=changed_places(fillings, other.planned.fillings)))
    return tuple(fallbacks)
