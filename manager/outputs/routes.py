"""Routes of outputs: samples as server-sent events, all events as JSON lines, and dead letters."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from braid_client.answers.base import Page
from braid_client.answers.dataflows import OutputEvent, SampleAnswer
from braid_client.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from manager.outputs.readers import OutputLook, OutputReader, Tail
from manager.problem import Conflict, Forbidden, NotFound, QuotaExceeded, StateNotReady
from manager.rest.dependencies import (
    ById,
    DataflowAskedFor,
    OnlyOfDataflow,
    StillLetIn,
    Text,
    TheCaller,
    TheDataflow,
    TheNumberedPage,
    TheService,
)
from manager.rest.examples import example
from manager.rest.openapi import documented, streamed
from manager.rest.streams import EVENT_STREAM_MEDIA_TYPE, LONGEST_WAIT, EventFeed, SignsOfLife

router = APIRouter(prefix="/v1", tags=["dead letters"])
Alike = Annotated[bool, Query(description="All dead letters of the same task with the same reason, too.")]


@router.get("/dead-letters", **documented())
def dead_letters(
    service: TheService, caller: TheCaller, page: TheNumberedPage, dataflow: OnlyOfDataflow = None
) -> Page[DeadLetterAnswer]:
    """List events that tasks of the caller's dataflows failed on, newest first."""
    return service.dead_letters.page(caller, page, dataflow=dataflow)


@router.get("/dead-letters/groups", **documented())
def dead_letter_groups(
    service: TheService, caller: TheCaller, page: TheNumberedPage, dataflow: OnlyOfDataflow = None
) -> Page[DeadLetterGroupAnswer]:
    """List the same by task and reason: how many, and when the first and the last came; newest first."""
    return service.dead_letters.groups(caller, page, dataflow=dataflow)


@router.post("/dead-letters/replay", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letters(service: TheService, caller: TheCaller, dataflow: DataflowAskedFor) -> Replayed:
    """Send the dead letters of a dataflow to its tasks again, oldest first, each once."""
    return service.dead_letters.replay_all(caller, dataflow)


@router.post("/dead-letters/{id}/replay", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letter(service: TheService, caller: TheCaller, letter: ById, alike: Alike = False) -> Replayed:
    """Send one dead letter to its task again, once. If other tenants share the task, only an operator may."""
    return service.dead_letters.replay(caller, letter, alike=alike)


@router.delete("/dead-letters", **documented(NotFound))
def discard_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: DataflowAskedFor,
) -> Discarded:
    """Discard the dead letters of a dataflow: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard_all(caller, dataflow)


@router.delete("/dead-letters/{id}", **documented(NotFound))
def discard_dead_letter(service: TheService, caller: TheCaller, letter: ById, alike: Alike = False) -> Discarded:
    """Discard one dead letter: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard(caller, letter, alike=alike)


_TROUBLES = (Conflict, NotFound, QuotaExceeded, StateNotReady)
_PACE = 0.2
"""Least seconds between two samples."""
R = TypeVar("R", bound=OutputReader)
outputs_router = APIRouter(prefix="/v1", tags=["dataflows"])


@outputs_router.get(
    "/dataflows/{id}/outputs/{sink}/events",
    **streamed(
        EVENT_STREAM_MEDIA_TYPE,
        "Samples of the events that leave from now on, a few a second: `event` is `sample`, and `data` a SampleAnswer.",
        f"event: sample\ndata: {example(SampleAnswer).model_dump_json()}\n\n",
        *_TROUBLES,
    ),
)
async def watch(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    still_let_in: StillLetIn,
    sink: Annotated[Text, Path(description="The task that is the output.")],
) -> StreamingResponse:
    """Watch an output: samples of its events from now on, and how many others there are. Its topic has them all."""
    return await _stream(
        request,
        lambda: service.dataflows.look(caller, dataflow, sink),
        _sample_pieces,
        still_let_in,
        media_type=EVENT_STREAM_MEDIA_TYPE,
        greeting=": watching\n\n",
        sign=": alive\n\n",
        pace=_PACE,
    )


def _sample_pieces(look: OutputLook) -> Iterator[str]:
    if (sample := look.take()) is not None:
        yield f"event: sample\ndata: {sample.model_dump_json()}\n\n"


class _ClosingStreamResponse(StreamingResponse):
    """A stream whose reader is closed in any case, even if nobody reads the beginning of the answer."""

    def __init__(self, content: AsyncIterator[str], reader: ExitStack, *, media_type: str) -> None:
        super().__init__(content, media_type=media_type)
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and have a thread close the reader, because that waits for the broker."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            asyncio.get_running_loop().run_in_executor(None, self._reader.close)


async def _stream(  # noqa: PLR0913 - each is a part of the stream
    request: Request,
    open_reader: Callable[[], AbstractContextManager[R]],
    pieces: Callable[[R], Iterable[str]],
    still_let_in: Callable[[], bool],
    *,
    media_type: str,
    greeting: str,
    sign: str,
    pace: float = 0.0,
) -> StreamingResponse:
    """Stream the greeting, then the pieces of each news, at least `pace` seconds apart, and signs of life."""
    feed: EventFeed = request.app.state.feed
    stack = ExitStack()
    reader = await asyncio.to_thread(lambda: stack.enter_context(open_reader()))

    async def read_until_over() -> AsyncIterator[str]:
        loop, news, signs = asyncio.get_running_loop(), asyncio.Event(), SignsOfLife(still_let_in)
        reader.on_news(lambda: loop.call_soon_threadsafe(news.set))
        yield greeting
        while not reader.over and not feed.events.closed:
            try:
                await asyncio.wait_for(news.wait(), LONGEST_WAIT)
            except TimeoutError:
                pass
            else:
                news.clear()
                for piece in pieces(reader):
                    yield piece
                    await asyncio.sleep(pace)
            if signs.is_due:
                if not await signs.renew():
                    return
                yield sign

    return _ClosingStreamResponse(read_until_over(), stack, media_type=media_type)


JSON_LINES_MEDIA_TYPE = "application/x-ndjson"
MOST_LAST = 1_000
"""Past events of each sink that a reader may ask for."""
_TOGETHER = 100
"""Most events that are sent in one piece."""


@outputs_router.get(
    "/dataflows/{id}/outputs",
    **streamed(
        JSON_LINES_MEDIA_TYPE,
        "Every event that leaves from now on, as an OutputEvent on a line of its own. An empty line is a sign of life.",
        f"{example(OutputEvent).model_dump_json()}\n",
        *_TROUBLES,
    ),
)
async def outputs(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    still_let_in: StillLetIn,
    sink: Annotated[Text | None, Query(description="Only this sink.")] = None,
    last: Annotated[
        int,
        Query(ge=0, le=MOST_LAST, description="Begin with this many past events, if the job still has them."),
    ] = 0,
) -> StreamingResponse:
    """Listen to the outputs of a dataflow. Events that a slow reader misses are counted."""
    return await _stream(
        request,
        lambda: service.dataflows.tail(caller, dataflow, sink, last=last),
        _line_pieces,
        still_let_in,
        media_type=JSON_LINES_MEDIA_TYPE,
        # So that the reader knows that it is connected.
        greeting="\n",
        sign="\n",
    )


def _line_pieces(tail: Tail) -> Iterator[str]:
    # Escaped, because events may hold halves of characters.
    lines = (f"{json.dumps(event.model_dump(), separators=(',', ':'))}\n" for event in tail.take())
    while piece := "".join(islice(lines, _TOGETHER)):
        yield piece
