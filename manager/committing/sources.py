"""Registered sources as the committer knows them: whose they are, what feeds them, and who may name them how.

A source's full name is its owner's and its own, as `owner:name`. Its owner may leave itself out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from dags import Kind, Schema, Source, Visibility
from engine.supply import Rated, Replayed, Subscribed, Timed
from manager.answers import Connection, RateConnection, ReplayConnection, TimerConnection, TopicConnection
from manager.planning import Supplied
from manager.store.tables import SourceRow

_CONNECTION: TypeAdapter[Connection] = TypeAdapter(Connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One source; made from its row."""

    source: Source
    connection: Connection
    supplied: Supplied

    @property
    def topic(self) -> str | None:
        """Where its events come in, if somebody publishes them."""
        return self.connection.topic if isinstance(self.connection, TopicConnection) else None


def full_name(owner: str, name: str) -> str:
    """What a source is called by everybody.

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
        supplied=Supplied(f"source/{row.id}", supply_of(connection, fields)),
    )


def supply_of(connection: Connection, fields: Mapping[str, Kind]) -> Subscribed | Rated | Timed | Replayed:
    """What feeds a source."""
    match connection:
        case TopicConnection():
            return Subscribed(topic=connection.topic, fields=fields)
        case RateConnection():
            return Rated(per_second=connection.per_second)
        case TimerConnection():
            return Timed(seconds=connection.seconds)
        case ReplayConnection():
            return Replayed(
                path=connection.path,
                fields=fields,
                time_field=connection.time_field,
                speed=connection.speed,
                per_second=connection.per_second,
                repeat=connection.repeat,
            )


class Readable(Mapping[str, Source]):
    """The sources that a tenant may read, by every name that it may call them.

    It looks one up when asked: a submission names few of all that are registered.
    """

    def __init__(self, tenant: str, sources: Mapping[str, Registered]) -> None:
        """`sources` has each by its full name."""
        self._tenant = tenant
        self._sources = sources

    def __getitem__(self, name: str) -> Source:
        source = self._sources[full_name(self._tenant, name)].source
        if not source.visible_to(self._tenant):
            raise KeyError(name)
        return source

    def __iter__(self) -> Iterator[str]:
        own = f"{self._tenant}:"
        for name, each in self._sources.items():
            if each.source.visible_to(self._tenant):
                yield name
                if name.startswith(own):
                    yield name.removeprefix(own)

    def __len__(self) -> int:
        return sum(1 for _ in self)
