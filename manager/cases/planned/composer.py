"""The composer of pipelines: plans a document with open places against published modules and what runs."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dags import Catalogue, InvalidDocument, Problem
from dags.json_text import object_naming
from manager.cases.planned.running_vertices import running_vertices, shareable
from manager.committed.sources import Readable
from manager.committer.committer import Committer
from manager.problem import InvalidDataflow
from manager.store.database import Store
from manager.submissions.bundle import problems_of_documents
from manager.submissions.canonical_document import canonical
from manager.submissions.published_code import published_in
from manager.submissions.published_modules import modules_of
from manager.submissions.written_document import WrittenDocument, WrittenKind
from planning.pipeline_plan import OutOfTime, TimeLeft
from planning.pipelines.assembly import Assembled
from planning.pipelines.candidates import NO_OP
from planning.pipelines.joint import InvalidDocuments, plan_together
from planning.pipelines.pipeline import OWN_FIELDS, PLACES, Pipeline, Surroundings, is_pipeline, read_pipeline
from planning.pipelines.planned import Check, PlannedPipeline, plan_pipeline
from planning.planning_problem import Criterion, RunningVertex

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
        """Of what that was made."""
        return WrittenDocument(kind=WrittenKind.PIPELINE, written=self.pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What runs of a pipeline already."""

    dataflow: str = "planned"
    fillings: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    """The modules that it shall not hold any more, by name or by name and version."""


def steady(prefer: Sequence[Criterion]) -> Sequence[Criterion]:
    """What is optimised where something runs already: fewest changes, then what is preferred."""
    return (Criterion.CHANGES, *(each for each in prefer if each is not Criterion.CHANGES))


def countdown() -> TimeLeft:
    """The time that a request has for planning, from now on."""
    end = time.monotonic() + _LONGEST_S
    return lambda: end - time.monotonic()


def pipeline_in(raw: bytes) -> bool:
    """Whether a document has open places or goals. One that cannot be read has none; it is refused as a document."""
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

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        self._store = store
        self._catalogue = catalogue

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
                [each.pipeline for each in readings], [each.check for each in readings], left=countdown()
            )
        except InvalidDocuments as several:
            found = {at: refused.problems for at, refused in several.refusals.items()}
            raise InvalidDataflow(problems_of_documents(found)) from several
        except OutOfTime as late:
            raise InvalidDataflow([TOO_LONG]) from late
        return tuple(
            Composed(planned=each, pipeline=raw) if pipeline_in(raw) else None
            for raw, each in zip(documents, planned, strict=True)
        )

    def _read(self, tenant: str, raw: bytes, standing: Present) -> "_Reading":
        with self._committer.looking() as state:
            sources = state.sources
        with self._store.read() as session:
            modules = modules_of(session, tenant, _held(raw, standing))

        def check(made: Assembled) -> Sequence[Problem]:
            text = json.dumps(made.document, ensure_ascii=False).encode()
            try:
                canonical(
                    text,
                    dataflow=standing.dataflow,
                    tenant=tenant,
                    catalogue=self._catalogue,
                    sources=sources,
                    published=published_in(self._store),
                )
            except InvalidDataflow as refused:
                return refused.errors
            return ()

        pipeline = read_pipeline(
            raw,
            Surroundings(
                dataflow=standing.dataflow,
                tenant=tenant,
                catalogue=self._catalogue,
                sources=Readable(tenant, sources),
                modules=modules,
                without=standing.without,
                running=self._running,
                present=standing.fillings,
            ),
        )
        return _Reading(pipeline, check)

    def _running(self, texts: Collection[str]) -> Sequence[RunningVertex]:
        with self._committer.looking() as state:
            tasks = shareable(state.running, texts)
        return running_vertices(tasks, texts)


class _Reading(NamedTuple):
    """A pipeline that was read, and the check of the documents that plans make of it."""

    pipeline: Pipeline
    check: Check


def _held(raw: bytes, present: Present) -> set[str]:
    """The modules that a pipeline holds or names, deprecated or not."""
    named = set(present.fillings.values())
    try:
        entries = json.loads(raw)["tasks"]
    except (ValueError, KeyError, TypeError):
        # It is refused when it is read.
        return named
    for entry in entries if isinstance(entries, list) else ():
        for choice in ("point", "gap"):
            place = entry.get(choice) if isinstance(entry, dict) else None
            wanted = place.get("modules") if isinstance(place, dict) else None
            named |= {each for each in wanted if isinstance(each, str)} if isinstance(wanted, list) else set()
    return named
