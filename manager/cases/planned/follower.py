"""The follower: plans those running pipelines anew that ask for it, once their modules or sources have changed."""

import json
import logging
import time
from collections import deque
from collections.abc import Mapping

from sqlalchemy import func
from sqlmodel import col, select

from manager.answers import ReplanForm, ReplanKind, Role
from manager.cases.base import Caller
from manager.cases.planned.given_up import given_up_in
from manager.cases.planned.pipelines import Pipelines
from manager.cases.tools import Tools
from manager.committed.sources import Registered
from manager.committer.rows import SERVICE
from manager.problem import NotFound, StateNotReady, Trouble
from manager.store.tables import DataflowRow, ModuleRow

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
                self._due.extend(each for each in self._following(redeclared) if each not in self._due)
        if self._due:
            self._plan(self._due.popleft())

    def _known_modules(self) -> tuple[object, ...]:
        """What changes whenever modules do."""
        wanted = select(
            func.max(ModuleRow.number),
            func.count(col(ModuleRow.deprecated)),
        )
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
            for name, each in self._sources.items()
            if name in before and before[name].source.schema != each.source.schema
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
        without = tuple(each.module for each in given_up_in(row))
        why = ""
        try:
            answer = self._pipelines.replan(_ITSELF, dataflow, ReplanForm(without=without))
        except (StateNotReady, NotFound) as busy:
            log.warning("the pipeline %s stays as it is: %s", dataflow, busy)
            return
        except Trouble as refused:
            # It runs on as it is, and is planned again when something changes the next time.
            why = "; ".join(each.message for each in refused.errors) or str(refused)
            log.warning("the pipeline %s stays as it is: %s", dataflow, why)
        else:
            if answer.how is not ReplanKind.NOTHING:
                log.info("the pipeline %s follows its modules and sources at %s", dataflow, ", ".join(answer.changed))
        if why != row.unplanned:
            self._tools.changes.pipelines.keep_unplanned(dataflow, why, who=SERVICE)
