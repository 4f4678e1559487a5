"""Streams between jobs: topics, wire format, broker, and the spools that streams are received into.

A message is acknowledged only once its events lie in a spool, so that nothing is lost between a broker and a job.
Begin with `Receiver`, which fills a `Spool`, and `read`, which jobs will use.
"""

from bridge.intake import Counts, Expected, Intake, Taken, expire, offer
from bridge.lease import Lease, LeaseTaken
from bridge.log import Item, ItemKind, Placed, SpoolDamaged, packed, unpacked
from bridge.raw import Unfit, events_in
from bridge.receiver import Feed, Message, Receiver, Unread
from bridge.spool import Spool, SpoolFull, SpoolState, commit, consumers, leave, read
from bridge.wire import Frame, FrameKind, MalformedFrame, cut, decode, encode

__all__ = [
    "Counts",
    "Expected",
    "Feed",
    "Frame",
    "FrameKind",
    "Intake",
    "Item",
    "ItemKind",
    "Lease",
    "LeaseTaken",
    "MalformedFrame",
    "Message",
    "Placed",
    "Receiver",
    "Spool",
    "SpoolDamaged",
    "SpoolFull",
    "SpoolState",
    "Taken",
    "Unfit",
    "Unread",
    "commit",
    "consumers",
    "cut",
    "decode",
    "encode",
    "events_in",
    "expire",
    "leave",
    "offer",
    "packed",
    "read",
    "unpacked",
]
