"""Streams between jobs: topics, the wire format, brokers, and the spools that receive streams.

A message is acknowledged only once its events are in a spool, so that nothing is lost between a broker and a job. Begin
with `Sender`, which publishes emitted events, and `Receiver`, which fills the `Spool` that other jobs read.
"""

from bridge.files import Lease, LeaseTaken
from bridge.generated.generator_run import GeneratorRun
from bridge.generated.generators import Rate, Replay, Timer
from bridge.intake import Counts
from bridge.machine import Clock, SystemClock
from bridge.messages import Message
from bridge.receiver import Receiver, ReceiverThread, SpoolFeed, Unread
from bridge.sender import Sender
from bridge.spools.log import Item, ItemKind, PositionsGone, SpoolDamaged, unpacked
from bridge.spools.reader import SpoolIndex, SpoolReach, between, position_since, read
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull, commit, consumers, leave, unread_since
from bridge.transport.mqtt_client import NotConnected
from bridge.wire import MalformedFrame, cut

__all__ = [
    "Clock",
    "Counts",
    "GeneratorRun",
    "Item",
    "ItemKind",
    "Lease",
    "LeaseTaken",
    "MalformedFrame",
    "Message",
    "NotConnected",
    "PositionsGone",
    "Rate",
    "Receiver",
    "ReceiverThread",
    "Replay",
    "Sender",
    "Spool",
    "SpoolClosed",
    "SpoolDamaged",
    "SpoolFeed",
    "SpoolFull",
    "SpoolIndex",
    "SpoolReach",
    "SystemClock",
    "Timer",
    "Unread",
    "between",
    "commit",
    "consumers",
    "cut",
    "leave",
    "position_since",
    "read",
    "unpacked",
    "unread_since",
]
