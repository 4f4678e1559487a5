"""Streams between jobs: topics, wire format, broker, and the spools that streams are received into.

A message is acknowledged only once its events lie in a spool, so that nothing is lost between a broker and a job.
Begin with `Sender`, which publishes what jobs emitted, and `Receiver`, which fills the `Spool` that other jobs read.
"""

from bridge.births import Birth
from bridge.casting import Unreplayable
from bridge.clock import Clock, MemoryClock, SystemClock
from bridge.consumers import commit, consumers, leave, unread_since
from bridge.emitted import Emitted, Stream
from bridge.generating import Generating
from bridge.generators import Generator, Rate, Replay, Timer
from bridge.index import Reach, SpoolIndex
from bridge.intake import Counts, Expected, Intake, Taken, expire, offer
from bridge.lease import Lease, LeaseTaken
from bridge.log import Item, ItemKind, Placed, PositionsGone, SpoolDamaged, packed, unpacked
from bridge.memory_spool import MemorySpool
from bridge.mqtt import Client, NotConnected
from bridge.output import dead_letter, output_message, unread_letter
from bridge.raw import Unfit, events_in
from bridge.reading import FolderReader, SpoolReader, between, position_since, read
from bridge.receiver import Feed, Message, Receiver, Unread
from bridge.sender import Sender, Trouble
from bridge.spool import Spool, SpoolClosed, SpoolFull, SpoolOwner, SpoolState
from bridge.wire import Again, Frame, FrameKind, Have, MalformedFrame, cut, decode, encode

__all__ = [
    "Again",
    "Birth",
    "Client",
    "Clock",
    "Counts",
    "Emitted",
    "Expected",
    "Feed",
    "FolderReader",
    "Frame",
    "FrameKind",
    "Generating",
    "Generator",
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
    "NotConnected",
    "Placed",
    "PositionsGone",
    "Rate",
    "Reach",
    "Receiver",
    "Replay",
    "Sender",
    "Spool",
    "SpoolClosed",
    "SpoolDamaged",
    "SpoolFull",
    "SpoolIndex",
    "SpoolOwner",
    "SpoolReader",
    "SpoolState",
    "Stream",
    "SystemClock",
    "Taken",
    "Timer",
    "Trouble",
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
