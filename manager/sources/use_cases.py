"""Sources: registered, shown, opened to others and revoked; and events that come to them over REST."""

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlmodel import Session, col

from braid_client.answers.base import Page
from braid_client.answers.dataflows import DataflowState
from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import (
    Connection,
    DependentAnswer,
    ProducerAnswer,
    ProposalAnswer,
    ProposalForm,
    ProposedSource,
    ReceivedAnswer,
    ReplayConnection,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    TopicConnection,
    UndecidedAnswer,
    VisibilityForm,
)
from bridge.formats.decoders import decoder
from bridge.formats.sparkplug_decoder import why_no_sparkplug_topic
from bridge.output_topics import own_filter
from dags import Kind, Schema, fields_in
from dags.connectors import Connector, MessageConnector, MqttConnector
from dags.message_formats import MessageFormat, UnusableFormat
from dags.source_topics import overlap, source_topic
from dags.vocabulary import ONE_TIME_PRODUCER
from engine.plan import unfit
from manager.documents.canonical import publishing
from manager.kernel.committer import Committer
from manager.kernel.dataflow_life import find, needs_of
from manager.kernel.dataflow_rows import dataflow_of, running_dataflow, take_away
from manager.kernel.draft import Draft, write_down
from manager.kernel.registered_sources import (
    Grants,
    Registered,
    full_name,
    grant,
    grants_in,
    made_fields,
    registered,
    supply_of,
    topic_in,
)
from manager.kernel.state import CommittedState
from manager.kernel.transitions import TransitionScope
from manager.observations.reports import HostSeen, received_of
from manager.planner import public_id
from manager.problem import Conflict, Forbidden, InvalidDataflow, NotFound, StateNotReady, invalid
from manager.sources.events import EventSender, Gap, events_of
from manager.sources.inference import inferred, recognised, samples_in
from manager.store.tables import SourceRow, TenantRow, WebhookDeliveryRow, WebhookRow
from manager.tenants.broker_access import UnfitName, check_source_topic
from manager.tenants.quotas import Holding, check_another, check_generated
from manager.use_case import Base, Caller, Paging, by_name, tenant_row
from merge import JobId


