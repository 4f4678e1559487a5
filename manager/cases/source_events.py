"""Events that come to sources over REST: numbered, and in the spool once when they are answered."""

import secrets
import time
from collections.abc import Set as AbstractSet

import pyarrow as pa

from bridge.events.numbered_events import ONE_TIME_PRODUCER
from dags import Problem
from manager.answers import DataflowState, ProducerAnswer, SentAnswer
from manager.cases.base import Base, Caller
from manager.cases.sources import owned_source
from manager.committed.sources import Registered
from manager.event_flow.request_body import events_in
from manager.event_flow.sender import EventSender, Gap
from manager.problem import Conflict, InvalidRequest, StateNotReady
from manager.reconciler.dataflow_life import find
from manager.reconciler.dataflow_needs import needs_of

_LOOKING = 0.05


class SourceEvents(Base):
    """Sources, and the events that callers send to them."""

    _deployed: frozenset[str] = frozenset()
    """Dataflows that were seen to run: what was sent from then on is theirs."""

    def send(  # noqa: PLR0913 - each is a part of the request
        self, caller: Caller, name: str, body: bytes, *, as_lines: bool, producer: str | None, first: int | None
    ) -> SentAnswer:
        """Have events lie in a source's spool, once each; without a producer's name under one for this time only."""
        if (producer is None) is not (first is None):
            raise InvalidRequest([_half(producer)])
        found = self._sendable(caller, name)
        events = events_in(body, found.source.schema, as_lines=as_lines)
        return self._sent(caller, found, events, producer or f"{ONE_TIME_PRODUCER}{secrets.token_hex(8)}", first or 0)

    def producer(self, caller: Caller, name: str, producer: str) -> ProducerAnswer:
        """The number that comes next from a producer of a source."""
        found = self._sendable(caller, name)
        with self._sends().admitted(caller.who) as until:
            following = self._sends().next(found.supplied.stream, producer, until=until)
        return ProducerAnswer(source=found.source.name, producer=producer, next=following)

    def _sent(self, caller: Caller, found: Registered, events: pa.RecordBatch, producer: str, first: int) -> SentAnswer:
        with self._sends().admitted(caller.who) as until:
            self._await_readers(found.source.name)
            try:
                following = self._sends().send(found.supplied.stream, producer, first, events, until=until)
            except Gap as gap:
                raise Conflict(
                    f"of the producer {producer!r} number {gap.expected} comes next, and these begin at {first}: send "
                    "what lies between first; if it was sent before, the source has forgotten the producer meanwhile, "
                    "so choose another name and count from 0"
                ) from None
        return SentAnswer(source=found.source.name, producer=producer, next=following)

    def _sends(self) -> EventSender:
        if (sender := self._tools.sender) is None or not self._committer.leads:
            raise StateNotReady("events are taken only by a manager that leads and has a broker; ask that one")
        return sender

    def _sendable(self, caller: Caller, name: str) -> Registered:
        """A source that takes events from a caller, and that somebody reads."""
        full = owned_source(self._committer, caller, name)
        with self._committer.looking() as state:
            found = state.sources[full]
            read = bool(state.readers.get(full))
        if found.topic is None:
            raise Conflict(
                f"the events of {full!r} are generated ({found.connection.kind}), so it takes no others; register a "
                "source whose connection is of kind topic"
            )
        if not read:
            raise Conflict(
                f"no dataflow reads {full!r}, so nobody would get these events; submit a dataflow that does first"
            )
        return found

    def _await_readers(self, name: str) -> None:
        """Wait for dataflows that were submitted and do not run yet, because they are to get what is sent now."""
        deadline = time.monotonic() + self._tools.deploying_seconds
        while (deploying := self._deploying(name)) and time.monotonic() < deadline:
            time.sleep(_LOOKING)
        if deploying:
            # They begin with what is sent later, and hold up nobody else.
            self._deployed |= deploying

    def _deploying(self, name: str) -> AbstractSet[str]:
        with self._committer.looking() as state:
            readers = state.readers.get(name, set())
            # Those that were seen to run need not be looked at again, and of those that ended nothing is kept.
            self._deployed &= state.running.dataflows.keys()
            needs = {each: tuple(needs_of(state, state.running.dataflows[each])) for each in readers - self._deployed}
        hosts = {host.host: host for host in self._seeing.hosts()}
        deploying: set[str] = set()
        for each, needed in needs.items():
            jobs = {need.job: seen for need in needed if (seen := self._seeing.job(need.job)) is not None}
            if find(needed, jobs, hosts).state is DataflowState.DEPLOYING:
                deploying.add(each)
        self._deployed |= needs.keys() - deploying
        return deploying


def _half(producer: str | None) -> Problem:
    missing, there = ("producer", "first") if producer is None else ("first", "producer")
    return Problem(
        pointer=f"/query/{missing}",
        code="missing",
        message=f"there is {there!r} without {missing!r}",
        remedy="say both, so that the same events can be sent again; or neither, and they are sent once",
    )
