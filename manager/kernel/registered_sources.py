"""Registered sources: their owners, their supplies, and the tenants that may read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union

from pydantic import Field, TypeAdapter
from rpds import HashTrieMap

from braid_client.answers.sources import (
    OWN_CONNECTIONS,
    Connection,
    RateConnection,
    ReplayConnection,
    TimerConnection,
    TopicConnection,
)
from dags import Kind, Schema, Source, Visibility, fields_in
from dags.connectors import Connector, MessageConnector
from dags.message_formats import JSON, MessageFormat
from dags.source_topics import is_wild, overlap, source_topic
from engine.catalogue import installed_connectors
from engine.plan import ConnectorSupply, Rated, ReplayedFile, Subscribed, Timed
from manager.planner import Supplied
from manager.store.tables import SourceRow
from merge import RunningTask

# rpds's classes take no parameters at run time.


if TYPE_CHECKING:
    InstalledConnection: TypeAlias = Connection
else:
    # Packages may bring connectors of their own.
    InstalledConnection = Annotated[
        Union[(*OWN_CONNECTIONS, *installed_connectors().values())],
        Field(discriminator="kind"),
    ]
_CONNECTION: TypeAdapter[Connection] = TypeAdapter(InstalledConnection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The times since which tenants may read a source, in seconds since 1970; its owner always may."""

    named: Mapping[str, float] = field(default_factory=dict)
    public: float | None = None

    def of(self, tenant: str) -> float | None:
        """The time since which a tenant may read it without a break; None where it may not.

        >>> Grants(named={"ann": 3.0}, public=5.0).of("ann"), Grants(public=5.0).of("bob"), Grants().of("bob")
        (3.0, 5.0, None)
        """
        return min((since for since in (self.named.get(tenant), self.public) if since is not None), default=None)

    def then(self, visibility: Visibility, readers: Iterable[str], now: float) -> Grants:
        """The grants after a change of who may read it; those who still may keep their time."""
        match visibility:
            case Visibility.PRIVATE:
                return Grants()
            case Visibility.NAMED:
                known = {reader: self.of(reader) for reader in readers}
                return Grants(named={reader: now if at is None else at for reader, at in known.items()})
            case Visibility.PUBLIC:
                return Grants(named=self.named, public=now if self.public is None else self.public)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One source; made from its row."""

    source: Source
    connection: Connection
    supplied: Supplied
    grants: Grants = Grants()

    @property
    def topic(self) -> str | None:
        """The MQTT topic filter of its events, if they are published; nearly always a plain topic."""
        return source_topic(self.connection.topic).filter if isinstance(self.connection, TopicConnection) else None

    def takes(self, topic: str) -> bool:
        """Whether it gets what is published on a topic. On a filter nothing is published."""
        own = self.topic
        # Nearly all of them are plain, and there are many.
        return own is not None and not is_wild(topic) and (overlap(own, topic) if is_wild(own) else own == topic)

    @property
    def format(self) -> MessageFormat:
        """The format of its messages."""
        return self.connection.format if isinstance(self.connection, TopicConnection | MessageConnector) else JSON

    def since(self, tenant: str) -> float:
        """The time since which a tenant may read it; the beginning for its owner."""
        return 0.0 if tenant == self.source.owner else self.grants.of(tenant) or 0.0


def full_name(owner: str, name: str) -> str:
    """The full name of a source; its owner may leave itself out.

    >>> full_name("ann", "weather"), full_name("bob", "ann:weather")
    ('ann:weather', 'ann:weather')
    """
    return name if ":" in name else f"{owner}:{name}"


def registered(row: SourceRow) -> Registered:
    """The source in a row."""
    connection = _CONNECTION.validate_python(row.connection)
    fields = {name: Kind(kind) for name, kind in row.fields.items()}
    return Registered(
        source=Source(
            name=row.name,
            owner=row.owner,
            schema=Schema.of(fields),
            visibility=Visibility(row.visibility),
            readers=frozenset(row.readers),
        ),
        connection=connection,
        supplied=Supplied(f"source/{row.id}", supply_of(connection, fields, row.owner)),
        grants=grants_in(row),
    )


def grants_in(row: SourceRow) -> Grants:
    """The grants in a row."""
    return Grants(named=row.granted or {}, public=row.opened)


def grant(row: SourceRow, grants: Grants, visibility: str, readers: Sequence[str], *, now: float) -> None:
    """Set in a row who may read its source from now on; `grants` are the present ones."""
    then = grants.then(Visibility(visibility), readers, now)
    row.visibility, row.readers = visibility, list(readers)
    row.granted, row.opened = dict(then.named), then.public


def topic_in(connection: Mapping[str, Any]) -> str | None:
    """The topic at the service's own broker in a row's connection, if it has one.

    >>> topic_in({"kind": "topic", "topic": "ann/street"}), topic_in({"kind": "mqtt", "topic": "ann/street"})
    ('ann/street', None)
    """
    return str(connection["topic"]) if connection["kind"] == "topic" else None


def made_fields(connection: Connection) -> Mapping[str, Kind]:
    """The fields that a connection adds to events, whatever these have."""
    match connection:
        case TopicConnection():
            return dict.fromkeys(source_topic(connection.topic).fields, Kind.STRING)
        case Connector():
            return connection.made_fields
        case _:
            return {}


def supply_of(
    connection: Connection, fields: Mapping[str, Kind], owner: str
) -> Subscribed | ConnectorSupply | Rated | Timed | ReplayedFile:
    """The supply of a source. It declares the fields that its connection adds to events, too."""
    declared = {**fields, **made_fields(connection)}
    match connection:
        case TopicConnection():
            return Subscribed(
                topic=connection.topic, fields=declared, retained=connection.retained, format=connection.format
            )
        case RateConnection():
            return Rated(per_second=connection.per_second)
        case TimerConnection():
            return Timed(seconds=connection.seconds)
        case ReplayConnection():
            return ReplayedFile(fields=fields, **connection.model_dump())
        case Connector():
            # The format of messages is that of the supply, which all connectors have.
            apart = {"format"} if isinstance(connection, MessageConnector) else None
            text = connection.model_dump_json(context={"owner": owner}, exclude=apart)
            return ConnectorSupply(connector=text, fields=declared, format=connection.messages)


def as_submitted(sources: HashTrieMap[str, Registered], tasks: Iterable[RunningTask]) -> HashTrieMap[str, Registered]:
    """The sources with the schemas that running tasks were submitted with, which may be others by now."""
    for task in tasks:
        if task.type.reads_source:
            registered_source, fields = sources[task.config["source"]], fields_in(task.text)
            if dict(registered_source.source.schema.fields) != fields:
                source = replace(registered_source.source, schema=Schema.of(fields))
                sources = sources.insert(source.name, replace(registered_source, source=source))
    return sources


@dataclass(frozen=True, eq=False)
class Readable(Mapping[str, Source]):
    """The sources that a tenant may read, under every name that it may use.

    Looked up on demand: a submission names few of all that are registered.
    """

    tenant: str
    sources: Mapping[str, Registered]
    """Each by its full name."""

    def __getitem__(self, name: str) -> Source:
        source = self.sources[full_name(self.tenant, name)].source
        if not source.visible_to(self.tenant):
            raise KeyError(name)
        return source

    def __iter__(self) -> Iterator[str]:
        own = f"{self.tenant}:"
        for name, registered_source in self.sources.items():
            if registered_source.source.visible_to(self.tenant):
                yield name
                if name.startswith(own):
                    yield name.removeprefix(own)

    def __len__(self) -> int:
        return sum(1 for _ in self)
