"""The adapter: looks at the running dynamic dataflows about once a second, and switches what should be switched.

A switch is a reconfiguration; dataflows that share a task and want the same of it switch together. The journal
says why. What is remembered of costs and guards is this process's: after its start, costs are the declared ones
until they are measured.
"""

import json
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import networkx as nx
from sqlmodel import col, select

from adaptation.decision import HOURS_A_DAY, ChoiceDecision
from adaptation.documents import EventStreamForm
from adaptation.guard_states import DomainEvent, Observed
from adaptation.service_figures import ProvidedDataflow
from adaptation.shared_switches import Sharer, allowances, decide_together
from braid_client.answers.overview import OperationKind
from bridge import Message, NotConnected, topics
from bridge.transport.mqtt_client import MqttClient
from dags import InvalidDocument
from manager.adaptation.measurement import AdaptedDataflow, FlowLayout, adapted_dataflow, adapted_row, flow_measured
from manager.adaptation.resolver import Resolver, plain
from manager.costs.measured import batches
from manager.kernel.draft import SERVICE, write_down
from manager.kernel.state import running_id
from manager.kernel.transitions import Phase
from manager.observations.reports import JobSeen
from manager.problem import Trouble
from manager.reconfigurations.use_cases import Reconfigurations
from manager.store.tables import DataflowRow, TenantRow
from manager.use_case import Tools
from merge import Instance

MOST_WAITING = 10_000
"""Events that wait for the next look at most; older ones are passed over, since guards go by the newest."""
log = logging.getLogger("braid.adapting")


class HeardEvent(NamedTuple):
    """An event that left at an output."""

    topic: str
    at: float
    """When it came, in seconds since 1970."""
    fields: Mapping[str, Any]


class DomainEventLine:
    """Reads topics from the first time that any is wanted until `stop`; one thread takes what came."""

    def __init__(self, connect: Callable[..., MqttClient], *, clock: Callable[[], float] = time.time) -> None:
        self._connect = connect
        self._clock = clock
        self._line: MqttClient | None = None
        self._read: frozenset[str] = frozenset()
        # Guards what waits.
        self._guard = threading.Lock()
        self._waiting: deque[HeardEvent] = deque(maxlen=MOST_WAITING)

    def take(self, topics: frozenset[str]) -> tuple[HeardEvent, ...]:
        """The events of some topics that came since the last time. From now on these topics are read."""
        self._follow(topics)
        with self._guard:
            events = tuple(event for event in self._waiting if event.topic in topics)
            self._waiting.clear()
        return events

    def stop(self) -> None:
        """Read nothing more; it can be used again."""
        line, self._line, self._read = self._line, None, frozenset()
        if line is not None:
            line.stop()

    def _follow(self, topics: frozenset[str]) -> None:
        if self._line is None and topics:
            self._line = self._connect("braid-adapts", on_message=self._receive)
        if self._line is None or topics == self._read:
            return
        try:
            if new := topics - self._read:
                self._line.subscribe(new)
            if gone := self._read - topics:
                self._line.unsubscribe(gone)
        except NotConnected as error:
            log.warning("some domain events are not read yet: %s", error)
        else:
            self._read = topics

    def _receive(self, message: Message) -> None:
        events = tuple(_events(message, self._clock()))
        with self._guard:
            self._waiting.extend(events)
        # It is assigned before any topic is subscribed to.
        if (line := self._line) is not None:
            line.acknowledge([message.token])


def _events(message: Message, now: float) -> tuple[HeardEvent, ...]:
    try:
        events = json.loads(message.payload)["events"]
        return tuple(HeardEvent(message.topic, now, event) for event in events if isinstance(event, dict))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("topic %s: passed over, because it is no output: %s", message.topic, error)
        return ()


