"""Sources: their registration, connections and readers, the numbering of sent events, and webhooks."""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag

from braid_client.answers.base import Answer, Form, SourceName, TenantName
from dags import Kind, Visibility
from dags.connectors import Connector, FilesConnector, MqttConnector, OpcuaConnector
from dags.kafka import KafkaConnector
from dags.message_formats import JSON, MessageFormat


class TopicConnection(Form):
    """Raw events on a topic of the broker."""

    kind: Literal["topic"]
    topic: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """A topic, or several: `+` stands for any one level, `{name}` for one that becomes the string field `name` of each
    event, and a last `#` for any further levels."""
    retained: bool = False
    """Whether it begins with the message that the topic retains when it is first read. By default nothing is read that
    was published before."""
    format: MessageFormat = JSON
    """The format of its messages; a kind alone is enough for one with nothing else to say, as in `"format": "csv"`."""


class RateConnection(Form):
    """Numbered events at an even pace."""

    kind: Literal["rate"]
    per_second: Annotated[float, Field(gt=0, le=1_000_000)]


class TimerConnection(Form):
    """One event every so many seconds."""

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


OWN_CONNECTIONS = (TopicConnection, RateConnection, TimerConnection, ReplayConnection)
"""The kinds of connections that are no connectors."""
_KINDS = {
    get_args(known.model_fields["kind"].annotation)[0]: known
    for known in (*OWN_CONNECTIONS, FilesConnector, KafkaConnector, MqttConnector, OpcuaConnector)
}


class OtherConnector(Connector):
    """A connector of another package, which the service checks, since it knows the package."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(json_schema_extra={"not": {"enum": sorted(_KINDS)}})]


def _tag(connection: Any) -> str | None:
    kind = connection.get("kind") if isinstance(connection, dict) else getattr(connection, "kind", None)
    return kind if kind is None or kind in _KINDS else "other"


if TYPE_CHECKING:
    Connection: TypeAlias = TopicConnection | RateConnection | TimerConnection | ReplayConnection | Connector
else:
    Connection = Annotated[
        Union[
            (*(Annotated[known, Tag(kind)] for kind, known in _KINDS.items()), Annotated[OtherConnector, Tag("other")])
        ],
        Discriminator(_tag),
    ]


class SourceForm(Form):
    """A source to register. Its owner is the caller's tenant, or the one that an operator names."""

    name: SourceName
    connection: Connection
    fields: Annotated[dict[str, Kind], Field(alias="schema", max_length=250)] = Field(default={})
    """The schema: the kind of each field. Generated sources have their own."""
    visibility: Visibility = Visibility.PRIVATE
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()
    owner: TenantName | None = None


class ProposalForm(Form):
    """A topic to listen to, or messages instead, to propose a source."""

    topic: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    seconds: Annotated[int, Field(ge=1, le=60)] = 10
    format: MessageFormat | None = None
    """The format of its messages. Without it, it is recognised where they leave no doubt, and JSON where they do."""
    messages: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()
    """Messages as they would come on the topic. With any, the topic is not listened to."""


class ProposedSource(Answer):
    """A source to register; it can be sent as a SourceForm."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    connection: TopicConnection
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    owner: str | None = None


class UndecidedAnswer(Answer):
    """What the events leave open."""

    field: str | None
    """The field; None if it is about the schema as a whole."""
    why: str


class ProposalAnswer(Answer):
    """A source whose schema takes all events that came on a topic while it was listened to."""

    source: ProposedSource
    messages: int
    events: int
    """The events in these messages that the schema was inferred from."""
    unread: int
    """The events, and messages without any, that no schema takes."""
    why_unread: str | None = None
    """The reason for the first of them."""
    undecided: tuple[UndecidedAnswer, ...] = ()


class VisibilityForm(Form):
    """The new readers of a source. Dataflows of tenants that may no longer read it are removed."""

    visibility: Visibility
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()


class SchemaForm(Form):
    """The fields that a source declares from now on."""

    fields: Annotated[dict[str, Kind], Field(alias="schema", max_length=250)]


class RejectedAnswer(Answer):
    """A message, or an event in one, that did not fit its source's schema and reached no dataflow."""

    at: datetime
    event: str
    """The beginning of it, as text."""
    reason: str


class LinkAnswer(Answer):
    """The state of a source's connection to something outside Braid."""

    connected: bool
    since: datetime
    """When it became so."""
    error: str
    """The reason of the last failure, which may be over; empty if there was none."""
    error_at: datetime | None


