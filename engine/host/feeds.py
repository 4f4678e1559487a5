"""The shared feeds of a host: one connection for all sources that take the same topics of a broker.

`shared_feed` decides which sources these are, from what a plan says of them and nothing else. A feed is a stream that
no job reads and no status names, so nobody learns of another's source by it. Hosts with one root share their feeds:
one of them has the connection, and the others read the spool. If that one is gone, another takes over.

The connection ends for good once no source reads the feed. A host that only ends leaves it to the next one.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from bridge import Clock, LeaseTaken, SpoolClosed, SpoolDamaged, SpoolIndex, consumers, leave, unread_since
from bridge.connectors.connector_run import ClientAssignment, ConnectorRun, LinkState
from bridge.connectors.shared_feed import FeedSession
from bridge.files import write_whole
from bridge.formats.decoders import decoder
from bridge.spools.deliveries import InDoubt
from dags import Schema
from dags.connectors import MqttConnector
from dags.message_formats import JSON
from engine.host.notifying_spool import FeedSpool
from engine.outside import HostOutside
from engine.plan import ConnectorSupply
from engine.records.job_folder import spool_folder
from engine.replicas.copies import Copies

_STREAMS = "~feed/"
"""The beginning of the names of feeds. They come after all others, so a copy in order has each feed after
its sources, and none is ahead of it."""
_LINK = ".link"
"""The file with the state of the connection, for other hosts of the root. It is not copied, because of its dot."""
_LOOKING = 0.1
"""Seconds between two looks at a feed that another host fills."""
_RETRY_SECONDS = 5.0
"""Seconds until a feed that failed is tried again."""
_NO_FIELDS = Schema.of({})
log = logging.getLogger("braid.host")


def shared_feed(supply: ConnectorSupply) -> str:
    """The connector that takes for all sources that have an equal one, as JSON; empty if a source needs its own."""
    given = json.loads(supply.connector)
    if given["kind"] != "mqtt" or given.get("secret") is not None:
        return ""
    try:
        shared = MqttConnector.model_validate(given).shared(supply.format)
    except ValidationError:
        # The source's own connection says what is wrong.
        return ""
    return "" if shared is None else shared.model_dump_json()


def _connected(
    stream: str, connector: str, outside: HostOutside, positions: Mapping[str, int], in_doubt: InDoubt
) -> FeedSession:
    assignment = ClientAssignment(
        stream=stream,
        schema=_NO_FIELDS,
        decode=decoder(JSON, _NO_FIELDS, {}),
        positions=positions,
        in_doubt=in_doubt,
        outside=outside,
    )
    return FeedSession(MqttConnector.model_validate_json(connector), assignment)


class SharedFeed:
    """A feed of a host, which has its connection or only reads it. Sources read it from any thread."""

    def __init__(self, root: Path, connector: str, most_bytes: int, *, clock: Clock, copies: Copies) -> None:
        self.stream = f"{_STREAMS}{hashlib.sha256(connector.encode()).hexdigest()}"
        self.folder = spool_folder(root, self.stream)
        self._root = root
        self._connector = connector
        self._most_bytes = most_bytes
        self._clock = clock
        self._copies = copies
        self._spool: FeedSpool | None = None
        self._filling: tuple[ConnectorRun, threading.Thread] | None = None
        self._trouble = ""
        """The reason that nothing comes, if its spool could not be filled."""
        self._retry = 0.0  # when it is tried again, by `time.monotonic`
        self._news = threading.Condition()
        self._noted = 0
        """How often there was something new."""
        self._index: SpoolIndex | None = None
        """What another host has put into the spool; used with the guard of the news."""

    def supply(self) -> None:
        """Have the connection, unless another host has it; called from the main thread."""
        if self._trouble and time.monotonic() >= self._retry:
            self._end()
            self._trouble = ""
        if self._spool is not None or self._trouble:
            return
        try:
            self._spool = FeedSpool(
                self.folder,
                most_bytes=self._most_bytes,
                on_growth=lambda _marked: self._note(),
                copies=self._copies,
            )
        except LeaseTaken:
            return
        except (SpoolDamaged, OSError) as error:
            self._fail(error)
            return
        connecting = partial(_connected, self.stream, self._connector, HostOutside(self._root))
        run = ConnectorRun(
            connecting, self._spool, on_unfit=lambda _unfit: None, on_link=self._note_link, clock=self._clock
        )
        thread = threading.Thread(target=self._fill, args=(run,), name=f"fills {self.stream}", daemon=True)
        self._filling = run, thread
        thread.start()

    @property
    def leaves(self) -> bool:
        """Whether its connection ends for good."""
        return self._filling is not None and self._filling[0].leaves

    def prune(self) -> None:
        """Remove what all sources have read; called from the main thread."""
        if self._spool is not None and not self._trouble:
            self._drop_unread()
            try:
                self._spool.prune()
            except (SpoolDamaged, SpoolClosed, OSError) as error:
                self._fail(error)

    def size(self) -> int:
        """The bytes that it holds, if this host fills it."""
        return 0 if self._spool is None else self._spool.size

    def release(self) -> bool:
        """Have no connection any more, since no source of this host reads it; whether that is done already."""
        self._drop_unread()
        if self._filling is not None and (self.leaves or not consumers(self.folder)):
            run, thread = self._filling
            run.stop(for_good=True)
            if thread.is_alive():
                # The broker may take its time.
                return False
        self._end()
        return True

    def stop(self) -> None:
        """Let its run end soon."""
        if self._filling is not None:
            self._filling[0].stop()

    def close(self) -> None:
        """Have no connection any more; the next one reads on from where this was."""
        self._end()

    def link(self, seconds: float = 0.0) -> LinkState:
        """The state of the connection, after waiting for so long unless it is connected."""
        deadline = time.monotonic() + seconds
        while True:
            noted = self._noted
            link = self._link()
            if link.connected or not self._await(noted, deadline):
                return link

    def end(self) -> int:
        """The position after the last message."""
        if (spool := self._spool) is not None:
            return spool.settled_end()
        with self._news:
            return self._looked().end

    def reach(self, position: int, most_bytes: int, seconds: float = 0.0) -> int:
        """The end of the next messages of so many bytes, after waiting for so long unless there are some."""
        deadline = time.monotonic() + seconds
        while True:
            noted = self._noted
            if (spool := self._spool) is not None:
                end = spool.reach(position, most_bytes).end
            else:
                with self._news:
                    end = self._looked().reach(position, most_bytes).end
            if end > position or not self._await(noted, deadline):
                return end

    def _await(self, noted: int, deadline: float) -> bool:
        """Wait for something new; False if the time is over."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        with self._news:
            self._news.wait_for(lambda: self._noted != noted, left if self._spool is not None else min(left, _LOOKING))
        return True

    def _looked(self) -> SpoolIndex:
        if self._index is None:
            self._index = SpoolIndex(self.folder)
        else:
            self._index.refresh()
        return self._index

    def _link(self) -> LinkState:
        if self._trouble:
            return LinkState(since=self._clock.now(), error=self._trouble)
        if self._filling is not None:
            return self._filling[0].link
        try:
            return LinkState(**json.loads((self.folder / _LINK).read_bytes()))
        except (OSError, ValueError, TypeError):
            return LinkState(since=self._clock.now())

    def _note_link(self, link: LinkState) -> None:
        write_whole(self.folder / _LINK, json.dumps(asdict(link)).encode())
        self._note()

    def _note(self) -> None:
        with self._news:
            self._noted += 1
            self._news.notify_all()

    def _fill(self, run: ConnectorRun) -> None:
        try:
            run.run()
        except Exception as error:  # a disk may be full
            log.exception("feed %s", self.stream)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._retry = time.monotonic() + _RETRY_SECONDS
        self._trouble = f"{type(error).__name__}: {error}"
        self._note()

    def _end(self) -> None:
        if self._filling is not None:
            run, thread = self._filling
            run.stop()
            thread.join()
            if run.leaves and self._spool is not None:
                self._forget(run, self._spool)
        if self._spool is not None:
            self._spool.close()
        self._spool, self._filling, self._index = None, None, None

    def _drop_unread(self) -> None:
        """Take sources from its consumers whose host died after their last reader had left."""
        for stream in consumers(self.folder):
            if unread_since(spool_folder(self._root, stream)) is not None:
                leave(self.folder, stream)

    def _forget(self, run: ConnectorRun, spool: FeedSpool) -> None:
        try:
            # First, so that a source of another host that joins unseen sees this, and waits for the next connection.
            write_whole(self.folder / _LINK, b"")
            # One that has joined meanwhile hears from the next connection that the session was lost.
            if not consumers(self.folder):
                run.forget()
                spool.prune()
        except (SpoolClosed, OSError) as error:
            log.warning("feed %s may be said to have lost its session: %s", self.stream, error)


