"""The upkeep of pipelines: planned again once their modules or sources change, or without a module that fails there."""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func
from sqlmodel import col, select

from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import GivenUpModule, ReplanAnswer, ReplanForm, ReplanKind
from braid_client.answers.tenants import Role
from dags.problems import listed
from manager.kernel.dataflow_rows import keeping
from manager.kernel.draft import SERVICE
from manager.kernel.registered_sources import Registered
from manager.kernel.transitions import HAS_SWITCHED, Phase, Reconfiguration
from manager.pipelines.composer import fillings_in
from manager.pipelines.use_cases import Pipelines
from manager.planner import public_id
from manager.problem import Conflict, NotFound, StateNotReady, Trouble
from manager.reconfigurations.turns import PROVEN_AFTER
from manager.store.tables import DataflowRow, ModuleRow, ReconfigurationRow
from manager.use_case import Caller, Tools
from merge import Instance
from planning.pipelines.reader import NO_OP


class GivenUp(GivenUpModule):
    """A module that was given up, as its dataflow's row has it."""

    brought: tuple[str, ...] = ()
    """The modules that took its place and those of others."""


def given_up_in(row: DataflowRow) -> tuple[GivenUp, ...]:
    """Return the modules that were given up in a dataflow, oldest first."""
    return tuple(map(GivenUp.model_validate, row.given_up or ()))


def standing(given_up: tuple[GivenUp, ...], phases: Mapping[str, str]) -> tuple[GivenUp, ...]:
    """Return those that are not tried again, which leaves out what was abandoned before it changed anything."""
    return tuple(failure for failure in given_up if phases.get(failure.reconfiguration or "") != Phase.ABANDONED)


def failed_by_now(
    failing: Mapping[str, str], given_up: tuple[GivenUp, ...], phases: Mapping[str, str]
) -> Mapping[str, str]:
    """The modules that failed and are not given up yet, each with its failure.

    What took the place of a failed one, and was undone because it failed as well, is among them.

    >>> failed_by_now({"a@1": "it raises"}, (), {})
    {'a@1': 'it raises'}
    """
    known = {failure.module for failure in given_up}
    undone = {
        module: f"it took the place of {failure.module}, and that was undone"
        for failure in given_up
        if phases.get(failure.reconfiguration or "") == Phase.REVERTED
        for module in failure.brought
    }
    return {module: why for module, why in (undone | dict(failing)).items() if module not in known}


log = logging.getLogger("braid.follower")
_EVERY = 1.0
"""Seconds between looks at modules and sources."""
_ITSELF = Caller(key="", role=Role.OPERATOR, tenant=None, is_service=True)


