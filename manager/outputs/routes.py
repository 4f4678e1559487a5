"""Routes of outputs: samples as server-sent events, all events as JSON lines, and dead letters."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse

from manager.answers.base import Page
from manager.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from manager.outputs.readers import OutputLook, Tail
from manager.problem import (
    Conflict,
    Forbidden,
    NotFound,
    QuotaExceeded,
    StateNotReady,
)
from manager.rest import examples
from manager.rest.dependencies import StillLetIn, Text, TheCaller, TheId, ThePage, TheService
from manager.rest.examples import OUTPUT_EVENT, SAMPLE
from manager.rest.openapi import OF_EVERY_CALLER, documented, problems
from manager.rest.streams import EVENT_STREAM_MEDIA_TYPE, ClosingStreamResponse, EventFeed, read_until_over

router = APIRouter(prefix="/v1", tags=["dead letters"])
Alike = Annotated[bool, Query(description="All dead letters of the same task with the same reason, too.")]


@router.get("/dead-letters", **documented(examples.DEAD_LETTER_PAGE))
def dead_letters(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    dataflow: Annotated[Text | None, Query(description="Only those of this dataflow. It may be removed.")] = None,
) -> Page[DeadLetterAnswer]:
    """List events that tasks of the caller's dataflows failed on, newest first."""
    return service.dead_letters.page(caller, page, dataflow=dataflow)


@router.get("/dead-letters/groups", **documented(examples.DEAD_LETTER_GROUP_PAGE))
def dead_letter_groups(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    dataflow: Annotated[Text | None, Query(description="Only those of this dataflow. It may be removed.")] = None,
) -> Page[DeadLetterGroupAnswer]:
    """List the same by task and reason: how many, and when the first and the last came; newest first."""
    return service.dead_letters.groups(caller, page, dataflow=dataflow)


@router.post("/dead-letters/replay", **documented(examples.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="The dataflow.")],
) -> Replayed:
    """Send the dead letters of a dataflow to its tasks again, oldest first, each once."""
    return service.dead_letters.replay_all(caller, dataflow)


@router.post("/dead-letters/{id}/replay", **documented(examples.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letter(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    alike: Alike = False,  # noqa: FBT002 - a query parameter
) -> Replayed:
    """Send one dead letter to its task again, once. If other tenants share the task, only an operator may."""
    return service.dead_letters.replay(caller, id, alike=alike)


@router.delete("/dead-letters", **documented(examples.DISCARDED, NotFound))
def discard_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="The dataflow. It may be removed.")],
) -> Discarded:
    """Discard the dead letters of a dataflow: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard_all(caller, dataflow)


@router.delete("/dead-letters/{id}", **documented(examples.DISCARDED, NotFound))
def discard_dead_letter(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    alike: Alike = False,  # noqa: FBT002 - a query parameter
) -> Discarded:
    """Discard one dead letter: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard(caller, id, alike=alike)


_PACE = 0.2
"""Least seconds between two samples."""
samples_router = APIRouter(prefix="/v1", tags=["dataflows"])


@samples_router.get(
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
        lambda: _sample_pieces(look),
        ends=lambda: feed.closed,
        still_let_in=still_let_in,
        greeting=": watching\n\n",
        sign=": alive\n\n",
        pace=_PACE,
    )
    return ClosingStreamResponse(stream, stack, media_type=EVENT_STREAM_MEDIA_TYPE)


def _sample_pieces(look: OutputLook) -> Iterator[str]:
    if (sample := look.take()) is not None:
        yield f"event: sample\ndata: {sample.model_dump_json()}\n\n"


JSON_LINES_MEDIA_TYPE = "application/x-ndjson"
MOST_LAST = 1_000
"""Past events of each sink that a reader may ask for."""
_TOGETHER = 100
"""Most events that are sent in one piece."""

stream_router = APIRouter(prefix="/v1", tags=["dataflows"])


@stream_router.get(
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
        lambda: _line_pieces(tail),
        ends=lambda: feed.closed,
        still_let_in=still_let_in,
        # So that the reader knows that it is connected.
        greeting="\n",
        sign="\n",
    )
    return ClosingStreamResponse(stream, stack, media_type=JSON_LINES_MEDIA_TYPE)


def _line_pieces(tail: Tail) -> Iterator[str]:
    lines: list[str] = []
    for event in tail.take():
        # Escaped, because events may hold halves of characters.
        lines.append(f"{json.dumps(event.model_dump(), separators=(',', ':'))}\n")
        if len(lines) >= _TOGETHER:
            yield "".join(lines)
            lines = []
    if lines:
        yield "".join(lines)
