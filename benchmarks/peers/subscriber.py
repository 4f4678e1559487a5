"""The subscriber: notes when each output comes, in a process of its own.

    python -m benchmarks.peers.subscriber URL FILTER LOG

Prints a line when it hears, and for each line of its input the size of LOG once that has all that came before. Messages
are read later, so that it keeps up with any peer.
"""

import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

from bridge import Message
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient

Noted: TypeAlias = tuple[float, str, bytes]
"""When a message came, its topic and its payload."""


def main(url: str, topics: str, log: Path) -> None:
    """Note outputs until the input ends."""
    lock = threading.Lock()
    with log.open("wb") as notes:

        def take(messages: Sequence[Message]) -> None:
            now = time.time()
            with lock:
                pickle.dump([(now, message.topic, message.payload) for message in messages], notes)
            client.acknowledge([message.token for message in messages])

        client = MqttClient(Address.parse(url), "subscriber", topics=[topics], on_messages=take, lasting=False)
        client.start()
        print("hears", flush=True)
        for _ in sys.stdin:
            with lock:
                notes.flush()
                size = notes.tell()
            print(size, flush=True)
        client.stop()


def noted_in(notes: BinaryIO, size: int) -> Iterator[Noted]:
    """What was noted behind the position of a log, up to a size: beyond it may be half of what comes next."""
    while notes.tell() < size:
        yield from pickle.load(notes)  # noqa: S301 - written by our own process


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
