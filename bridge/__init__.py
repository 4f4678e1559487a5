"""Streams between jobs: topics, wire format, broker, and the spools that streams are received into.

A message is acknowledged only once its events lie in a spool, so that nothing is lost between a broker and a job.
Begin with `Sender`, which publishes what jobs emitted, and `Receiver`, which fills the `Spool` that other jobs read.
"""

from bridge.emitted import Emitted, Stream
from bridge.events.births import Birth
from bridge.events.output_messages import dead_letter, output_message, unread_letter
from bridge.events.raw_events import Unfit, events_in
from bridge.generated.file_columns import Unreplayable
from bridge.generated.generator_run import GeneratorRun
from bridge.generated.generators import Generator, Rate, Replay, Timer
from bridge.intake import Counts, Expected, Intake, Taken, expire, offer
from bridge.machine.clock import Clock, MemoryClock, SystemClock
from bridge.machine.lease import Lease, LeaseTaken
from bridge.message import Message
from bridge.receiver import Receiver
from bridge.sender import Sender, StreamTrouble
from bridge.spool_feed import SpoolFeed, Unread
from bridge.spools.consumers import commit, consumers, leave, unread_since
from bridge.spools.index import SpoolIndex, SpoolReach
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, packed, unpacked
from bridge.spools.memory_spool import MemorySpool
from bridge.spools.reader import FolderReader, between, position_since, read
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull, SpoolOwner, SpoolState
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.wire import Again, Frame, FrameKind, Have, MalformedFrame, cut, decode, encode

__all__ = [
    "Again",
    "Birth",
    "Clock",
    "Counts",
    "Emitted",
    "Expected",
    "FolderReader",
    "Frame",
    "FrameKind",
    "Generator",
    "GeneratorRun",
    "Have",
    "Intake",
    "Item",
    "ItemKind",
    "Lease",
    "LeaseTaken",
    "MalformedFrame",
    "MemoryClock",
    "MemorySpool",
    "Message",
    "MqttClient",
    "NotConnected",
    "Placed",
    "PositionsGone",
    "Rate",
    "Receiver",
    "Replay",
    "Sender",
    "Spool",
    "SpoolClosed",
    "SpoolDamaged",
    "SpoolFeed",
    "SpoolFull",
    "SpoolIndex",
    "SpoolOwner",
    "SpoolReach",
    "SpoolState",
    "Stream",
    "StreamTrouble",
    "SystemClock",
    "Taken",
    "Timer",
    "Unfit",
    "Unread",
    "Unreplayable",
    "between",
    "commit",
    "consumers",
    "cut",
    "dead_letter",
    "decode",
    "encode",
    "events_in",
    "expire",
    "leave",
    "offer",
    "output_message",
    "packed",
    "position_since",
    "read",
    "unpacked",
    "unread_letter",
    "unread_since",
]