class PipelineFollower:
    """Has pipelines follow their modules and the schemas of their sources.

    One is planned at each look, so that a look is short.
    """

    def __init__(self, tools: Tools) -> None:
        self._pipelines = Pipelines(tools)
        self._tools = tools
        self._modules: tuple[object, ...] | None = None
        self._sources: Mapping[str, Registered] = {}
        self._due: deque[str] = deque()
        self._next = 0.0

    def look(self) -> None:
        """Plan the next one, if its modules or sources have changed since; all of them when this manager begins."""
        if not self._tools.committer.leads:
            return
        if (now := time.monotonic()) >= self._next:
            # Looks come with every commit, and modules and schemas seldom.
            self._next = now + _EVERY
            modules, redeclared = self._known_modules(), self._redeclared()
            if modules != self._modules:
                self._modules = modules
                self._due = deque(self._following())
            elif redeclared:
                self._due.extend(dataflow for dataflow in self._following(redeclared) if dataflow not in self._due)
        if self._due:
            self._plan(self._due.popleft())

    def _known_modules(self) -> tuple[object, ...]:
        """Return figures that change whenever modules do."""
        wanted = select(func.max(ModuleRow.number), func.count(col(ModuleRow.deprecated)))
        with self._tools.store.read() as session:
            return tuple(session.exec(wanted).one())

    def _redeclared(self) -> frozenset[str]:
        """The sources whose schemas have changed since the last look."""
        with self._tools.committer.looking() as state:
            before, self._sources = self._sources, state.sources
        if before is self._sources:
            return frozenset()
        return frozenset(
            name
            for name, source in self._sources.items()
            if name in before and before[name].source.schema != source.source.schema
        )

    def _following(self, sources: frozenset[str] | None = None) -> list[str]:
        """The pipelines that follow; only those that read one of these sources."""
        wanted = select(DataflowRow.id, DataflowRow.pipeline, DataflowRow.sources).where(
            col(DataflowRow.removed).is_(None),
            col(DataflowRow.draining).is_(None),
            col(DataflowRow.pipeline).contains('"follow"'),
        )
        with self._tools.store.read() as session:
            rows = session.exec(wanted.order_by(col(DataflowRow.number))).all()
        return [
            dataflow
            for dataflow, pipeline, reads in rows
            if json.loads(pipeline or "{}").get("follow") is True and (sources is None or not sources.isdisjoint(reads))
        ]

    def _plan(self, dataflow: str) -> None:
        with self._tools.store.read() as session:
            row = session.exec(select(DataflowRow).where(col(DataflowRow.id) == dataflow)).one()
        # What failed in it is published still, and would be as good as it was.
        without = tuple(failure.module for failure in given_up_in(row))
        why = ""
        try:
            answer = self._pipelines.replan(_ITSELF, dataflow, ReplanForm(without=without))
        except (StateNotReady, NotFound) as busy:
            log.warning("the pipeline %s stays as it is: %s", dataflow, busy)
            return
        except Trouble as refused:
            # It runs on as it is, and is planned again when something changes the next time.
            why = "; ".join(problem.message for problem in refused.errors) or str(refused)
            log.warning("the pipeline %s stays as it is: %s", dataflow, why)
        else:
            if answer.how is not ReplanKind.NOTHING:
                log.info("the pipeline %s follows its modules and sources at %s", dataflow, ", ".join(answer.changed))
        if why != row.unplanned:
            note = f"stays as it is: {why}" if why else "can be planned again"
            with keeping(self._tools.committer, dataflow, OperationKind.REPLAN, who=SERVICE, note=note) as kept:
                kept.unplanned = why


fallback_log = logging.getLogger("braid.fallbacks")
_LOOK_EVERY = 1.0
"""Seconds between looks at the jobs."""


