"""The run of a connector: takes what comes from outside Braid, and appends it to the spool of its source.

Events and the positions after them are appended together. So a client that begins at the positions in the spool takes
no event twice and leaves none out, as far as what it takes from can say where it is. While the spool is full nothing is
taken. After a failure a new client begins at the positions in the spool.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from bridge.formats.decoders import Decoder
from bridge.intake import Expected
from bridge.machine import BackOff, Clock, SystemClock
from bridge.raw_events import Unfit
from bridge.spools.deliveries import InDoubt
from bridge.spools.log import Item, packed
from bridge.spools.spool import Spool, SpoolState
from bridge.wire import Birth
from dags import Kind, Schema
from dags.config import Outside
from dags.message_formats import JSON, MessageFormat

_BEGUN = "connector"
"""The producer under which a spool notes that its connector was connected once."""
_HAS_BEGUN = {_BEGUN: Expected(opened=True)}
_POSITION = "at/"
"""The beginning of the names under which a spool keeps a connector's positions among its producers."""
_WAITING = 1.0
"""Seconds for which a client may wait for events, and after which a full spool is looked at again."""
_GROUPING = 0.1
"""Seconds whose events are grouped into one file, because a file costs more than the events in it."""
_MOST_HALVED = 10
"""How often that is halved while each group is full."""
_BACK_OFF = BackOff.doubling(1.0, longest=60.0)
"""The waits between attempts to connect."""
log = logging.getLogger("braid.host")


class ConnectorTrouble(Exception):
    """What a connector takes from cannot be reached, or refuses it. Says why and what to do, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvents:
    """What came over a connector at once."""

    events: pa.RecordBatch
    """Its events, in the columns of the source's schema; there may be none."""
    unfit: tuple[Unfit, ...] = ()
    positions: Mapping[str, int | None] = field(default_factory=dict)
    """The position after it, in each part of what it comes from that moved on; None for a part to be forgotten."""
    in_doubt: InDoubt | None = None
    """What is in doubt after it, for a client that acknowledges messages one by one."""
    is_full: bool = False
    """Whether more may come only once the client has let go of it; then the next one is not waited for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssignment:
    """What a client is to take, and from where on."""

    stream: str
    """The name of the stream that it is for, which no other has."""
    schema: Schema
    """The declared fields of its events."""
    decode: Decoder
    """What reads messages, as events without the fields that the connector adds."""
    positions: Mapping[str, int]
    """The positions that are kept with the spool; none at first."""
    in_doubt: InDoubt
    outside: Outside
    """What says whether it may connect to a host."""
    format: MessageFormat = JSON
    """The format that `decode` reads."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The kinds of further fields that some readers expect, by which texts are read that are not declared."""
    folder: Path = Path()
    """The folder of the spool, in which a client may keep what is too much for positions; see `file_kinds`."""


class ConnectorClient(Protocol):
    """A connection to what a connector takes from; used by one thread. Any call may raise `ConnectorTrouble`.

    It is made of the connector's record, whose secrets and places are resolved, and an assignment.
    """

    def take(self, seconds: float) -> TakenEvents | None:
        """Return what came since the last call, after waiting at most so long; None if nothing did."""

    def spooled(self) -> None:
        """Let go of what was taken last: it is in the spool."""

    def close(self, *, for_good: bool) -> None:
        """Disconnect; for good if nobody reads the source any more, so that nothing need be kept for it."""


Connecting = Callable[[Mapping[str, int], InDoubt], ConnectorClient]
"""Makes a client from the positions in the spool, and what is in doubt there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The state of a connection to something outside; made by the host, and read by managers as the same record."""

    connected: bool = False
    since: float
    """When it became so, in seconds since 1970."""
    error: str = ""
    """The reason of the last failure, which may be over; empty if there was none."""
    error_at: float | None = None

    def up(self, at: float) -> "LinkState":
        """The state once it is connected.

        >>> LinkState(since=1.0).down("no answer", 2.0).up(3.0)
        LinkState(connected=True, since=3.0, error='no answer', error_at=2.0)
        """
        return self if self.connected else replace(self, connected=True, since=at)

    def down(self, error: str, at: float) -> "LinkState":
        """The state after a failure.

        >>> LinkState(since=1.0).down("no answer", 2.0)
        LinkState(connected=False, since=1.0, error='no answer', error_at=2.0)
        """
        return LinkState(since=at if self.connected else self.since, error=error, error_at=at)


