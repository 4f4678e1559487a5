"""Kafka: which topic of which cluster, and how to log in, as configs and forms have it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from dags.config import Hosted, Secret
from dags.connectors import MessageConnector
from dags.schema import Kind

_MOST_BROKERS = 50
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
BrokerAddress = Annotated[
    str, StringConstraints(max_length=300, pattern=r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}$")
]
"""A host with a port; an IPv6 address is in brackets."""


def _no_folder(topic: str) -> str:
    if topic in {".", ".."}:
        raise ValueError("Kafka has no topic of that name")
    return topic


KafkaTopicName = Annotated[
    str, StringConstraints(max_length=249, pattern=r"^[A-Za-z0-9._-]+$"), AfterValidator(_no_folder)
]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaTopic(Hosted):
    """A topic of a Kafka cluster, and how to log in there."""

    brokers: Annotated[tuple[BrokerAddress, ...], Field(min_length=1, max_length=_MOST_BROKERS)]
    """Some of the cluster's brokers, each as `host:port`. They name the others."""
    topic: KafkaTopicName
    """The name of the topic, which has to be there."""
    secret: Secret | None = None
    """A secret with `user:password`, if the cluster wants a login (SASL)."""
    mechanism: SaslMechanism = "PLAIN"
    """How to log in. PLAIN shows the password to the broker, and without `tls` to the network."""
    tls: bool = False
    """Whether connections are encrypted, and brokers show certificates for their hosts."""
    ca: Annotated[str, StringConstraints(max_length=100_000)] | None = None
    """The certificates, as PEM, of the authorities that count with `tls`; by default those of the system."""


class KafkaConnector(KafkaTopic, MessageConnector):
    """Events from the records of a topic. Each partition keeps its order."""

    kind: Literal["kafka"] = "kafka"
    start: Literal["newest", "oldest"] = "newest"
    """Where to begin: with what comes from now on, or with the oldest record that there is."""
    key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The string field that gets each record's key. With it, a record without a value is an event, too."""
    client: ClassVar[str] = "bridge.connectors.kafka:KafkaClient"
    promise: ClassVar[str] = "Each record is in the spool exactly once, if the topic keeps it until Braid has read it."

    @property
    def made_fields(self) -> Mapping[str, Kind]:
        """The field with the key."""
        return {} if self.key is None else {self.key: Kind.STRING}

    def why_unusable(self) -> str:
        """Look at the certificates."""
        if self.ca is not None and not (self.tls and _CERTIFICATE in self.ca):
            return "`ca` holds certificates in PEM, for connections with `tls`; correct one of them, or leave `ca` out"
        return ""


def host_of(address: str) -> str:
    """The host of a broker's address, without brackets.

    >>> host_of("kafka.example:9092"), host_of("[fd00::1]:9092")
    ('kafka.example', 'fd00::1')
    """
    return address.rpartition(":")[0].strip("[]")
