"""The stream of live events, as server-sent events: operations, and new states of jobs and dataflows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Protocol

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints

from manager.answers import EventAnswer
from manager.cases.base import Caller
from manager.rest.dependencies import StillLetIn, TheCaller
from manager.rest.openapi import OF_EVERY_CALLER, problems
from manager.rest.openapi_examples import resources
from manager.rest.streams.signs_of_life import LONGEST_WAIT, SignsOfLife

EVENT_STREAM_MEDIA_TYPE = "text/event-stream"

router = APIRouter(prefix="/v1", tags=["events"])


class EventBuffer(Protocol):
    """The newest events. Thread-safe."""

    @property
    def last(self) -> int:
        """The number of the newest event."""

    @property
    def closed(self) -> bool:
        """True once nothing more comes."""

    def since(self, event: int) -> Sequence[EventAnswer]:
        """The events after this one that are still kept, oldest first."""

    def wait(self, event: int, timeout: float) -> Sequence[EventAnswer]:
        """Wait for events after this one; none after the timeout, or once the buffer is closed."""


class EventFeed:
    """Events for any number of listeners. One thread waits for all of them."""

    def __init__(self, events: EventBuffer) -> None:
        self._events = events
        self._turn: asyncio.Future[Sequence[EventAnswer]] | None = None

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._events.last

    @property
    def closed(self) -> bool:
        """True once nothing more comes."""
        return self._events.closed

    async def since(self, event: int) -> Sequence[EventAnswer]:
        """The events after this one; waits for a while if there are none."""
        if not (found := self._events.since(event)) and not self._events.closed:
            await asyncio.wait([self._waited(event)])
            found = self._events.since(event)
        return found

    def _waited(self, event: int) -> asyncio.Future[Sequence[EventAnswer]]:
        turn = self._turn
        if turn is None or turn.done() or turn.get_loop() is not asyncio.get_running_loop():
            turn = asyncio.ensure_future(asyncio.to_thread(self._events.wait, event, LONGEST_WAIT))
            self._turn = turn
        return turn


def may_see(caller: Caller, event: EventAnswer) -> bool:
    """True if a caller may see an event: its own operations and dataflows, or anything for an operator.

    >>> from manager.answers import Role
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
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events as they happen, each with `id`, `event`, and an EventAnswer as `data`.",
            "content": {
                EVENT_STREAM_MEDIA_TYPE: {
                    "schema": {"type": "string"},
                    "example": f"data: {resources.EVENT_ANSWER.model_dump_json()}\n\n",
                }
            },
        },
        **problems(*OF_EVERY_CALLER),
    },
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
    after = feed.last if last_event_id is None else int(last_event_id)
    return StreamingResponse(_lines(feed, after, caller, still_let_in), media_type=EVENT_STREAM_MEDIA_TYPE)


async def _lines(feed: EventFeed, after: int, caller: Caller, still_let_in: Callable[[], bool]) -> AsyncIterator[str]:
    signs = SignsOfLife(still_let_in)
    yield ": listening\n\n"
    ends = False
    while not ends:
        # Read before the events, so that the last ones before the end are sent.
        ends = feed.closed
        for event in await feed.since(after):
            after = event.id
            if may_see(caller, event):
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"
        if signs.is_due:
            if not await signs.renew():
                return
            yield ": alive\n\n"
