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
from bridge.output_messages import output_message
from bridge.receiver import Receiver, ReceiverThread, SpoolFeed, Unread
from bridge.sender import Sender, StreamTrouble
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, packed, unpacked
from bridge.spools.reader import SpoolIndex, SpoolReach, between, position_since, read
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull, commit, consumers, leave, unread_since
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.wire import Birth, Emitted, Frame, FrameKind, MalformedFrame, Stream, cut, decode, encode

__all__ = [
    "Birth",
    "Clock",
    "Counts",
    "Emitted",
    "Frame",
    "FrameKind",
    "GeneratorRun",
    "Item",
    "ItemKind",
    "Lease",
    "LeaseTaken",
    "MalformedFrame",
    "Message",
    "MqttClient",
    "NotConnected",
    "Placed",
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
    "Stream",
    "StreamTrouble",
    "SystemClock",
    "Timer",
    "Unread",
    "between",
    "commit",
    "consumers",
    "cut",
    "decode",
    "encode",
    "leave",
    "output_message",
    "packed",
    "position_since",
    "read",
    "unpacked",
    "unread_since",
]