class Sources(Base):
    """Sources: registered, opened to others, shown and revoked."""

    def register(self, caller: Caller, form: SourceForm) -> SourceAnswer:
        """Register a source."""
        owner = self._owner(caller, form)
        connection = form.connection
        if isinstance(connection, ReplayConnection) and not caller.is_operator:
            raise Forbidden("only operators register files of the hosts as sources; ask one, or publish on a topic")
        _check_connection(connection, form.fields)
        supply = supply_of(connection, form.fields, owner)
        if why := unfit(supply):
            raise invalid("/connection", "unfit-connection", why, "correct the connection")
        generated = dict(supply.schema.fields)
        if isinstance(connection, TopicConnection | Connector):
            _check_made(connection, form.fields)
        elif form.fields and generated != dict(form.fields):
            raise invalid("/schema", "fixed-schema", "a generated source has its own schema", "leave the schema out")
        row = SourceRow(
            name=full_name(owner, form.name),
            owner=owner,
            connection=connection.model_dump(mode="json"),
            fields={name: str(kind) for name, kind in generated.items()},
            visibility=form.visibility,
            readers=sorted(form.readers),
            registered=0.0,
        )
        made = self._registered(row, caller)
        self._tools.access_changed()
        # Nobody can have read it yet.
        return _answer(made, caller, dataflows=0, hosts=())

    def _registered(self, row: SourceRow, caller: Caller) -> Registered:
        begun = time.monotonic()

        def decide(state: CommittedState, _now: datetime) -> tuple[TransitionScope, None]:
            if row.name in state.sources:
                raise Conflict(f"there is a source {row.name!r} already; choose another name, or revoke that one first")
            topic = topic_in(row.connection)
            # What a source takes feeds no source of another, so that its owner is the only one to write there.
            if topic is not None:
                self._check_name(topic, row.owner)
                topic_filter = source_topic(topic).filter
                _check_free(topic_filter, state, row, caller)
                _check_no_output(topic_filter, state, row, caller)
            return TransitionScope(), None

        with self._committer.changing(decide) as (session, draft, *_):
            owned = select(func.count()).select_from(SourceRow).where(col(SourceRow.owner) == row.owner)
            check_another(session, row.owner, Holding.SOURCES, session.scalar(owned) or 0)
            if not caller.is_operator:
                check_generated(session, row.owner, row.connection)
            row.registered = draft.now.timestamp()
            grant(row, Grants(), row.visibility, row.readers, now=row.registered)
            session.add(row)
            session.flush()
            made = registered(row)
            draft.know(made)
            write_down(session, draft, OperationKind.REGISTER, who=caller.who, subject=row.name, begun=begun)
        return made

    def propose(self, caller: Caller, form: ProposalForm) -> ProposalAnswer:
        """Propose a source by what comes on its topic while it is listened to, or by messages in the request."""
        owner = caller.tenant if form.messages else self._check_listening(caller, form.topic)
        if form.format is not None:
            _check_format(form.format, Schema.of(), "/format")
        messages = [message.encode() for message in form.messages] or self._listened(caller, form)
        messages_format = form.format or recognised(messages)
        samples = samples_in(messages, messages_format)
        schema = inferred(samples.events, from_texts=messages_format.has_texts)
        return ProposalAnswer(
            source=ProposedSource(
                name=_name_of(form.topic, owner),
                connection=TopicConnection(kind="topic", topic=form.topic, format=messages_format),
                fields=dict(schema.fields),
                owner=owner if caller.is_operator else None,
            ),
            messages=len(messages),
            events=len(samples.events),
            unread=len(samples.unread),
            why_unread=next(iter(samples.unread), None),
            undecided=tuple(
                UndecidedAnswer(field=undecided.field, why=undecided.why) for undecided in schema.undecided
            ),
        )

    def _listened(self, caller: Caller, form: ProposalForm) -> list[bytes]:
        if (outputs := self._tools.outputs) is None or not self._committer.leads:
            raise StateNotReady("topics are listened to only by a manager that leads and has a broker; ask that one")
        with outputs.sample(caller.who, form.topic) as sample:
            return sample.gather(form.seconds)

    def _check_listening(self, caller: Caller, topic: str) -> str | None:
        """Return the tenant that a topic belongs to, if any; refused if the caller may not listen to it."""
        try:
            check_source_topic(topic)
        except UnfitName as error:
            raise invalid("/topic", "unfit-topic", str(error), "choose another topic") from error
        if not source_topic(topic).is_plain:
            why = f"the topic {topic!r} stands for many; name one that something publishes on"
            raise invalid("/topic", "unfit-topic", why, "choose another topic")
        with self._committer.looking() as state:
            owner = next((known.source.owner for known in state.sources.values() if known.topic == topic), None)
        if owner is None:
            first = topic.partition("/")[0]
            with self._store.read() as session:
                owner = first if session.get(TenantRow, first) is not None else None
        if caller.tenant not in {None, owner}:
            raise Forbidden(
                f"a tenant listens only below its own name, as on {caller.tenant}/{topic}, or on the topics of its "
                "sources"
            )
        return owner

    def page(self, caller: Caller, paging: Paging) -> Page[SourceAnswer]:
        """The sources that the caller may read, by name."""
        hosts = self._seeing.hosts()
        with self._committer.looking() as state:
            names = [name for name, source in state.sources.items() if _visible(source, caller)]
            return by_name(names, paging, lambda name: _answer_in(state, caller, name, hosts))

    def get(self, caller: Caller, name: str) -> SourceAnswer:
        """One source."""
        hosts = self._seeing.hosts()
        with self._committer.looking() as state:
            return _answer_in(state, caller, _known(state, caller, name).source.name, hosts)

    def set_visibility(self, caller: Caller, name: str, form: VisibilityForm) -> Stopped:
        """Say who may read a source; dataflows of those who may not any more are removed."""
        begun, source, readers = time.monotonic(), owned_source(self._committer, caller, name), sorted(form.readers)

        def hit(state: CommittedState, row: SourceRow) -> list[str]:
            grant(row, grants_in(row), form.visibility, readers, now=time.time())
            seen, dataflows = registered(row).source, state.running.dataflows
            return [reader for reader in _readers(state, source) if not seen.visible_to(dataflows[reader].tenant)]

        with self._committer.changing(self._reading(source, hit)) as (session, draft, dataflows, _):
            row = _source_row(session, source)
            grant(row, grants_in(row), form.visibility, readers, now=draft.now.timestamp())
            session.add(row)
            draft.know(registered(row))
            _take_away(session, draft, dataflows)
            write_down(session, draft, OperationKind.CHANGE_SOURCE, who=caller.who, subject=source, begun=begun)
        return Stopped(dataflows=len(dataflows))

    def declare(self, caller: Caller, name: str, form: SchemaForm, *, dry_run: bool = False) -> SchemaAnswer:
        """Declare other fields, or preview that. Dataflows that run go on by those that they were submitted with."""
        full = owned_source(self._committer, caller, name)
        with self._committer.looking() as state:
            before = state.sources[full]
            if not isinstance(before.connection, TopicConnection | Connector):
                raise Conflict(f"the source {full!r} has the schema of what it generates; register another one")
            fields = {**form.fields, **_check_made(before.connection, form.fields)}
            schema = Schema.of(fields)
            after = replace(before, source=replace(before.source, schema=schema))
            readers = {reader: state.running.dataflows[reader].tenant for reader in state.readers.get(full, ())}
            sources = state.sources.insert(full, after)
            going_on = sum(_declares(state, reader, full) != dict(schema.fields) for reader in readers)
        mine = sorted(reader for reader, tenant in readers.items() if caller.tenant in {None, tenant})
        dependent = tuple(filter(None, (self._dependent(reader, sources) for reader in mine)))
        if not dry_run and dict(before.source.schema.fields) != dict(schema.fields):
            after = self._declared(full, fields, caller)
        answer = _answer(after, caller, dataflows=len(readers), hosts=self._seeing.hosts())
        return SchemaAnswer(source=answer, going_on=going_on, dependent=dependent)

    def _declared(self, source: str, fields: Mapping[str, Kind], caller: Caller) -> Registered:
        begun = time.monotonic()
        with self._committer.changing(self._reading(source, lambda _state, _row: [])) as (session, draft, *_):
            row = _source_row(session, source)
            row.fields = {name: str(kind) for name, kind in fields.items()}
            session.add(row)
            made = registered(row)
            draft.know(made)
            why = f"declares {', '.join(f'{name} {kind}' for name, kind in fields.items()) or 'no fields'}"
            kind = OperationKind.CHANGE_SOURCE
            write_down(session, draft, kind, who=caller.who, subject=source, begun=begun, note=why)
        return made

    def _dependent(self, reader: str, sources: Mapping[str, Registered]) -> DependentAnswer | None:
        """A dataflow that could not be submitted by these sources; None if it could, or is gone."""
        with self._store.read() as session:
            row = dataflow_of(session, public_id(reader))
        try:
            self._tools.canonical(row.document.encode(), dataflow=row.id, tenant=row.tenant, sources=sources)
        except InvalidDataflow as refused:
            return DependentAnswer(
                dataflow=row.id, why=tuple(f"{problem.pointer}: {problem.message}" for problem in refused.errors)
            )
        return None

    def revoke(self, caller: Caller, name: str) -> Stopped:
        """Take a source away, and remove every dataflow that reads it."""
        begun, source = time.monotonic(), owned_source(self._committer, caller, name)

        def hit(state: CommittedState, _row: SourceRow) -> list[str]:
            return sorted({*_readers(state, source), *publishing(state, source)})

        with self._committer.changing(self._reading(source, hit)) as (session, draft, dataflows, _):
            row = _source_row(session, source)
            _take_away(session, draft, dataflows)
            session.delete(row)
            forget_webhook(session, source)
            draft.forget(source)
            write_down(session, draft, OperationKind.REVOKE, who=caller.who, subject=source, begun=begun)
        self._tools.access_changed()
        return Stopped(dataflows=len(dataflows))

    def _owner(self, caller: Caller, form: SourceForm) -> str:
        owner = caller.tenant or form.owner
        if owner is None:
            raise invalid("/owner", "missing", "an operator owns no sources", "name the tenant that shall own it")
        if form.owner not in {None, owner}:
            raise Forbidden("a tenant registers sources for itself only; leave the owner out")
        with self._store.read() as session:
            tenant_row(session, owner)
        return owner

    def _check_name(self, topic: str, owner: str) -> None:
        """Refuse a topic that begins with another tenant's name, whether or not it feeds a source of that tenant."""
        first, _, rest = topic.partition("/")
        with self._store.read() as session:
            if first == owner or session.get(TenantRow, first) is None:
                return
        raise Forbidden(
            f"the topic {topic!r} begins with the name of another tenant, so it is that tenant's; choose one below the "
            f"owner's name, as {owner}/{rest or first}"
        )

    def _reading(
        self, source: str, hit: Callable[[CommittedState, SourceRow], list[str]]
    ) -> Callable[[CommittedState, datetime], tuple[TransitionScope, list[str]]]:
        """The decision which dataflows have to go, by the row of a source, which stays as it is."""

        def decide(state: CommittedState, _now: datetime) -> tuple[TransitionScope, list[str]]:
            with self._store.read() as session:
                row = _source_row(session, source)
            dataflows = hit(state, row)
            return TransitionScope(jobs=frozenset[JobId]().union(*map(state.jobs_of, dataflows))), dataflows

        return decide