class ReceivedAnswer(Answer):
    """The events of a source that its host has received since it began to, which it does anew whenever it starts."""

    since: datetime
    """When it began to receive, and to count."""
    accepted: int
    rejected: int
    newest: tuple[RejectedAnswer, ...]
    """The newest rejected ones, newest first."""
    link: LinkAnswer | None = None
    """Whether it is connected, if it takes its events from outside Braid."""


class SourceAnswer(Answer):
    """A registered source."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    owner: str
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    visibility: Visibility
    connection: Connection | None
    """The connection, shown to its owner and to operators only."""
    readers: tuple[str, ...] | None
    """The readers, shown to these only."""
    dataflows: int
    """The number of the caller's dataflows that read it; of all dataflows for its owner and for operators."""
    received: ReceivedAnswer | None = None
    """What its host received, shown to these only; None as well while no dataflow reads it."""


class DependentAnswer(Answer):
    """A dataflow that could not be submitted by the new schema of a source."""

    dataflow: str
    why: tuple[str, ...]
    """What in it depends on fields that are not declared any more, or otherwise."""


class SchemaAnswer(Answer):
    """A source whose schema changed, and the dataflows that read it."""

    source: SourceAnswer
    going_on: int
    """The number of dataflows that go on by the schema that they were submitted with."""
    dependent: tuple[DependentAnswer, ...]
    """Those of the caller's among them that could not be submitted anew; of all dataflows for operators."""


ProducerName = Annotated[str, StringConstraints(pattern=r"^~?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""The name of a numbering of events sent to a source. With a leading `~` it is for one use."""


class SentAnswer(Answer):
    """All sent events are in the spool of their source, once each."""

    source: str
    producer: str
    next: int
    """The number after the last of them."""


class ProducerAnswer(SentAnswer):
    """The progress of a producer at a source; the next number is 0 if it is unknown or forgotten."""


class WebhookScheme(StrEnum):
    """How a service signs what it posts."""

    STANDARD = "standard"
    """As Standard Webhooks say, in the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`."""
    GITHUB = "github"
    """In the header `X-Hub-Signature-256`, with the id of a delivery in `X-GitHub-Delivery`."""
    STRIPE = "stripe"
    """In the header `Stripe-Signature`, with the time."""
    HEX = "hex"
    """The hexadecimal HMAC-SHA256 of the body, in a header that the webhook names."""
    BASE64 = "base64"
    """The same as base64."""


HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$")]
WebhookSecret = Annotated[str, StringConstraints(min_length=16, max_length=1_000, pattern=r"^[\x20-\x7e]+$")]


class WebhookForm(Form):
    """A webhook of a source, as the service signs that posts to it."""

    scheme: WebhookScheme = WebhookScheme.STANDARD
    header: HeaderName | None = None
    """The header with the signature; only for the schemes `hex` and `base64`, which need it."""
    prefix: Annotated[str, StringConstraints(max_length=50, pattern=r"^[\x21-\x7e]*$")] = ""
    """What the header has before the signature, such as `sha256=`; only for these schemes."""
    delivery: HeaderName | None = None
    """The header with the id of a delivery, by which one that is repeated is known; only for these schemes."""
    secret: WebhookSecret | None = Field(default=None, repr=False)
    """The secret, if the service has chosen it; otherwise one is made."""


class WebhookRotationForm(Form):
    """A new secret of a webhook."""

    secret: WebhookSecret | None = Field(default=None, repr=False)
    """The secret, if the service has chosen it; otherwise one is made."""
    former_hours: Annotated[int, Field(ge=0, le=168)] = 24
    """For how many hours what is signed with the secret before is taken, too."""


class WebhookAnswer(Answer):
    """A webhook of a source. Its secret is shown only when it is made."""

    source: str
    url: str
    """Where the service posts to. It holds a token, and stays the same when the secret is rotated."""
    scheme: WebhookScheme
    header: str | None
    prefix: str
    delivery: str | None
    made: datetime
    former_until: datetime | None
    """Until when what is signed with the secret before is taken, too."""


class NewWebhookAnswer(WebhookAnswer):
    """A webhook with its new secret, which is shown this once."""

    secret: str = Field(repr=False)


class DeliveredAnswer(Answer):
    """The events of a delivery are in the spool of their source."""

    source: str
    repeated: bool
    """Whether this delivery was there already, so that nothing is added."""


class Stopped(Answer):
    """The number of dataflows that a change removed as well."""

    dataflows: int
