"""The deliveries in doubt: raw messages that are spooled, while the broker may not have taken their acknowledgement.

Raw events have no numbers. When a receiver is killed between spooling a message and acknowledging it, the broker
delivers it again, and only MQTT's packet ids can tell that it was spooled. So each spool file has the ids of the
messages that are in doubt once it is written, each with a digest of topic and payload: in the same write as the events,
and hence in every copy. Over a new connection a message is a *repetition*, acknowledged and not spooled again, if

1. the broker marks it as delivered before (DUP),
2. a message with its id and its digest is in doubt, from this session, and
3. no new message came before it over this connection.

**No new message is taken for a repetition.** Let N be new, although its id belongs to an R in doubt, even with an equal
payload. Then the broker has given that id twice in one session, so it took the acknowledgement of R. Mosquitto and the
embedded broker give ids in turn: all 65,535 were given in between. At most 4,000 messages (`UNACKNOWLEDGED`, which MQTT
5 calls the receive maximum) are unacknowledged at a time, so about 60,000 later ones were spooled before N came. And R
does not stay in doubt so long. With each group of acknowledgements the client sends a ping; brokers handle the packets
of a connection in order, so the answer says that they were taken. All that this is true of is left out of the next
file. Without an answer the oldest are left out, beyond the 4,000 newest.

A message that was sent but never arrived is new too, and is marked as delivered before. It comes after all repetitions,
since brokers deliver again in the order of the first time; the third rule needs no more than that. Even if a broker had
dropped 60,000 messages in between, one of those that it kept comes first and ends the doubt.

**Every repetition is recognized**, because what was spooled and not surely taken is in the newest file, or in the
high-water mark if all files are gone. What is repeated is acknowledged again, and in doubt again, until that is taken.

**Sessions.** Ids belong to a client id at a broker's address, so doubts of another session are removed at once. If the
broker says that it had no session for the client, it lost that, and numbers from the beginning: all doubts are removed
from disk before the client subscribes, and nothing is delivered before that. Each stream has a session and a spool of
its own. The numbered events on its second topic have no doubts, as their own numbers are exact, but their ids count, so
they let doubts end too.

**Limits**, where events count as often as they are delivered, which is at least once: a broker other than these two
(some give the lowest free id, so that an id returns at once); MQTT 3.1.1, which bounds no number of unacknowledged
messages; a broker that was killed and goes back to a state of before, mosquitto by a second at most, and repeats
without DUP, or what was surely taken. Such a broker may also give ids again. A new message then counts as a repetition
only if it gets the id of a message in doubt, is equal to it, and is itself lost on its way before any other came.
The same holds for a host that is killed in the millisecond between the broker's making a session and the removal of
doubts, and for a pair of brokers of which the first returns with its old sessions.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple
from zlib import adler32

import numpy as np

from bridge.messages import PACKET_IDS, UNACKNOWLEDGED, Message
from dags.source_topics import is_wild

_ID_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """The deliveries in doubt as a spool keeps them; made by `Deliveries`."""

    session: str = ""
    """The broker's session that the packet ids belong to."""
    packets: bytes = b""
    """Packet ids of two bytes, the oldest first."""
    digests: bytes = b""
    """For each packet id the digest of its message, of four bytes."""


NOTHING_IN_DOUBT = InDoubt()


class _Group(NamedTuple):
    number: int
    packets: bytes
    digests: bytes


class Deliveries:
    """The deliveries in doubt of one feed of a session. Except for `taken`, one thread at a time uses it."""

    def __init__(self, feed: str, session: str, kept: InDoubt) -> None:
        """`feed` is a topic or a filter, and `kept` what the spool has, of this session."""
        self._session = session
        self._seed = None if is_wild(feed) else _seed(feed)
        """What the digests of its messages begin with, if all have one topic."""
        self._repeatable = _digests(kept.packets, kept.digests)
        """Digests by packet id of what an earlier connection left in doubt; empty once a new message has come."""
        self._groups: deque[_Group] = deque()
        """The messages in doubt of this connection."""
        self._last = 0
        """The number of the last group."""
        self._taken = 0
        """The number of the last group whose acknowledgement the broker has surely taken."""

    def reconnected(self) -> None:
        """Expect repetitions of all that is in doubt, over a new connection."""
        self._settle()
        for group in self._groups:
            self._repeatable |= _digests(group.packets, group.digests)
        self._groups.clear()

    def forget(self) -> None:
        """Forget all doubts, because the session ended."""
        self._repeatable = {}
        self._groups.clear()

    def new(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are no repetitions. All of them are in doubt from now on."""
        first_new = self._count_repeated(messages) if self._repeatable else 0
        if first_new < len(messages):
            self._repeatable = {}
        self._last += 1
        self._groups.append(_Group(self._last, *self._packed(messages)))
        return messages[first_new:] if first_new else messages

    def pass_by(self, messages: Sequence[Message]) -> None:
        """Note messages of another feed of the session: a new one comes after all repetitions, too."""
        if not all(message.again for message in messages):
            self._repeatable = {}

    def kept(self) -> InDoubt:
        """All that is in doubt, to be kept with the spool."""
        self._settle()
        groups = list(self._groups)
        if self._repeatable:
            groups.insert(0, _Group(0, *_packed(list(self._repeatable), self._repeatable.values())))
        if not groups:
            return NOTHING_IN_DOUBT
        return InDoubt(
            session=self._session,
            packets=b"".join([group.packets for group in groups]),
            digests=b"".join([group.digests for group in groups]),
        )

    def acknowledging(self) -> Callable[[], None]:
        """A function to call, from any thread, once the broker surely took the acknowledgement of the last group."""
        number = self._last

        def taken() -> None:
            self._taken = max(self._taken, number)

        return taken

    def _settle(self) -> None:
        """Leave out what is in doubt no longer."""
        while self._groups and self._groups[0].number <= self._taken:
            self._groups.popleft()
        most = UNACKNOWLEDGED * _ID_BYTES
        while len(self._groups) > 1 and sum([len(group.packets) for group in self._groups]) > most:
            self._groups.popleft()

    def _count_repeated(self, messages: Sequence[Message]) -> int:
        """The number of repetitions with which messages begin."""
        for at, message in enumerate(messages):
            digest = self._repeatable.get(message.token % PACKET_IDS)
            if not message.again or digest is None or digest != adler32(message.payload, _seed(message.topic)):
                return at
        return len(messages)

    def _packed(self, messages: Sequence[Message]) -> tuple[bytes, bytes]:
        payloads = [message.payload for message in messages]
        seeds = repeat(self._seed) if self._seed is not None else [_seed(message.topic) for message in messages]
        return _packed([message.token for message in messages], map(adler32, payloads, seeds))


def _seed(topic: str) -> int:
    return adler32(topic.encode())


def _packed(tokens: Sequence[int], digests: Iterable[int]) -> tuple[bytes, bytes]:
    # It runs for each message of each raw stream, so most of it is done by C, and the quicker checksum is used: a
    # packet id is the lowest two bytes of a token.
    packets = np.frombuffer(struct.pack(f"<{len(tokens)}q", *tokens), "<u2")[::4].tobytes()
    return packets, struct.pack(f"<{len(tokens)}I", *digests)


def _digests(packets: bytes, digests: bytes) -> dict[int, int]:
    count = len(packets) // _ID_BYTES
    return dict(zip(struct.unpack(f"<{count}H", packets), struct.unpack(f"<{count}I", digests), strict=True))