class FlowLayouts:
    """Finds the layouts of dataflows, for one look."""

    def __init__(self, tools: Tools, now: float) -> None:
        self._tools = tools
        self._cores = {host.host: host.cores for host in tools.seeing.hosts() if host.alive and host.cores is not None}
        with tools.committer.looking() as state:
            self._jobs = state.jobs
            self._plans = {str(job): plan for job, plan in state.plans.items()}
            self._sources = state.sources
        self.seen: dict[str, JobSeen] = {
            job: seen for job in self._plans if (seen := tools.seeing.job(job)) is not None
        }
        """What is seen of jobs."""
        paid, _ = tools.chooser.paid()
        self._batch_cores = {str(job): rate * paid.batch for job, rate in batches(self._jobs, self.seen, now).items()}

    def of(self, adapted: AdaptedDataflow) -> FlowLayout | None:
        """The layout of a dataflow; None while it is not running as its row says."""
        row = adapted.as_of.row
        instances = dict(zip(row.task_ids, row.instances, strict=True))
        with self._tools.committer.looking() as state:
            running = state.running.dataflows.get(running_id(row.id, row.revision))
            if running is None:
                return None
            tasks = {task: state.running.tasks[Instance(instance)] for task, instance in instances.items()}
            users = {task: len(state.running.users[Instance(instance)]) for task, instance in instances.items()}
        homes = {
            instance: str(home.job)
            for instance in instances.values()
            if (home := self._jobs.homes.get(Instance(instance)))
        }
        working = {task for task, running_task in tasks.items() if running_task.inputs}
        jobs = {homes[instances[task]] for task in working if instances[task] in homes}
        return FlowLayout(
            dataflow=row.id,
            instances={task: instance for task, instance in instances.items() if instance in homes},
            homes=homes,
            streams={
                task: self._sources[running_task.config["source"]].supplied.stream
                for task, running_task in tasks.items()
                if not running_task.inputs
            },
            plans={job: self._plans[job] for job in jobs if job in self._plans},
            host_cores=self._cores,
            batch_cores={job: self._batch_cores[job] for job in jobs if job in self._batch_cores},
            users=users,
        )


_BUSY = frozenset({Phase.WAITING, Phase.PREPARING, Phase.SWITCHING})


