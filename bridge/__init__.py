"""Streams between jobs: topics, the wire format, brokers, and the spools that receive streams.

A message is acknowledged only once its events are in a spool, so that nothing is lost between a broker and a job. Begin
with `Sender`, which publishes emitted events, and `Receiver`, which fills the `Spool` that other jobs read.
"""

from bridge.emitted import Emitted, Stream
from bridge.events.births import Birth
from bridge.events.output_messages import output_message
from bridge.generated.generator_run import GeneratorRun
from bridge.generated.generators import Rate, Replay, Timer
from bridge.intake import Counts, Intake
from bridge.machine.clock import Clock, SystemClock
from bridge.machine.lease import Lease, LeaseTaken
from bridge.message import Message
from bridge.receiver import Receiver, ReceiverThread
from bridge.sender import Sender, StreamTrouble
from bridge.spool_feed import SpoolFeed, Unread
from bridge.spools.consumers import commit, consumers, leave, unread_since
from bridge.spools.index import SpoolIndex, SpoolReach
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, packed, unpacked
from bridge.spools.reader import FolderReader, between, position_since, read
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.wire import Frame, FrameKind, MalformedFrame, cut, decode, encode

__all__ = [
    "Birth",
    "Clock",
    "Counts",
    "Emitted",
    "FolderReader",
    "Frame",
    "FrameKind",
    "GeneratorRun",
    "Intake",
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