class FallbackTaker:
    """Takes fallbacks, once for each module that fails in a pipeline."""

    def __init__(self, tools: Tools, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipelines = Pipelines(tools)
        self._tools = tools
        self._clock = clock
        self._next = 0.0
        self._settled: dict[str, Mapping[int, str]] = {}
        """The failures of dataflows about which nothing more is to be done."""

    def look(self) -> None:
        """Take the fallbacks of what fails by now."""
        if not self._tools.committer.leads or (now := self._clock()) < self._next:
            return
        # Looks come with every commit.
        self._next = now + _LOOK_EVERY
        failing = self._failing()
        self._settled = {dataflow: known for dataflow, known in self._settled.items() if failing.get(dataflow) == known}
        for dataflow in failing.keys() - self._settled.keys():
            try:
                changes = self._see_to(dataflow, failing[dataflow])
            except (Conflict, NotFound, StateNotReady) as why:
                # It is busy, or gone.
                fallback_log.debug("the pipeline %s waits: %s", dataflow, why)
                continue
            if not changes:
                self._settled[dataflow] = failing[dataflow]

    def _failing(self) -> Mapping[str, Mapping[int, str]]:
        """The dataflows with tasks that do nothing but fail, and these, each with the reason."""
        failing: dict[str, dict[int, str]] = {}
        with self._tools.committer.looking() as state:
            # What is being changed may not fail any more, and what fails then is undone.
            busy = {
                name
                for change in state.reconfigurations.values()
                if _may_be_undone(change)
                for name in change.dataflows
            }
            for job, plan in state.plans.items():
                seen = self._tools.seeing.job(str(job))
                if seen is None or seen.host != plan.host or seen.in_effect < plan.version:
                    # What it says may be about tasks as they were.
                    continue
                for instance, reason in seen.failed.items():
                    for user in state.running.users.get(Instance(instance), ()):
                        failing.setdefault(public_id(user), {})[instance] = reason
        return {dataflow: failed for dataflow, failed in failing.items() if dataflow not in busy}

    def _see_to(self, dataflow: str, failed: Mapping[int, str]) -> bool:
        """Give up what failed, if there is anything to give up."""
        with self._tools.store.read() as session:
            row = session.exec(select(DataflowRow).where(col(DataflowRow.id) == dataflow)).one()
            if row.pipeline is None or row.removed is not None or row.draining is not None:
                return False
            given_up = given_up_in(row)
            numbers = [int(failure.reconfiguration) for failure in given_up if failure.reconfiguration is not None]
            wanted = select(ReconfigurationRow.id, ReconfigurationRow.phase).where(
                col(ReconfigurationRow.id).in_(numbers)
            )
            phases = {str(number): phase for number, phase in session.exec(wanted)}
        given_up = standing(given_up, phases)
        failing = _failing_modules(row, failed)
        news = failed_by_now(failing, given_up, phases) if failing else {}
        if news:
            self._give_up(row, given_up, news, failing)
        return bool(news)

    def _give_up(
        self, row: DataflowRow, given_up: tuple[GivenUp, ...], news: Mapping[str, str], failing: Mapping[str, str]
    ) -> None:
        """Plan without what failed, and keep what came of it."""
        without = sorted({*news, *failing, *(failure.module for failure in given_up)})
        answer: ReplanAnswer | None = None
        try:
            answer = self._pipelines.replan(_ITSELF, row.id, ReplanForm(without=tuple(without)))
        except (Conflict, NotFound, StateNotReady):
            raise
        except Trouble as why:
            errors = "; ".join(problem.message for problem in why.errors) or why.detail
            outcome = f"everything stays as it is: {errors}"
        else:
            outcome = _outcome(answer)
        reconfiguration = None if answer is None or answer.reconfiguration is None else answer.reconfiguration.id
        brought = () if answer is None else _brought(answer)
        now = datetime.now(UTC)
        came_of_it: dict[str, Any] = {"outcome": outcome, "reconfiguration": reconfiguration, "brought": brought}
        more = [GivenUp(module=module, at=now, reason=why, **came_of_it) for module, why in sorted(news.items())]
        reasons = "; ".join(f"{module}: {reason}" for module, reason in sorted(news.items()))
        note = f"without {listed(sorted(news))}, since {reasons}: {outcome}"
        fallback_log.log(logging.WARNING if answer is None else logging.INFO, "the pipeline %s: %s", row.id, note)
        with keeping(self._tools.committer, row.id, OperationKind.REPLAN, who=SERVICE, note=note) as kept:
            kept.given_up = [module.model_dump(mode="json") for module in (*given_up, *more)]


def _may_be_undone(reconfiguration: Reconfiguration) -> bool:
    """Tell whether tasks are being changed, or are watched since they were."""
    if reconfiguration.phase in HAS_SWITCHED:
        return reconfiguration.phase is Phase.PROVING and time.time() - reconfiguration.since <= PROVEN_AFTER
    return True


def _failing_modules(row: DataflowRow, failed: Mapping[int, str]) -> dict[str, str]:
    """The modules at places whose tasks fail, each with the reason."""
    fillings = fillings_in(row.document, row.pipeline or "")
    return {
        fillings[task]: f"task {task} does nothing but fail: {failed[instance]}"
        for task, instance in zip(row.task_ids, row.instances, strict=True)
        if instance in failed and fillings.get(task, NO_OP) != NO_OP
    }


def _outcome(answer: ReplanAnswer) -> str:
    holds = {place.id: place.module or "nothing" for place in answer.plan.places}
    return ", ".join(f"{place} holds {holds[place]}" for place in answer.changed) or "no place changes"


def _brought(answer: ReplanAnswer) -> tuple[str, ...]:
    modules = {place.module for place in answer.plan.places if place.id in answer.changed and place.module is not None}
    return tuple(sorted(modules))