class Adapter:
    """Adapts dataflows; one thread looks."""

    def __init__(
        self,
        tools: Tools,
        line: DomainEventLine,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is that of guards, and `monotonic` that of measurements."""
        self._tools = tools
        self._line = line
        self._clock = clock
        self._monotonic = monotonic
        self._resolver = Resolver(tools)
        self._reconfigurations = Reconfigurations(tools)
        self._board = tools.adaptations

    def look(self) -> None:
        """Look at all dynamic dataflows, and switch what should be switched."""
        if not self._tools.committer.leads:
            self._board.clear()
            return
        self._board.known = self._known()
        names = self._names()
        events = self._line.take(frozenset(names))
        layouts = FlowLayouts(self._tools, self._monotonic())
        now = self._clock()
        for adapted in self._board.known.values():
            layout = layouts.of(adapted)
            measured = None if layout is None else flow_measured(layout, layouts.seen, self._monotonic())
            metrics = {} if measured is None else measured.metrics
            adapted.look(Observed(now=now, metrics=metrics, events=_of(adapted, events, names)), measured, now)
        busy = self._busy()
        free = [adapted for adapted in self._board.known.values() if adapted.as_of.row.id not in busy]
        for adapted in free:
            adapted.settle(now)
        self._decide(free, now)

    def latencies(self) -> Mapping[str, float]:
        """The longest time that each dataflow allows, in seconds, by the running graph's ids; from any thread."""
        known = [adapted.as_of for adapted in self._board.known.values()]
        return {
            running_id(adapted.row.id, adapted.row.revision): adapted.policy.latency
            for adapted in known
            if adapted.policy.latency is not None
        }

    def stop(self) -> None:
        """Read no more events."""
        self._line.stop()
        self._board.clear()

    def _known(self) -> Mapping[str, AdaptedDataflow]:
        """All dynamic dataflows as their rows are now. Of documents, only those that are new are read."""
        is_there = (
            col(DataflowRow.dynamic).is_not(None),
            col(DataflowRow.removed).is_(None),
            col(DataflowRow.draining).is_(None),
        )
        short = select(DataflowRow.id, DataflowRow.revision, DataflowRow.policy, DataflowRow.pinned).where(*is_there)
        with self._tools.store.read() as session:
            versions = {row[0]: tuple(row[1:]) for row in session.exec(short.order_by(col(DataflowRow.number)))}
            changed = [
                dataflow
                for dataflow, version in versions.items()
                if (known := self._board.known.get(dataflow)) is None or _version_of(known.as_of.row) != version
            ]
            whole = select(DataflowRow).where(*is_there, col(DataflowRow.id).in_(changed))
            rows = {row.id: row for row in session.exec(whole)} if changed else {}
        followed = {
            dataflow: self._followed(rows[dataflow]) if dataflow in rows else self._board.known.get(dataflow)
            for dataflow in versions
        }
        return {dataflow: known for dataflow, known in followed.items() if known is not None}

    def _followed(self, row: DataflowRow) -> AdaptedDataflow | None:
        """Return what is known of the dataflow of a new or changed row; None where it can't be read any more."""
        known = self._board.known.get(row.id)
        if known is None or known.as_of.row.dynamic != row.dynamic:
            try:
                dynamic = self._resolver.read(row.tenant, row.dynamic or "")
            except InvalidDocument as error:
                log.warning("the dataflow %s stays as it is: %s", row.id, error)
                return None
            return adapted_dataflow(dynamic, adapted_row(row, dynamic))
        known.as_of = adapted_row(row, known.dynamic)
        return known

    def _names(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """For each topic with domain events the dataflows that read it, each with the name that its policy gives."""
        by_name: dict[tuple[str, str], str] = {}
        wanted = select(DataflowRow.tenant, DataflowRow.name, DataflowRow.id).where(col(DataflowRow.removed).is_(None))
        others = {
            (adapted.as_of.row.tenant, form.dataflow)
            for adapted in self._board.known.values()
            for form in adapted.as_of.policy.events.values()
            if form.dataflow is not None
        }
        if others:
            wanted = wanted.where(col(DataflowRow.name).in_([name for _, name in others]))
            with self._tools.store.read() as session:
                rows = session.exec(wanted.order_by(col(DataflowRow.number))).all()
            by_name = {(tenant, name): dataflow for tenant, name, dataflow in rows}
        readers: dict[str, list[tuple[str, str]]] = {}
        for adapted in self._board.known.values():
            for name, form in adapted.as_of.policy.events.items():
                if (topic := _topic(adapted.as_of.row, form, by_name)) is not None:
                    readers.setdefault(topic, []).append((adapted.as_of.row.id, name))
        return readers

    def _busy(self) -> frozenset[str]:
        """The dataflows that are being reconfigured."""
        with self._tools.committer.looking() as state:
            under_way = [change.dataflows for change in state.reconfigurations.values() if change.phase in _BUSY]
        return frozenset().union(*under_way)

    def _decide(self, free: Sequence[AdaptedDataflow], now: float) -> None:
        price = self._board.core_price or self._tools.pricing.per_core_hour or 0.0
        adapting = [adapted for adapted in free if adapted.as_of.chosen is not None]
        grounds = {
            adapted.as_of.row.id: ground for adapted in adapting if (ground := adapted.ground(now, price)) is not None
        }
        sharers = [
            Sharer(
                dataflow=dataflow,
                ground=ground,
                standing=self._board.known[dataflow].standing,
                running=_running(self._board.known[dataflow]),
            )
            for dataflow, ground in grounds.items()
        ]
        allowed = self._allowances(sharers, price)
        planned = self._board.planned
        sharers = [
            replace(
                sharer,
                ground=replace(
                    sharer.ground, allowance=allowed.get(sharer.dataflow), planned=planned.get(sharer.dataflow)
                ),
            )
            for sharer in sharers
        ]
        self._board.provided = [
            ProvidedDataflow(sharer=sharer, users=measured.users)
            for sharer in sharers
            if (measured := self._board.known[sharer.dataflow].measured) is not None
        ]
        decided = decide_together(sharers)
        together: nx.Graph[str] = nx.Graph()
        for dataflow, decision in decided.decisions.items():
            adapted = self._board.known[dataflow]
            adapted.decision = decision
            if decision.choice == adapted.standing.choice:
                adapted.standing = decision.standing
            else:
                together.add_node(dataflow)
        for switch in decided.switches:
            nx.add_path(together, sorted(switch))
        for group in sorted(map(sorted, nx.connected_components(together))):
            self._switch({dataflow: decided.decisions[dataflow] for dataflow in group})

    def _allowances(self, sharers: Sequence[Sharer], price: float) -> Mapping[str, float]:
        """The money an hour that the budgets of tenants leave for their dataflows; without a price they count nothing.

        Of the costs, nothing is known then either; a price goes with the last class of machines.
        """
        if not price:
            self._board.costs = None
            return {}
        owned: defaultdict[str, list[Sharer]] = defaultdict(list)
        for sharer in sharers:
            owned[self._board.known[sharer.dataflow].as_of.row.tenant].append(sharer)
        self._board.costs = {tenant: HOURS_A_DAY * sum(own.cost for own in owned[tenant]) for tenant in owned}
        with self._tools.store.read() as session:
            rows = session.exec(select(TenantRow.name, TenantRow.budget).where(col(TenantRow.name).in_(owned))).all()
        return {
            dataflow: money
            for tenant, budget in rows
            for dataflow, money in allowances(owned[tenant], budget / HOURS_A_DAY).items()
        }

    def _switch(self, decisions: Mapping[str, ChoiceDecision]) -> None:
        """Switch dataflows together. What is refused is decided again at the next look."""
        documents = {
            dataflow: plain(self._board.known[dataflow].dynamic, decision.choice).decode()
            for dataflow, decision in decisions.items()
        }
        apart = {dataflow: self._board.known[dataflow].dynamic.fast for dataflow in decisions}
        why = {dataflow: "; ".join(decision.reasons) for dataflow, decision in decisions.items()}
        try:
            self._reconfigurations.adapt(documents, apart=apart, who=SERVICE)
        except Trouble as refused:
            errors = "; ".join(problem.message for problem in refused.errors) or str(refused)
            log.warning("%s: stays as it is for now: %s", ", ".join(decisions), errors)
            return
        for dataflow, decision in decisions.items():
            log.info("the dataflow %s adapts: %s", dataflow, why[dataflow])
            self._board.known[dataflow].go(decision)
            with self._tools.committer.writing() as (session, draft):
                write_down(session, draft, OperationKind.ADAPT, who=SERVICE, subject=dataflow, note=why[dataflow])


def _version_of(row: DataflowRow) -> tuple[object, ...]:
    return row.revision, row.policy, row.pinned


def _topic(row: DataflowRow, form: EventStreamForm, by_name: Mapping[tuple[str, str], str]) -> str | None:
    dataflow = row.id if form.dataflow is None else by_name.get((row.tenant, form.dataflow))
    return None if dataflow is None else topics.output(row.tenant, dataflow, form.output)


def _of(
    adapted: AdaptedDataflow, events: Iterable[HeardEvent], names: Mapping[str, Sequence[tuple[str, str]]]
) -> tuple[DomainEvent, ...]:
    """The events that a dataflow's policy names, each with that name."""
    return tuple(
        DomainEvent(name=name, at=event.at, fields=event.fields)
        for event in events
        for dataflow, name in names[event.topic]
        if dataflow == adapted.as_of.row.id
    )


def _running(adapted: AdaptedDataflow) -> Mapping[str, int]:
    return dict(zip(adapted.as_of.row.task_ids, adapted.as_of.row.instances, strict=True))
