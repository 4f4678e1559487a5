"""A process that receives one raw stream into a spool, and kills itself at the n-th time of a step if so asked.

Steps are those of the spool's writes, and "acknowledged", which is when acknowledgements were handed to the client.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Spool, SpoolFeed, SystemClock
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from dags import Kind, Schema
from dags.source_topics import source_topic
from engine.host.reception import Receptions

RAW = "raw/t"
FILTER = "raw/{place}"
READY = "ready\n"


def main(url: str, folder: str, topic: str, fatal: str, at: str) -> None:
    """Receive until the input ends, or a step kills the process."""
    left = int(at)

    def step(name: str) -> None:
        nonlocal left
        left -= name == fatal
        if name == fatal and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    acknowledge = MqttClient.acknowledge

    def acknowledging(client: MqttClient, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        acknowledge(client, tokens, taken)
        step("acknowledged")

    MqttClient.acknowledge = acknowledging  # type: ignore[assignment, method-assign]  # a method all the same
    spool = Spool(Path(folder) / "spool", most_bytes=1 << 30, step=step)
    receptions = Receptions(
        Path(folder), "h", Address.parse(url), MQTTProtocolVersion.MQTTv5, on_unread=_fail, clock=SystemClock()
    )
    levels = source_topic(topic)
    feed = SpoolFeed(spool=spool, schema=Schema.of(n=Kind.INTEGER), levels=None if levels.is_plain else levels)
    reception = receptions.begin(RAW, {levels.filter: feed}, due=lambda _after: 0.0, on_unread=_fail, on_trouble=_fail)
    sys.stdout.write(READY)
    sys.stdout.flush()
    sys.stdin.read()
    reception.stop()
    spool.close()


def _fail(what: object) -> None:
    raise AssertionError(what)


if __name__ == "__main__":
    main(*sys.argv[1:])
