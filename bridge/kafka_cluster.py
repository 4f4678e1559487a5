"""A Kafka cluster: the settings of clients, which of its brokers they may connect to, and why it cannot be used.

librdkafka looks up hosts and connects by itself, to the brokers that are configured and to those that the cluster
names, and Python cannot look on. So the hosts of the first are checked before a client is made, and those of the others
before anything is sent or read, and again every half minute. What remains: a name that has other addresses when
librdkafka looks it up, and a broker that joins the cluster between two checks.

The package confluent-kafka is an extra, so nothing here loads it before it is needed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dags.kafka import KafkaTopic, host_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

C = TypeVar("C")

CHECKED_EVERY = 30.0
"""Seconds after which a cluster's brokers and a topic's partitions are looked up again."""
_CONNECT_SECONDS = 3.0
"""The seconds that a connection may take."""
_PATIENCE = 0.5
"""The seconds after which a new client is asked for its errors; twice as many from time to time."""
_NO_LOG = 0
"""The level of librdkafka's log of which nothing is left; what matters comes as errors."""
_NO_ANSWER = "no broker answers; check `brokers`, and whether they want `tls` or a login"
_NO_TOPIC = "it has no such topic; create it, or correct `topic`"
_NO_LOGIN = "it refuses the login; check the secret and `mechanism`"
_REASONS: Mapping[str, str] = {
    "_AUTHENTICATION": _NO_LOGIN,
    "SASL_AUTHENTICATION_FAILED": _NO_LOGIN,
    "UNSUPPORTED_SASL_MECHANISM": _NO_LOGIN,
    "_SSL": "its certificate is not valid here; check `ca`, and that `brokers` are named as in the certificate",
    "TOPIC_AUTHORIZATION_FAILED": "its user may not use the topic",
    "CLUSTER_AUTHORIZATION_FAILED": "its user may not do this",
    "_UNKNOWN_TOPIC": _NO_TOPIC,
    "UNKNOWN_TOPIC_OR_PART": _NO_TOPIC,
    "_UNKNOWN_PARTITION": _NO_TOPIC,
    "_RESOLVE": "the host of a broker cannot be found",
    "_MSG_TIMED_OUT": "it does not answer in time",
    "_TIMED_OUT": _NO_ANSWER,
    "_TRANSPORT": _NO_ANSWER,
    "_ALL_BROKERS_DOWN": _NO_ANSWER,
}
"""What errors of librdkafka mean to an owner, by their names; the first that occurred says most."""
_REFUSALS = frozenset({"_AUTHENTICATION", "_SSL"})
"""Those after which it makes no sense to wait."""
_LOST = _REFUSALS | {"_ALL_BROKERS_DOWN"}
"""The errors of connections after which nothing comes; after others librdkafka goes on with another broker."""


class KafkaTrouble(Exception):
    """A cluster cannot be used. Says why, without passwords and addresses."""


class NoKafka(ImportError):
    """The package for Kafka is not installed. Says what to do."""


class KafkaCluster:
    """The cluster of a topic, for one client of it."""

    def __init__(self, topic: KafkaTopic, addresses: Callable[[str], Sequence[str]]) -> None:
        """`addresses` are those of a host; it raises `OSError` if nothing may connect there."""
        try:
            import confluent_kafka  # noqa: F401, PLC0415 - an optional package, see above
        except ImportError as error:
            raise NoKafka(f"Kafka needs confluent-kafka ({error}); install braid[kafka]") from None
        self._topic = topic
        self._addresses = addresses
        self._errors: set[str] = set()
        """The names of what went wrong with connections, since the cluster answered last."""

    def producer(self, more: Mapping[str, Any]) -> "Producer":
        """A producer with further settings."""
        from confluent_kafka import Producer  # noqa: PLC0415 - as above

        return self._client(Producer, more)

    def consumer(self, more: Mapping[str, Any]) -> "Consumer":
        """A consumer with further settings."""
        from confluent_kafka import Consumer  # noqa: PLC0415 - as above

        return self._client(Consumer, more)

    def partitions(self, client: "Consumer | Producer", seconds: float, *, is_new: bool = False) -> list[int]:
        """The partitions of the topic now, if it answers in time and all its brokers are allowed.

        What refuses a new client is said at once.
        """
        cluster = self._described(client, seconds, _PATIENCE if is_new else seconds)
        self._errors.clear()
        for broker in cluster.brokers.values():
            self._check(broker.host)
        topic = cluster.topics[self._topic.topic]
        if topic.error is not None or not topic.partitions:
            raise KafkaTrouble(_reason({topic.error.name()} if topic.error else {"_UNKNOWN_TOPIC"}, topic.error))
        return sorted(topic.partitions)

    def _described(self, client: "Consumer | Producer", seconds: float, patience: float) -> Any:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as above

        late = time.monotonic() + seconds
        while True:
            left = late - time.monotonic()
            try:
                return client.list_topics(self._topic.topic, timeout=max(0.1, min(left, patience)))
            except KafkaException as error:
                trouble = self.trouble(error.args[0], client)
                if left <= patience or self._errors & _REFUSALS:
                    raise trouble from None
            patience *= 2

    def check(self) -> None:
        """Raise if the cluster has become unreachable, or lets nobody in any more."""
        if names := self._errors & _LOST:
            raise KafkaTrouble(_reason(names, None))

    def trouble(self, error: "KafkaError", client: "Consumer | Producer | None" = None) -> KafkaTrouble:
        """What went wrong, given its error. A client is asked for earlier errors, which may say more."""
        if client is not None:
            client.poll(0)
        return KafkaTrouble(_reason({*self._errors, error.name()}, error))

    def _client(self, make: Callable[[dict[str, Any]], C], more: Mapping[str, Any]) -> C:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as above

        for address in self._topic.brokers:
            self._check(host_of(address))
        try:
            return make({**_settings(self._topic), "error_cb": lambda error: self._errors.add(error.name()), **more})
        except KafkaException as error:
            # The only settings that may be wrong are those of the certificates.
            raise KafkaTrouble(f"`ca` cannot be read: {error.args[0].name()}") from None

    def _check(self, host: str) -> None:
        try:
            self._addresses(host)
        except OSError as barred:
            raise KafkaTrouble(f"its broker {host!r} cannot be used: {barred}") from None


def _settings(topic: KafkaTopic) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(topic.brokers),
        "client.id": "braid",
        "security.protocol": f"{'SASL_' if topic.secret else ''}{'SSL' if topic.tls else 'PLAINTEXT'}",
        "allow.auto.create.topics": False,
        "log_level": _NO_LOG,
        "socket.connection.setup.timeout.ms": int(_CONNECT_SECONDS * 1_000),
    }
    if topic.secret is not None:
        user, colon, password = topic.secret.revealed.strip().partition(":")
        if not (user and colon and password):
            raise KafkaTrouble(f"the secret {topic.secret.secret!r} is not `user:password`; put it so")
        settings |= {"sasl.mechanism": topic.mechanism, "sasl.username": user, "sasl.password": password}
    if topic.ca is not None:
        settings["ssl.ca.pem"] = topic.ca
    return settings


def _reason(names: set[str], error: "KafkaError | None") -> str:
    known = next((reason for name, reason in _REASONS.items() if name in names), None)
    return known or f"{error.name() if error else min(names)}"