def _take_away(session: Session, draft: Draft, dataflows: Iterable[str]) -> None:
    for dataflow in dataflows:
        take_away(session, draft, running_dataflow(session, public_id(dataflow)))


def _name_of(topic: str, owner: str | None) -> str:
    """Return a name for the source of a topic.

    >>> _name_of("museum/hall 1/visitors", "museum"), _name_of("%", None)
    ('hall-1-visitors', 'source')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", topic.removeprefix(f"{owner}/"))
    return name.strip("-._")[:_LONGEST_NAME] or "source"


_LONGEST_NAME = 128


def _check_no_output(topic: str, state: CommittedState, row: SourceRow, caller: Caller) -> None:
    """Refuse a topic that an output has, without a word about an output of others."""
    for dataflow in state.running.dataflows.values():
        for sink, settings in dataflow.outputs.items():
            if (own := own_filter(settings)) is not None and overlap(topic, own):
                if caller.is_operator or dataflow.tenant == row.owner:
                    raise Conflict(
                        f"the output {sink!r} of dataflow {public_id(dataflow.id)!r} has the topic "
                        f"{settings.topic or own!r}; choose another topic for the source"
                    )
                raise Conflict(f"the topic {topic!r} is taken; choose one below your name, as {row.owner}/{topic}")


def _check_free(topic: str, state: CommittedState, row: SourceRow, caller: Caller) -> None:
    """Refuse a topic that feeds a source, without a word about a source of others."""
    # Sources of one owner may overlap: whoever writes to one may write to the other.
    known = next(
        (
            known
            for known in state.sources.values()
            if known.topic == topic
            or (known.topic is not None and known.source.owner != row.owner and overlap(known.topic, topic))
        ),
        None,
    )
    if known is None:
        return
    if caller.is_operator or known.source.owner == row.owner:
        meets = "feeds" if known.topic == topic else f"meets {known.topic!r}, which feeds"
        raise Conflict(
            f"the topic {topic!r} {meets} the source {known.source.name!r} already; choose another topic, or revoke "
            "that source first"
        )
    raise Conflict(f"the topic {topic!r} is taken; choose one below your name, as {row.owner}/{topic}")


def _check_connection(connection: Connection, fields: Mapping[str, Kind]) -> None:
    """Refuse a topic, a format, or something outside Braid that no source can have."""
    if isinstance(connection, Connector) and (why := connection.why_unusable()):
        raise invalid("/connection", "unfit-connection", why, "correct the connection")
    if isinstance(connection, TopicConnection):
        try:
            check_source_topic(connection.topic)
        except UnfitName as error:
            raise invalid("/connection/topic", "unfit-topic", str(error), "choose another topic") from error
    if isinstance(connection, TopicConnection | MessageConnector):
        if connection.format.has_topics:
            if not isinstance(connection, TopicConnection | MqttConnector):
                why = f"messages of the format {connection.format.kind} are read with their topics of MQTT"
                raise invalid("/connection/format", "unfit-format", why, "take them from an MQTT broker")
            if why := why_no_sparkplug_topic(connection.topic):
                why = f"the topic {connection.topic!r} {why}"
                raise invalid("/connection/topic", "unfit-topic", why, "choose another topic")
        _check_format(connection.format, Schema.of(fields), "/connection/format")


def _check_format(messages: MessageFormat, schema: Schema, pointer: str) -> None:
    """Refuse a format that no message could be read by."""
    try:
        decoder(messages, schema)
    except UnusableFormat as error:
        raise invalid(pointer, "unfit-format", str(error), "correct the format") from error


def _check_made(connection: TopicConnection | Connector, fields: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """The fields that a connection adds to events; refuses to declare them of another kind."""
    made = made_fields(connection)
    for name, kind in made.items():
        if fields.get(name, kind) is not kind:
            of = f"made of a level of the topic {connection.topic!r}" if isinstance(connection, TopicConnection) else ""
            raise invalid(
                f"/schema/{name}",
                "level-is-text" if of else "made-field",
                f"the field {name!r} is {of or 'added by the connection'}, so its kind is {kind}",
                f"declare it as {kind}, or leave it out",
            )
    return made


def _source_row(session: Session, source: str) -> SourceRow:
    row = session.scalar(select(SourceRow).where(col(SourceRow.name) == source))
    if row is None:
        raise NotFound("source", source)
    return row


def forget_webhook(session: Session, source: str) -> None:
    """Take the webhook of a source away, with what it remembers."""
    tokens = select(col(WebhookRow.token)).where(col(WebhookRow.source) == source)
    session.execute(delete(WebhookDeliveryRow).where(col(WebhookDeliveryRow.token).in_(tokens)))
    session.execute(delete(WebhookRow).where(col(WebhookRow.source) == source))


def _readers(state: CommittedState, source: str) -> list[str]:
    """The dataflows that read a source, as the running graph calls them; in an order that is always the same."""
    return sorted(state.readers.get(source, ()))


def _declares(state: CommittedState, dataflow: str, source: str) -> Mapping[str, Kind]:
    """The fields of a source that a dataflow was submitted by."""
    tasks = (state.running.tasks[instance] for part in state.running.dataflows[dataflow].parts for instance in part)
    return next(fields_in(task.text) for task in tasks if task.config["source"] == source)


def owned_source(committer: Committer, caller: Caller, name: str) -> str:
    """The full name of a source that the caller owns, or of any for an operator."""
    with committer.looking() as state:
        source = _known(state, caller, name).source
    if caller.tenant not in {None, source.owner}:
        raise Forbidden(f"the source {source.name!r} belongs to another tenant; ask its owner")
    return source.name


def _known(state: CommittedState, caller: Caller, name: str) -> Registered:
    """A source that the caller may know of."""
    known = state.sources.get(name if caller.tenant is None else full_name(caller.tenant, name))
    if known is None or not _visible(known, caller):
        raise NotFound("source", name)
    return known


def _answer_in(state: CommittedState, caller: Caller, name: str, hosts: Sequence[HostSeen]) -> SourceAnswer:
    """A source with how many dataflows of those that the caller may know of read it."""
    known, readers = state.sources[name], state.readers.get(name, set())
    if caller.tenant not in {None, known.source.owner}:
        readers = {reader for reader in readers if state.running.dataflows[reader].tenant == caller.tenant}
    return _answer(known, caller, dataflows=len(readers), hosts=hosts)


def _answer(known: Registered, caller: Caller, *, dataflows: int, hosts: Sequence[HostSeen]) -> SourceAnswer:
    source = known.source
    mine = caller.tenant in {None, source.owner}
    received = received_of(known.supplied.stream, hosts) if mine else None
    return SourceAnswer(
        name=source.name,
        owner=source.owner,
        fields=dict(source.schema.fields),
        visibility=source.visibility,
        connection=known.connection.model_dump(mode="json") if mine else None,
        readers=tuple(sorted(source.readers)) if mine else None,
        dataflows=dataflows,
        received=received and ReceivedAnswer.model_validate(received, from_attributes=True),
    )


def _visible(known: Registered, caller: Caller) -> bool:
    return caller.tenant is None or known.source.visible_to(caller.tenant)


_LOOKING = 0.05


class SourceEvents(Base):
    """Sources, and the events that callers send to them."""

    _deployed: frozenset[str] = frozenset()
    """Dataflows that were seen to run: what was sent from then on is theirs."""

    def send(  # noqa: PLR0913 - each is a part of the request
        self, caller: Caller, name: str, body: bytes, *, media_type: str, producer: str | None, first: int | None
    ) -> SentAnswer:
        """Have events lie in a source's spool, once each; without a producer's name under one for this time only."""
        if (producer is None) is not (first is None):
            missing, there = ("producer", "first") if producer is None else ("first", "producer")
            raise invalid(
                f"/query/{missing}",
                "missing",
                f"there is {there!r} without {missing!r}",
                "say both, so that the same events can be sent again; or neither, and they are sent once",
            )
        taking = self._taking(caller, name)
        source, sender = taking.source.name, self._sender()
        events, number = events_of(body, media_type, taking.format, taking.source.schema), first or 0
        named = producer or f"{ONE_TIME_PRODUCER}{secrets.token_hex(8)}"
        with sender.admitted(caller.who) as until:
            self._await_readers(source)
            try:
                following = sender.send(taking.supplied.stream, named, number, events, until=until)
            except Gap as gap:
                raise Conflict(
                    f"of the producer {named!r} number {gap.expected} comes next, and these begin at {number}: send "
                    "what lies between first; if it was sent before, the source has forgotten the producer meanwhile, "
                    "so choose another name and count from 0"
                ) from None
        return SentAnswer(source=source, producer=named, next=following)

    def producer(self, caller: Caller, name: str, producer: str) -> ProducerAnswer:
        """The number that comes next from a producer of a source."""
        taking, sender = self._taking(caller, name), self._sender()
        with sender.admitted(caller.who) as until:
            following = sender.next(taking.supplied.stream, producer, until=until)
        return ProducerAnswer(source=taking.source.name, producer=producer, next=following)

    def _sender(self) -> EventSender:
        if (sender := self._tools.sender) is None or not self._committer.leads:
            raise StateNotReady("events are taken only by a manager that leads and has a broker; ask that one")
        return sender

    def _taking(self, caller: Caller, name: str) -> Registered:
        """A source that takes events from a caller, and that somebody reads."""
        full = owned_source(self._committer, caller, name)
        with self._committer.looking() as state:
            source, is_read = state.sources[full], bool(state.readers.get(full))
        if source.topic is None:
            raise Conflict(
                f"the events of {full!r} come by themselves ({source.connection.kind}), so it takes no others; "
                "register a source whose connection is of kind topic"
            )
        if not is_read:
            raise Conflict(
                f"no dataflow reads {full!r}, so nobody would get these events; submit a dataflow that does first"
            )
        return source

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
            needs = {
                reader: tuple(needs_of(state, state.running.dataflows[reader])) for reader in readers - self._deployed
            }
        hosts = {host.host: host for host in self._seeing.hosts()}
        jobs = {need.job: seen for needed in needs.values() for need in needed if (seen := self._seeing.job(need.job))}
        states = {dataflow: find(needed, jobs, hosts).state for dataflow, needed in needs.items()}
        deploying = {dataflow for dataflow, state in states.items() if state is DataflowState.DEPLOYING}
        self._deployed |= states.keys() - deploying
        return deploying
