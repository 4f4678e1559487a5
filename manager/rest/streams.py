"""Streams over REST: signs of life while they are quiet, readers of outputs, and the live events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints

from braid_client.answers.overview import EventAnswer
from manager.kernel.live_events import LiveEvents
from manager.rest.dependencies import StillLetIn, TheCaller
from manager.rest.examples import example
from manager.rest.openapi import streamed
from manager.use_case import Caller

QUIET = 15.0
"""Seconds between two signs of life."""
LONGEST_WAIT = 1.0
"""Seconds that a stream waits for news at most, so that it soon notices that the manager ends."""


class SignsOfLife:
    """When a stream is due to send a sign of life, and whether its caller is still let in."""

    def __init__(self, still_let_in: Callable[[], bool]) -> None:
        self._still_let_in = still_let_in
        self._last = asyncio.get_running_loop().time()

    @property
    def is_due(self) -> bool:
        """Whether the last sign was long ago."""
        return asyncio.get_running_loop().time() - self._last >= QUIET

    async def renew(self) -> bool:
        """Look the caller up again; False if it is no longer let in, so that the stream has to end."""
        if not await asyncio.to_thread(self._still_let_in):
            return False
        self._last = asyncio.get_running_loop().time()
        return True


EVENT_STREAM_MEDIA_TYPE = "text/event-stream"

router = APIRouter(prefix="/v1", tags=["events"])


class EventFeed:
    """Events for any number of listeners. One thread waits for all of them."""

    def __init__(self, events: LiveEvents) -> None:
        self.events = events
        self._turn: asyncio.Future[tuple[EventAnswer, ...]] | None = None

    async def since(self, event: int) -> tuple[EventAnswer, ...]:
        """The events after this one; waits for a while if there are none."""
        if not (events := self.events.since(event)) and not self.events.closed:
            await asyncio.wait([self._waited(event)])
            events = self.events.since(event)
        return events

    def _waited(self, event: int) -> asyncio.Future[tuple[EventAnswer, ...]]:
        turn = self._turn
        if turn is None or turn.done() or turn.get_loop() is not asyncio.get_running_loop():
            turn = asyncio.ensure_future(asyncio.to_thread(self.events.wait, event, LONGEST_WAIT))
            self._turn = turn
        return turn


def may_see(caller: Caller, event: EventAnswer) -> bool:
    """True if a caller may see an event: its own operations and dataflows, or anything for an operator.

    >>> from braid_client.answers.tenants import Role
    >>> ann = Caller(key="k", role=Role.TENANT, tenant="ann")
    >>> events = {"operation": {"who": "ann"}, "dataflow": {"tenant": "bob"}, "job": {"job": "1"}}
    >>> [may_see(ann, EventAnswer(id=1, kind=kind, told=about)) for kind, about in events.items()]
    [True, False, False]
    """
    if caller.tenant is None:
        return True
    whose = {"operation": "who", "dataflow": "tenant"}.get(event.kind)
    return whose is not None and event.told.get(whose) == caller.tenant


@router.get(
    "/events",
    **streamed(
        EVENT_STREAM_MEDIA_TYPE,
        "Events as they happen, each with `id`, `event`, and an EventAnswer as `data`.",
        f"data: {example(EventAnswer).model_dump_json()}\n\n",
    ),
)
async def events(
    request: Request,
    caller: TheCaller,
    still_let_in: StillLetIn,
    last_event_id: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")] | None,
        Header(
            alias="Last-Event-ID", description="The last event that was received. Without it the stream begins now."
        ),
    ] = None,
) -> StreamingResponse:
    """Listen to live events: operations, and new states of jobs and dataflows. A tenant sees only its own."""
    feed: EventFeed = request.app.state.feed
    after = feed.events.last if last_event_id is None else int(last_event_id)
    return StreamingResponse(_lines(feed, after, caller, still_let_in), media_type=EVENT_STREAM_MEDIA_TYPE)


async def _lines(feed: EventFeed, after: int, caller: Caller, still_let_in: Callable[[], bool]) -> AsyncIterator[str]:
    signs = SignsOfLife(still_let_in)
    yield ": listening\n\n"
    ends = False
    while not ends:
        # Read before the events, so that the last ones before the end are sent.
        ends = feed.events.closed
        for event in await feed.since(after):
            after = event.id
            if may_see(caller, event):
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"
        if signs.is_due:
            if not await signs.renew():
                return
            yield ": alive\n\n"
