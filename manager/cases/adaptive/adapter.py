"""The adapter: looks at the running dynamic dataflows about once a second, and switches what should be switched.

A switch is a reconfiguration; dataflows that share a task and want the same of it switch together. The journal says
why. What is remembered of costs and guards is this process's: after its start, costs are the declared ones until they
are measured.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import networkx as nx
from sqlmodel import col, select

from adaptation.decision import ChoiceDecision
from adaptation.documents.dynamic_form import EventStreamForm
from adaptation.guards.observed import DomainEvent, Observed
from adaptation.shared_switches import Sharer, decide_together
from bridge import topics
from dags import InvalidDocument
from manager.cases.adaptive.adapted_dataflow import AdaptedDataflow, adapted_dataflow, adapted_row
from manager.cases.adaptive.flow_layouts import FlowLayouts
from manager.cases.adaptive.flow_measurement import flow_measured
from manager.cases.adaptive.resolver import Resolver, plain
from manager.cases.reconfigurations import Reconfigurations
from manager.cases.tools import Tools
from manager.committed.state import running_id
from manager.committer.rows import SERVICE
from manager.event_flow.domain_event_line import DomainEventLine, HeardEvent
from manager.problem import Trouble
from manager.store.tables import DataflowRow
from manager.transitions.life import Phase

log = logging.getLogger("braid.adapting")
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
        self._resolver = Resolver(tools.committer, tools.store, tools.catalogue)
        self._reconfigurations = Reconfigurations(tools)
        self._board = tools.adaptations

    def look(self) -> None:
        """Look at all dynamic dataflows, and switch what should be switched."""
        if not self._tools.committer.leads:
            self._board.known = {}
            return
        self._board.known = self._known()
        names = self._names()
        events = self._line.take(frozenset(names))
        layouts = FlowLayouts(self._tools, self._monotonic())
        now = self._clock()
        for each in self._board.known.values():
            layout = layouts.of(each)
            measured = None if layout is None else flow_measured(layout, layouts.seen, self._monotonic())
            own = [DomainEvent(name=name, at=at, fields=fields) for name, at, fields in _of(each, events, names)]
            metrics = {} if measured is None else measured.metrics
            each.look(Observed(now=now, metrics=metrics, events=tuple(own)), measured, now)
        busy = self._busy()
        free = [each for each in self._board.known.values() if each.as_of.row.id not in busy]
        for each in free:
            each.settle(now)
        self._decide(free, now)

    def latencies(self) -> Mapping[str, float]:
        """The longest time that each dataflow allows, in seconds, by the running graph's ids; from any thread."""
        known = [each.as_of for each in self._board.known.values()]
        return {
            running_id(each.row.id, each.row.revision): each.policy.latency
            for each in known
            if each.policy.latency is not None
        }

    def stop(self) -> None:
        """Read no more events."""
        self._line.stop()
        self._board.known = {}

    def _known(self) -> Mapping[str, AdaptedDataflow]:
        """All dynamic dataflows as their rows are now. Of documents, only those that are new are read."""
        is_there = (
            col(DataflowRow.dynamic).is_not(None),
            col(DataflowRow.removed).is_(None),
            col(DataflowRow.draining).is_(None),
        )
        short = select(DataflowRow.id, DataflowRow.revision, DataflowRow.policy, DataflowRow.pinned).where(*is_there)
        with self._tools.store.read() as session:
            versions = {row[0]: _version(*row[1:]) for row in session.exec(short.order_by(col(DataflowRow.number)))}
            changed = [
                each
                for each, version in versions.items()
                if (known := self._board.known.get(each)) is None or _version_of(known.as_of.row) != version
            ]
            whole = select(DataflowRow).where(*is_there, col(DataflowRow.id).in_(changed))
            rows = {row.id: row for row in session.exec(whole)} if changed else {}
        found: dict[str, AdaptedDataflow] = {}
        for each in versions:
            row = rows.get(each)
            known = self._board.known.get(each) if row is None else self._followed(row)
            if known is not None:
                found[each] = known
        return found

    def _followed(self, row: DataflowRow) -> AdaptedDataflow | None:
        """What is known of the dataflow of a new or changed row; None where it can't be read any more."""
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
            (each.as_of.row.tenant, form.dataflow)
            for each in self._board.known.values()
            for form in each.as_of.policy.events.values()
            if form.dataflow is not None
        }
        if others:
            wanted = wanted.where(col(DataflowRow.name).in_([name for _, name in others]))
            with self._tools.store.read() as session:
                rows = session.exec(wanted.order_by(col(DataflowRow.number))).all()
            by_name = {(tenant, name): dataflow for tenant, name, dataflow in rows}
        found: dict[str, list[tuple[str, str]]] = {}
        for each in self._board.known.values():
            for name, form in each.as_of.policy.events.items():
                if (topic := _topic(each.as_of.row, form, by_name)) is not None:
                    found.setdefault(topic, []).append((each.as_of.row.id, name))
        return found

    def _busy(self) -> frozenset[str]:
        """The dataflows that are being reconfigured."""
        with self._tools.committer.looking() as state:
            under_way = [each.dataflows for each in state.reconfigurations.values() if each.phase in _BUSY]
        return frozenset().union(*under_way)

    def _decide(self, free: Sequence[AdaptedDataflow], now: float) -> None:
        sharers = [
            Sharer(dataflow=each.as_of.row.id, ground=ground, standing=each.standing, running=_running(each))
            for each in free
            if each.as_of.chosen is not None and (ground := each.ground(now)) is not None
        ]
        decided = decide_together(sharers)
        together: nx.Graph[str] = nx.Graph()
        for dataflow, decision in decided.decisions.items():
            each = self._board.known[dataflow]
            each.decision = decision
            if decision.choice == each.standing.choice:
                each.standing = decision.standing
            else:
                together.add_node(dataflow)
        for switch in decided.switches:
            nx.add_path(together, sorted(switch.tasks))
        for group in sorted(map(sorted, nx.connected_components(together))):
            self._switch({each: decided.decisions[each] for each in group})

    def _switch(self, decisions: Mapping[str, ChoiceDecision]) -> None:
        """Switch dataflows together. What is refused is decided anew at the next look."""
        documents = {
            dataflow: plain(self._board.known[dataflow].dynamic, decision.choice).decode()
            for dataflow, decision in decisions.items()
        }
        apart = {dataflow: self._board.known[dataflow].dynamic.fast for dataflow in decisions}
        why = {dataflow: "; ".join(decision.reasons) for dataflow, decision in decisions.items()}
        try:
            self._reconfigurations.adapt(documents, apart=apart, who=SERVICE)
        except Trouble as refused:
            errors = "; ".join(each.message for each in refused.errors) or str(refused)
            log.warning("%s: stays as it is for now: %s", ", ".join(decisions), errors)
            return
        for dataflow, decision in decisions.items():
            log.info("the dataflow %s adapts: %s", dataflow, why[dataflow])
            self._board.known[dataflow].go(decision)
            self._tools.changes.adaptations.note(dataflow, why[dataflow], who=SERVICE)


def _version(revision: int, policy: str | None, pinned: Mapping[str, object] | None) -> tuple[object, ...]:
    return revision, policy, json.dumps(pinned, sort_keys=True)


def _version_of(row: DataflowRow) -> tuple[object, ...]:
    return _version(row.revision, row.policy, row.pinned)


def _topic(row: DataflowRow, form: EventStreamForm, by_name: Mapping[tuple[str, str], str]) -> str | None:
    dataflow = row.id if form.dataflow is None else by_name.get((row.tenant, form.dataflow))
    return None if dataflow is None else topics.output(row.tenant, dataflow, form.output)


def _of(
    each: AdaptedDataflow, events: Iterable[HeardEvent], names: Mapping[str, Sequence[tuple[str, str]]]
) -> list[tuple[str, float, Mapping[str, object]]]:
    """The events that a dataflow's policy names, each with that name."""
    own = each.as_of.row.id
    named = ((event, dataflow, name) for event in events for dataflow, name in names[event.topic])
    return [(name, event.at, event.fields) for event, dataflow, name in named if dataflow == own]


def _running(each: AdaptedDataflow) -> Mapping[str, int]:
    return dict(zip(each.as_of.row.task_ids, each.as_of.row.instances, strict=True))
