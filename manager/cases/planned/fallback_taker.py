"""The fallback taker: plans a running pipeline without a module that does nothing but fail there."""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sqlmodel import col, select

from dags.problems import listed
from manager.answers import ReplanAnswer, ReplanForm, Role
from manager.cases.base import Caller
from manager.cases.planned.composer import fillings_in
from manager.cases.planned.given_up import GivenUp, failed_by_now, given_up_in, kept, standing
from manager.cases.planned.pipelines import Pipelines
from manager.cases.tools import Tools
from manager.committer.rows import SERVICE
from manager.planner import public_id
from manager.problem import Conflict, NotFound, StateNotReady, Trouble
from manager.reconciler.reconfigurations import PROVEN_AFTER
from manager.store.tables import DataflowRow, ReconfigurationRow
from manager.transitions.life import HAS_SWITCHED, Phase
from manager.transitions.reconfiguration import Reconfiguration
from merge import Instance
from planning.pipelines.candidates import NO_OP

log = logging.getLogger("braid.fallbacks")
_EVERY = 1.0
"""Seconds between looks at the jobs."""
_ITSELF = Caller(key="", role=Role.OPERATOR, tenant=None, is_service=True)


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
        self._next = now + _EVERY
        failing = self._failing()
        self._settled = {each: known for each, known in self._settled.items() if failing.get(each) == known}
        for dataflow in failing.keys() - self._settled.keys():
            try:
                changes = self._see_to(dataflow, failing[dataflow])
            except (Conflict, NotFound, StateNotReady) as why:
                # It is busy, or gone.
                log.debug("the pipeline %s waits: %s", dataflow, why)
                continue
            if not changes:
                self._settled[dataflow] = failing[dataflow]

    def _failing(self) -> Mapping[str, Mapping[int, str]]:
        """The dataflows with tasks that do nothing but fail, and these, each with the reason."""
        found: dict[str, dict[int, str]] = {}
        with self._tools.committer.looking() as state:
            # What is being changed may not fail any more, and what fails then is undone.
            busy = {name for each in state.reconfigurations.values() if _may_be_undone(each) for name in each.dataflows}
            for job, plan in state.plans.items():
                seen = self._tools.seeing.job(str(job))
                if seen is None or seen.host != plan.host or seen.in_effect < plan.version:
                    # What it says may be about tasks as they were.
                    continue
                for instance, reason in seen.failed.items():
                    for user in state.running.users.get(Instance(instance), ()):
                        found.setdefault(public_id(user), {})[instance] = reason
        return {dataflow: failed for dataflow, failed in found.items() if dataflow not in busy}

    def _see_to(self, dataflow: str, failed: Mapping[int, str]) -> bool:
        """Give up what failed, if there is anything to give up."""
        with self._tools.store.read() as session:
            row = session.exec(select(DataflowRow).where(col(DataflowRow.id) == dataflow)).one()
            if row.pipeline is None or row.removed is not None or row.draining is not None:
                return False
            given_up = given_up_in(row)
            numbers = [int(each.reconfiguration) for each in given_up if each.reconfiguration is not None]
            wanted = select(ReconfigurationRow.id, ReconfigurationRow.phase)
            phases = {
                str(number): phase
                for number, phase in session.exec(wanted.where(col(ReconfigurationRow.id).in_(numbers)))
            }
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
        without = sorted({*news, *failing, *(each.module for each in given_up)})
        answer: ReplanAnswer | None = None
        try:
            answer = self._pipelines.replan(_ITSELF, row.id, ReplanForm(without=tuple(without)))
        except (Conflict, NotFound, StateNotReady):
            raise
        except Trouble as why:
            errors = "; ".join(each.message for each in why.errors) or why.detail
            outcome = f"everything stays as it is: {errors}"
        else:
            outcome = _outcome(answer)
        reconfiguration = None if answer is None or answer.reconfiguration is None else answer.reconfiguration.id
        brought = () if answer is None else _brought(answer)
        now = datetime.now(UTC)
        more = tuple(
            GivenUp(
                module=module,
                at=now,
                reason=reason,
                outcome=outcome,
                reconfiguration=reconfiguration,
                brought=brought,
            )
            for module, reason in sorted(news.items())
        )
        reasons = "; ".join(f"{module}: {reason}" for module, reason in sorted(news.items()))
        note = f"without {listed(sorted(news))}, since {reasons}: {outcome}"
        log.log(logging.WARNING if answer is None else logging.INFO, "the pipeline %s: %s", row.id, note)
        self._tools.changes.pipelines.keep_given_up(row.id, kept((*given_up, *more)), who=SERVICE, note=note)


def _may_be_undone(each: Reconfiguration) -> bool:
    """Whether tasks are being changed, or are watched since they were."""
    if each.phase in HAS_SWITCHED:
        return each.phase is Phase.PROVING and time.time() - each.since <= PROVEN_AFTER
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
    found = {place.module for place in answer.plan.places if place.id in answer.changed and place.module is not None}
    return tuple(sorted(found))
