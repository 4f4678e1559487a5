"""Sources: how they are registered, and who may read them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from dags import Kind, Visibility
from manager.answers.base import Answer, Form, SourceName, TenantName


class TopicConnection(Form):
    """Raw events that somebody publishes on the broker."""

    kind: Literal["topic"]
    topic: Annotated[str, StringConstraints(min_length=1, max_length=512)]


class RateConnection(Form):
    """Numbered events at an even pace."""

    kind: Literal["rate"]
    per_second: Annotated[float, Field(gt=0, le=1_000_000)]


class TimerConnection(Form):
    """One event each time that so many seconds have passed."""

    kind: Literal["timer"]
    seconds: Annotated[float, Field(ge=0.001)]


class ReplayConnection(Form):
    """The events of a file that the hosts can read; operators only."""

    kind: Literal["replay"]
    path: str
    time_field: str | None = None
    speed: Annotated[float, Field(gt=0)] = 1.0
    per_second: Annotated[float | None, Field(gt=0)] = None
    repeat: bool = False


Connection = Annotated[
    TopicConnection | RateConnection | TimerConnection | ReplayConnection, Field(discriminator="kind")
]


class SourceForm(Form):
    """A source to register; its owner is the caller's tenant, or named by an operator."""

    name: SourceName
    connection: Connection
    fields: Annotated[dict[str, Kind], Field(alias="schema", max_length=250)] = Field(default={})
    """The schema: each field's kind. A generated source has its own."""
    visibility: Visibility = Visibility.PRIVATE
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()
    owner: TenantName | None = None


class VisibilityForm(Form):
    """Who may read a source from now on; dataflows of tenants that may not any more are stopped."""

    visibility: Visibility
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()


class SourceAnswer(Answer):
    """A registered source, as those who may read it see it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    owner: str
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    visibility: Visibility
    connection: Connection | None
    """For its owner and for operators only."""
    readers: tuple[str, ...] | None
    """The same."""
    dataflows: int
    """How many of the caller's dataflows read it; all of them for its owner and for operators."""


ProducerName = Annotated[str, StringConstraints(pattern=r"^~?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""It numbers the events that somebody sends to one source; with `~` before it, it is for one use."""


class SentAnswer(Answer):
    """Events lie in their source's spool, as many as were sent, once each."""

    source: str
    producer: str
    """Under which name they are numbered."""
    next: int
    """The number after the last of them."""


class ProducerAnswer(Answer):
    """How far a producer of events is in a source."""

    source: str
    producer: str
    next: int
    """The number that comes next; 0 where none came, or the producer is not remembered."""


class Stopped(Answer):
    """What a change made stop besides what it was about."""

    dataflows: int
