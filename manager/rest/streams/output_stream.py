"""The live stream of what leaves at the outputs of a dataflow, as JSON lines."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from manager.event_flow.tail import Tail
from manager.problem import (
    Conflict,
    DatabaseAway,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    Unauthenticated,
    Unexpected,
)
from manager.rest.dependencies import Named, StillLetIn, Text, TheCaller, TheService
from manager.rest.openapi import problems
from manager.rest.openapi_examples.outputs import OUTPUT_EVENT
from manager.rest.streams.live_events import QUIET, EventFeed
from manager.rest.streams.output_samples import ClosingStreamResponse

JSON_LINES_MEDIA_TYPE = "application/x-ndjson"
MOST_LAST = 1_000
"""Events that left before, of each sink."""
_TURN = 1.0
"""Seconds after which it is seen that the manager ends."""
_TOGETHER = 100
"""Events that are sent in one piece at most."""

router = APIRouter(prefix="/v1", tags=["dataflows"])


@router.get(
    "/dataflows/{id}/outputs",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Every event that leaves from now on, each an OutputEvent on a line of its own; an empty "
            "line is a sign of life.",
            "content": {
                JSON_LINES_MEDIA_TYPE: {"schema": {"type": "string"}, "example": f"{OUTPUT_EVENT.model_dump_json()}\n"}
            },
        },
        **problems(
            *(Unauthenticated, InvalidRequest, Unexpected, DatabaseAway),
            *(Conflict, NotFound, QuotaExceeded, StateNotReady),
        ),
    },
)
async def outputs(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    id: Named,  # noqa: A002 - its public name
    still_let_in: StillLetIn,
    sink: Annotated[Text | None, Query(description="Of this sink only.")] = None,
    last: Annotated[
        int,
        Query(ge=0, le=MOST_LAST, description="Begin with so many that left before, as far as its job has them still."),
    ] = 0,
) -> StreamingResponse:
    """Listen to the outputs of a dataflow; what is missed because it is read too slowly is counted."""
    feed: EventFeed = request.app.state.feed
    stack = ExitStack()
    tail = await asyncio.to_thread(lambda: stack.enter_context(service.dataflows.tail(caller, id, sink, last=last)))
    return ClosingStreamResponse(
        _told(tail, lambda: feed.closed, still_let_in), stack, media_type=JSON_LINES_MEDIA_TYPE
    )


async def _told(tail: Tail, ends: Callable[[], bool], still_let_in: Callable[[], bool]) -> AsyncIterator[str]:
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    tail.on_news(lambda: loop.call_soon_threadsafe(news.set))
    alive = loop.time()
    # So that whoever listens knows that it does.
    yield "\n"
    while not tail.over and not ends():
        try:
            await asyncio.wait_for(news.wait(), _TURN)
        except TimeoutError:
            pass
        else:
            news.clear()
            lines: list[str] = []
            for event in tail.take():
                # Escaped, because events may hold halves of characters.
                lines.append(f"{json.dumps(event.model_dump(), separators=(',', ':'))}\n")
                if len(lines) >= _TOGETHER:
                    yield "".join(lines)
                    lines = []
            if lines:
                yield "".join(lines)
        if loop.time() - alive >= QUIET:
            if not await asyncio.to_thread(still_let_in):
                return
            alive = loop.time()
            yield "\n"
