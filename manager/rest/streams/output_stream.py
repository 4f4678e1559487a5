"""The live stream of all events of the outputs of a dataflow, as JSON lines."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from manager.event_flow.tail import Tail
from manager.problem import (
    Conflict,
    NotFound,
    QuotaExceeded,
    StateNotReady,
)
from manager.rest.dependencies import StillLetIn, Text, TheCaller, TheId, TheService
from manager.rest.openapi import OF_EVERY_CALLER, problems
from manager.rest.openapi_examples.outputs import OUTPUT_EVENT
from manager.rest.streams.live_events import EventFeed
from manager.rest.streams.reader_stream import ClosingStreamResponse, read_until_over

JSON_LINES_MEDIA_TYPE = "application/x-ndjson"
MOST_LAST = 1_000
"""Past events of each sink that a reader may ask for."""
_TOGETHER = 100
"""Most events that are sent in one piece."""

router = APIRouter(prefix="/v1", tags=["dataflows"])


@router.get(
    "/dataflows/{id}/outputs",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Every event that leaves from now on, as an OutputEvent on a line of its own. An empty "
            "line is a sign of life.",
            "content": {
                JSON_LINES_MEDIA_TYPE: {"schema": {"type": "string"}, "example": f"{OUTPUT_EVENT.model_dump_json()}\n"}
            },
        },
        **problems(
            *OF_EVERY_CALLER,
            *(Conflict, NotFound, QuotaExceeded, StateNotReady),
        ),
    },
)
async def outputs(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    still_let_in: StillLetIn,
    sink: Annotated[Text | None, Query(description="Only this sink.")] = None,
    last: Annotated[
        int,
        Query(ge=0, le=MOST_LAST, description="Begin with this many past events, if the job still has them."),
    ] = 0,
) -> StreamingResponse:
    """Listen to the outputs of a dataflow. Events that a slow reader misses are counted."""
    feed: EventFeed = request.app.state.feed
    stack = ExitStack()
    tail = await asyncio.to_thread(lambda: stack.enter_context(service.dataflows.tail(caller, id, sink, last=last)))
    stream = read_until_over(
        tail,
        lambda: _pieces(tail),
        ends=lambda: feed.closed,
        still_let_in=still_let_in,
        # So that the reader knows that it is connected.
        greeting="\n",
        sign="\n",
    )
    return ClosingStreamResponse(stream, stack, media_type=JSON_LINES_MEDIA_TYPE)


def _pieces(tail: Tail) -> Iterator[str]:
    lines: list[str] = []
    for event in tail.take():
        # Escaped, because events may hold halves of characters.
        lines.append(f"{json.dumps(event.model_dump(), separators=(',', ':'))}\n")
        if len(lines) >= _TOGETHER:
            yield "".join(lines)
            lines = []
    if lines:
        yield "".join(lines)
