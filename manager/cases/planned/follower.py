"""The follower of modules: plans those running pipelines anew that ask for it, once their modules have changed."""

import json
import logging
import time
from collections import deque

from sqlalchemy import func
from sqlmodel import col, select

from manager.answers import ReplanForm, ReplanKind, Role
from manager.cases.base import Caller
from manager.cases.planned.given_up import given_up_in
from manager.cases.planned.pipelines import Pipelines
from manager.cases.tools import Tools
from manager.problem import Trouble
from manager.store.tables import DataflowRow, ModuleRow

log = logging.getLogger("braid.follower")
_EVERY = 1.0
"""Seconds between looks at the modules."""
_ITSELF = Caller(key="", role=Role.OPERATOR, tenant=None)


class PipelineFollower:
    """Has pipelines follow their modules. One is planned at each look, so that a look is short."""

    def __init__(self, tools: Tools) -> None:
        self._pipelines = Pipelines(tools)
        self._tools = tools
        self._seen: tuple[object, ...] | None = None
        self._due: deque[str] = deque()
        self._next = 0.0

    def look(self) -> None:
        """Plan the next one, if modules have changed since it was planned; all of them when this manager begins."""
        if not self._tools.committer.leads:
            return
        if (now := time.monotonic()) >= self._next:
            # Looks come with every commit, and modules seldom.
            self._next = now + _EVERY
            modules = self._modules()
            if modules != self._seen:
                self._seen = modules
                self._due = deque(self._following())
        if self._due:
            self._plan(self._due.popleft())

    def _modules(self) -> tuple[object, ...]:
        """What changes whenever modules do."""
        wanted = select(
            func.max(ModuleRow.number),
            func.count(col(ModuleRow.deprecated)),
            func.count(col(ModuleRow.vouched)),
            func.max(ModuleRow.vouched),
        )
        with self._tools.store.read() as session:
            return tuple(session.exec(wanted).one())

    def _following(self) -> list[str]:
        wanted = select(DataflowRow.id, DataflowRow.pipeline).where(
            col(DataflowRow.removed).is_(None),
            col(DataflowRow.draining).is_(None),
            col(DataflowRow.pipeline).contains('"follow"'),
        )
        with self._tools.store.read() as session:
            rows = session.exec(wanted.order_by(col(DataflowRow.number))).all()
        return [dataflow for dataflow, pipeline in rows if json.loads(pipeline or "{}").get("follow") is True]

    def _given_up(self, dataflow: str) -> tuple[str, ...]:
        """The modules that failed in it. They are published still, and would be as good as they were."""
        with self._tools.store.read() as session:
            row = session.exec(select(DataflowRow).where(col(DataflowRow.id) == dataflow)).one()
        return tuple(each.module for each in given_up_in(row))

    def _plan(self, dataflow: str) -> None:
        try:
            answer = self._pipelines.replan(_ITSELF, dataflow, ReplanForm(without=self._given_up(dataflow)))
        except Trouble as why:
            # It runs on as it is, and is planned again when modules change the next time.
            log.warning("the pipeline %s stays as it is: %s", dataflow, why)
        else:
            if answer.how is not ReplanKind.NOTHING:
                log.info("the pipeline %s follows its modules at %s", dataflow, ", ".join(answer.changed))