class Feeds:
    """The shared feeds of a host; called from its main thread."""

    def __init__(self, root: Path, *, clock: Clock, copies: Copies) -> None:
        self._root = root
        self._clock = clock
        self._copies = copies
        self._feeds: dict[str, SharedFeed] = {}

    def join(self, supply: ConnectorSupply, most_bytes: int) -> SharedFeed | None:
        """The feed that a source takes from, supplied from now on; None if it needs a connection of its own."""
        if not (connector := shared_feed(supply)):
            return None
        feed = self._feeds.get(connector)
        if feed is None:
            feed = SharedFeed(self._root, connector, most_bytes, clock=self._clock, copies=self._copies)
            self._feeds[connector] = feed
        elif feed.leaves:
            # It was to be forgotten, so it begins anew.
            feed.close()
        feed.supply()
        return feed

    def look(self, wanted: Collection[SharedFeed], *, prunes: bool) -> None:
        """Take over feeds whose host is gone, end those that no source of the host reads, and prune."""
        for connector, feed in list(self._feeds.items()):
            if feed in wanted:
                feed.supply()
                if prunes:
                    feed.prune()
            elif feed.release():
                del self._feeds[connector]

    def size(self) -> int:
        """The bytes in the feeds that this host fills."""
        return sum(feed.size() for feed in self._feeds.values())

    def close(self) -> None:
        """Stop all feeds; the next host goes on."""
        for feed in self._feeds.values():
            feed.stop()
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
