"""Live samples of an output, as server-sent events."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from manager.event_flow.output_look import OutputLook
from manager.problem import (
    Conflict,
    NotFound,
    QuotaExceeded,
    StateNotReady,
)
from manager.rest.dependencies import StillLetIn, Text, TheCaller, TheId, TheService
from manager.rest.openapi import OF_EVERY_CALLER, problems
from manager.rest.openapi_examples.outputs import SAMPLE
from manager.rest.streams.live_events import EVENT_STREAM_MEDIA_TYPE, EventFeed
from manager.rest.streams.reader_stream import ClosingStreamResponse, read_until_over

_PACE = 0.2
"""Least seconds between two samples."""
router = APIRouter(prefix="/v1", tags=["dataflows"])


@router.get(
    "/dataflows/{id}/outputs/{sink}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Samples of the events that leave from now on, a few a second: `event` is `sample`, and "
            "`data` a SampleAnswer.",
            "content": {
                EVENT_STREAM_MEDIA_TYPE: {
                    "schema": {"type": "string"},
                    "example": f"event: sample\ndata: {SAMPLE.model_dump_json()}\n\n",
                }
            },
        },
        **problems(
            *OF_EVERY_CALLER,
            *(Conflict, NotFound, QuotaExceeded, StateNotReady),
        ),
    },
)
async def watch(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    still_let_in: StillLetIn,
    sink: Annotated[Text, Path(description="The task that is the output.")],
) -> StreamingResponse:
    """Watch an output: samples of its events from now on, and how many others there are. Its topic has them all."""
    feed: EventFeed = request.app.state.feed
    stack = ExitStack()
    look = await asyncio.to_thread(lambda: stack.enter_context(service.dataflows.look(caller, id, sink)))
    stream = read_until_over(
        look,
        lambda: _pieces(look),
        ends=lambda: feed.closed,
        still_let_in=still_let_in,
        greeting=": watching\n\n",
        sign=": alive\n\n",
        pace=_PACE,
    )
    return ClosingStreamResponse(stream, stack, media_type=EVENT_STREAM_MEDIA_TYPE)


def _pieces(look: OutputLook) -> Iterator[str]:
    if (sample := look.take()) is not None:
        yield f"event: sample\ndata: {sample.model_dump_json()}\n\n"
