"""The follower of lineage: compares what is committed with what was sent, and sends what is different, in order.

It has a thread of its own, so no request waits for it. What was sent is kept in the root, so nothing is lost with a
manager, or while a receiver is away: it is sent once the receiver is back. What is over by then, such as a revision
that was replaced meanwhile, is counted as missed, and logged. A receiver may get an event twice.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import requests
from openlineage.client.event_v2 import DatasetEvent, RunEvent, RunState
from openlineage.client.facet_v2 import lifecycle_state_change_dataset
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport
from sqlalchemy import func, or_, select
from sqlmodel import Session, col

from braid_client.answers.dataflows import DataflowState
from bridge import topics
from bridge.machine import BackOff
from engine.plan import Plan
from manager.kernel.live_events import LiveEvents
from manager.kernel.registered_sources import Registered
from manager.lineage.descriptions import LineageDataset, LineageJob, run_event, source_event
from manager.lineage.sent import LineageCounts, SentLineage, SentRun, read_sent, write_sent
from manager.planner import bridge_stream
from manager.problem import InvalidDataflow
from manager.store.tables import DataflowRow
from manager.use_case import Tools
from merge import JobId

LineageEvent: TypeAlias = RunEvent | DatasetEvent
_Change = lifecycle_state_change_dataset.LifecycleStateChange
_AGAIN_AFTER = BackOff((1.0, 2.0, 5.0, 15.0, 60.0))
"""Seconds after which a receiver that is away is tried again."""
_RETRIED = frozenset({408, 425, 429})
"""Refusals by which a receiver asks for patience."""
_REFUSES = range(400, 500)
log = logging.getLogger("braid.lineage")


class LineageReceiver(Protocol):
    """Takes events, one after the other."""

    def emit(self, event: LineageEvent) -> object:
        """Take an event; raises an error of `requests`, OSError or RuntimeError."""


def receiver_at(place: str, environment: Mapping[str, str] = os.environ) -> LineageReceiver:
    """The receiver at a URL, with the standard variables of OpenLineage; else a file to which events are appended."""
    if not place.startswith(("http://", "https://")):
        return FileTransport(FileConfig(log_file_path=place, append=True))
    given: dict[str, object] = {"url": place, "retry": {"total": 0}}
    if endpoint := environment.get("OPENLINEAGE_ENDPOINT"):
        given["endpoint"] = endpoint
    if key := environment.get("OPENLINEAGE_API_KEY"):
        given["auth"] = {"type": "api_key", "apiKey": key}
    return HttpTransport(HttpConfig.from_dict(given))


class _Committed(NamedTuple):
    version: int
    sources: Mapping[str, Registered]
    plans: Mapping[JobId, Plan]


class LineageFollower:
    """One manager's; one thread calls `look` repeatedly while the manager leads."""

    def __init__(  # noqa: PLR0913 - what it follows and where it keeps and sends what it finds are four things
        self,
        tools: Tools,
        events: LiveEvents,
        receiver: LineageReceiver,
        path: Path,
        *,
        namespace: str = "braid",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`path` is the file that keeps what was sent; `namespace` begins the names of all namespaces."""
        self.counts = LineageCounts()
        self._tools = tools
        self._events = events
        self._receiver = receiver
        self._path = path
        self._namespace = namespace
        self._clock = clock
        self._sent = SentLineage()
        self._term = 0
        """The term in which that was read: another manager may have sent more before."""
        self._version: int | None = None
        """The version of the committed state that was sent."""
        self._heard = events.last
        """The last live event that was heard."""
        self._jobs: dict[str, LineageJob] = {}
        """The dataflows that run, as they were described."""
        self._failures = 0
        self._again_at = 0.0

    def look(self) -> None:
        """Send what is different by now; if the receiver is away, that waits for a later look."""
        term = self._tools.committer.term
        if not term:
            # What this manager hears meanwhile is for the one that leads to send.
            self._heard = self._events.last
        if self._clock() < self._again_at or not term:
            return
        if term != self._term:
            self._term, self._sent, self._version = term, read_sent(self._path), None
        before = self.counts.sent + self.counts.refused
        try:
            self._follow()
        except (requests.RequestException, OSError, RuntimeError) as error:
            self.counts.failures += 1
            self.counts.behind_since = self.counts.behind_since or time.time()
            if not self._failures:
                log.warning("lineage waits, because its receiver cannot be reached: %s", error)
            self._failures += 1
            self._again_at = self._clock() + _AGAIN_AFTER.after(self._failures)
        else:
            if self._failures:
                log.info("the receiver of lineage is back")
            self._failures, self.counts.behind_since = 0, None
        finally:
            if self.counts.sent + self.counts.refused != before:
                write_sent(self._path, self._sent)

    def _follow(self) -> None:
        with self._tools.committer.looking() as state:
            committed = None
            if state.version != self._version:
                committed = _Committed(state.version, state.sources, {**state.plans})
        if committed is not None:
            self._follow_sources(committed.sources)
            self._follow_dataflows(committed.sources)
            self._follow_jobs(committed.plans)
            self._version = committed.version
        self._follow_states()

    def _follow_sources(self, sources: Mapping[str, Registered]) -> None:
        known, now = self._sent.sources, time.time()
        for name in sorted(known.keys() - sources.keys()):
            owner, _, own = name.partition(":")
            self._send(source_event(self._of(owner), LineageDataset(name=own), _Change.DROP, now))
            del known[name]
        for name, registered in sorted(sources.items()):
            owner = registered.source.owner
            dataset = self._source(registered, owner)
            if known.get(name) != (digest := _digest(dataset)):
                change = _Change.ALTER if name in known else _Change.CREATE
                self._send(source_event(self._of(owner), dataset, change, now))
                known[name] = digest

    def _follow_dataflows(self, sources: Mapping[str, Registered]) -> None:
        runs, number = self._sent.runs, col(DataflowRow.number)
        columns = (number, col(DataflowRow.id), col(DataflowRow.revision), col(DataflowRow.removed))
        with self._tools.store.read() as session:
            if (last := self._sent.number) is None:
                # What was removed before lineage was asked for is nobody's any more.
                last = self._sent.number = session.scalar(select(func.max(number))) or 0
            there = select(*columns).where(or_(columns[3].is_(None), number > last))
            rows = {row.id: row for row in session.execute(there.order_by(number))}
            gone = runs.keys() - rows.keys()
            ends = {dataflow: self._removed(session, dataflow) for dataflow in sorted(gone)}
        for dataflow, at in ends.items():
            self._end(dataflow, at)
        for dataflow, row in rows.items():
            run = runs.get(dataflow)
            if run is None or run.revision != row.revision:
                missed = row.revision - run.revision - 1 if run else row.revision - 1 if row.number > last else 0
                self._begin(dataflow, run, sources, missed)
            if row.removed is not None:
                self._end(dataflow, row.removed)
            self._sent.number = max(self._sent.number or 0, row.number)

    @staticmethod
    def _removed(session: Session, dataflow: str) -> float:
        """When a dataflow was removed; now, if that is not known."""
        removed = session.scalar(select(col(DataflowRow.removed)).where(col(DataflowRow.id) == dataflow))
        return time.time() if removed is None else removed

    def _begin(self, dataflow: str, before: SentRun | None, sources: Mapping[str, Registered], missed: int) -> None:
        """A dataflow runs, or runs in another revision."""
        with self._tools.store.read() as session:
            row = session.scalars(select(DataflowRow).where(col(DataflowRow.id) == dataflow)).one()
        now = time.time()
        if before is not None:
            self._end(dataflow, now)
        if missed:
            self.counts.missed += missed
            log.warning("%d revisions of dataflow %s are missing in lineage: they were over", missed, dataflow)
        job = self._described(row, sources)
        self._send(run_event(RunState.START, job, row.submitted if row.revision == 1 else now))
        self._jobs[dataflow] = job
        self._sent.runs[dataflow] = SentRun(row.tenant, row.name, row.revision)

    def _end(self, dataflow: str, at: float) -> None:
        self._send(run_event(RunState.COMPLETE, self._job(dataflow), at))
        self._jobs.pop(dataflow, None)
        del self._sent.runs[dataflow]

    def _follow_jobs(self, plans: Mapping[JobId, Plan]) -> None:
        known, now = self._sent.jobs, time.time()
        wanted = {plan.job: plan for plan in plans.values()}
        for name in sorted(known.keys() - wanted.keys()):
            self._send(run_event(RunState.COMPLETE, self._spark_job(name), now))
            del known[name]
        for name, plan in wanted.items():
            job = self._spark_job(name, plan)
            if known.get(name) != (digest := _digest(*job.inputs, *job.outputs)):
                self._send(run_event(RunState.RUNNING if name in known else RunState.START, job, now))
                known[name] = digest

    def _follow_states(self) -> None:
        """What hosts report of dataflows and jobs, as far as it is still kept."""
        for event in self._events.since(self._heard):
            if self._heard + 1 < event.id:
                self.counts.missed += event.id - self._heard - 1
                log.warning("up to %d reports of states are missing in lineage", event.id - self._heard - 1)
            report = event.told
            state, now = report.get("state"), time.time()
            if event.kind == "dataflow" and report["dataflow"] in self._sent.runs:
                trouble = str(report["reason"]) if state == DataflowState.DEGRADED else ""
                if state == DataflowState.RUNNING or trouble:
                    self._send(run_event(RunState.RUNNING, self._job(report["dataflow"]), now, trouble))
            elif event.kind == "job" and report["job"] in self._sent.jobs and report["trouble"]:
                self._send(run_event(RunState.RUNNING, self._spark_job(report["job"]), now, str(report["trouble"])))
            self._heard = event.id

    def _send(self, event: LineageEvent) -> None:
        try:
            self._receiver.emit(event)
        except requests.HTTPError as error:
            answer = error.response
            if answer is None or answer.status_code not in _REFUSES or answer.status_code in _RETRIED:
                raise
            self.counts.refused += 1
            log.warning("the receiver refuses lineage with %d: %s", answer.status_code, answer.text[:500])
        else:
            self.counts.sent += 1

    def _of(self, tenant: str) -> str:
        return f"{self._namespace}/{tenant}"

    def _job(self, dataflow: str) -> LineageJob:
        """A dataflow as it was described last, or without what it reads and writes."""
        run = self._sent.runs[dataflow]
        nothing = LineageJob(
            namespace=self._of(run.tenant), name=run.name, kind="DATAFLOW", run=f"{dataflow}/{run.revision}"
        )
        return self._jobs.get(dataflow, nothing)

    def _described(self, row: DataflowRow, sources: Mapping[str, Registered]) -> LineageJob:
        schemas: Mapping[str, LineageDataset] = {}
        try:
            dataflow = self._tools.canonical(row.document.encode(), dataflow=row.id, tenant=row.tenant, sources=sources)
            tasks = {sink: dataflow.tasks[dataflow.places[sink]] for sink in dataflow.sinks}
            schemas = {
                sink: LineageDataset(name="", fields=next(iter(task.schemas.values())).fields)
                for sink, task in tasks.items()
                if task.schemas
            }
        except (InvalidDataflow, KeyError):
            # It was accepted with other sources or task types.
            log.debug("dataflow %s has no schemas in lineage", row.id)
        unknown = LineageDataset(name="")
        return LineageJob(
            namespace=self._of(row.tenant),
            name=row.name,
            kind="DATAFLOW",
            run=f"{row.id}/{row.revision}",
            inputs=[self._source(sources[name], row.tenant) for name in row.sources if name in sources],
            outputs=[
                LineageDataset(
                    name=f"{row.name}/{sink}",
                    fields=schemas.get(sink, unknown).fields,
                    uri=f"mqtt:{topics.output(row.tenant, row.id, sink)}",
                )
                for sink in row.sinks
            ],
        )

    @staticmethod
    def _source(registered: Registered, tenant: str) -> LineageDataset:
        """A source as a tenant names it; where its events come from is its owner's to know."""
        source = registered.source
        if source.owner != tenant:
            return LineageDataset(name=source.name, fields=source.schema.fields)
        uri = f"mqtt:{registered.topic}" if registered.topic else ""
        return LineageDataset(name=source.name.partition(":")[2], fields=source.schema.fields, uri=uri)

    def _spark_job(self, name: str, plan: Plan | None = None) -> LineageJob:
        """A job, by the numbers of its streams alone."""
        streams = sorted(plan.streams) if plan else ()
        forwards = sorted({bridge_stream(forward.instance, forward.port) for forward in plan.forwards}) if plan else ()
        return LineageJob(
            namespace=self._namespace,
            name=f"job/{name}",
            kind="JOB",
            run=f"job/{name}",
            inputs=[LineageDataset(name=stream) for stream in streams],
            outputs=[LineageDataset(name=stream) for stream in forwards],
        )


def _digest(*datasets: LineageDataset) -> str:
    text = [[dataset.name, dict(sorted((dataset.fields or {}).items())), dataset.uri] for dataset in datasets]
    return sha256(repr(text).encode()).hexdigest()[:16]