class ConnectorRun:
    """A connector that fills its spool; `run` in a thread."""

    def __init__(  # noqa: PLR0913 - a client, a spool, two listeners, a clock and waits are six things
        self,
        connect: Connecting,
        spool: Spool,
        *,
        on_unfit: Callable[[Unfit], None],
        on_link: Callable[[LinkState], None] = lambda _link: None,
        clock: Clock | None = None,
        back_off: BackOff | None = None,
    ) -> None:
        """`on_link` is called with each new state of the connection, from the thread that runs."""
        self._connect = connect
        self._on_link = on_link
        self._back_off = back_off or _BACK_OFF
        self._spool = spool
        self._on_unfit = on_unfit
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self.leaves = False
        """Whether it stops for good."""
        self._has_left = False
        """Whether a client has closed for good."""
        self._failures = 0
        """Failures in a row, since something came."""
        self._full = 0
        """Full groups in a row."""
        self.link = LinkState(since=self._clock.now())

    @property
    def has_begun(self) -> bool:
        """Whether it was connected once: from then on what comes is not missed, or can be taken later."""
        return _BEGUN in self._spool.producers

    def run(self) -> None:
        """Work until stopped; raises only what its spool does."""
        while not self._stopping.is_set():
            try:
                self._work()
            except ConnectorTrouble as trouble:
                self._note(self.link.down(str(trouble), self._clock.now()))
                self._failures += 1
                self._stopping.wait(self._back_off.after(self._failures))
        if self.leaves and self.has_begun and not self._has_left:
            # It was not connected just then, and what it is connected to may be away for ever.
            with suppress(ConnectorTrouble):
                self._work()

    def stop(self, *, for_good: bool = False) -> None:
        """Let `run` return soon; for good if nobody reads the source any more."""
        self.leaves = self.leaves or for_good
        self._stopping.set()

    def forget(self) -> None:
        """Have the next run begin anew; called once `run` has returned."""
        kept = (name for name in self._spool.producers if name == _BEGUN or name.startswith(_POSITION))
        self._spool.append([], dict.fromkeys(kept))

    def _work(self) -> None:
        """Connect, and take until stopped."""
        with _its_errors():
            client = self._connect(positions_in(self._spool), self._spool.in_doubt)
        try:
            self._note(self.link.up(self._clock.now()))
            while not self._stopping.is_set():
                self._stopping.wait(self._step(client))
        finally:
            for_good = self.leaves
            with _its_errors():
                client.close(for_good=for_good)
            self._has_left = for_good

    def _note(self, link: LinkState) -> None:
        if link != self.link:
            self.link = link
            self._on_link(link)

    def _step(self, client: ConnectorClient) -> float:
        """Take what has come, if there is room; returns the seconds to wait then."""
        if self._spool.state is SpoolState.FULL:
            self._spool.prune()
        if self._spool.state is SpoolState.FULL:
            return _WAITING
        with _its_errors():
            arrived = client.take(_WAITING if self.has_begun else 0.0)
        if arrived is None:
            if not self.has_begun:
                self._spool.append([], _HAS_BEGUN)
            return 0.0
        self._append(arrived)
        with _its_errors():
            client.spooled()
        self._failures = 0
        # Without a bound on what comes at once, half the time brings half as much: the next group is not full.
        self._full = min(self._full + 1, _MOST_HALVED) if arrived.is_full else 0
        return _GROUPING / (1 << self._full)

    def _append(self, arrived: TakenEvents) -> None:
        items = list[Item]()
        if count := len(arrived.events):
            stamp = round(self._clock.now() * 1000)
            items.append(Item(count=count, stamp=stamp, payload=packed(arrived.events), births=(Birth(count, stamp),)))
        after = {
            f"{_POSITION}{name}": None if at is None else Expected(next=at) for name, at in arrived.positions.items()
        }
        # With the positions at which it began, so that it does not begin at later ones after a crash.
        self._spool.append(items, {**_HAS_BEGUN, **after}, arrived.in_doubt)
        # Only now: what cannot be appended is taken again.
        for unfit in arrived.unfit:
            self._on_unfit(unfit)


def positions_in(spool: Spool) -> dict[str, int]:
    """The positions that a connector keeps in a spool; none if it never began."""
    return {
        name.removeprefix(_POSITION): expected.next or 0
        for name, expected in spool.producers.items()
        if name.startswith(_POSITION)
    }


@contextmanager
def _its_errors() -> Iterator[None]:
    """Take whatever a client raises for its trouble, so that it is not taken for one of the spool's."""
    try:
        yield
    except ConnectorTrouble:
        raise
    except Exception as error:
        log.exception("a connector failed")
        raise ConnectorTrouble(f"{type(error).__name__}: {error}") from error
