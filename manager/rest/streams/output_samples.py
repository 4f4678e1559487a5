"""The live sample of an output, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from manager.event_flow.output_look import OutputLook
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
from manager.rest.openapi_examples.outputs import SAMPLE
from manager.rest.streams.live_events import EVENT_STREAM_MEDIA_TYPE, QUIET, EventFeed

_PACE = 0.2
"""Seconds between two samples at least."""
_TURN = 1.0
"""Seconds after which it is seen that the manager ends."""

router = APIRouter(prefix="/v1", tags=["dataflows"])


class ClosingStreamResponse(StreamingResponse):
    """A stream whose look is closed whatever becomes of the answer, be it that nobody reads its beginning."""

    def __init__(self, told: AsyncIterator[str], look: ExitStack, *, media_type: str = EVENT_STREAM_MEDIA_TYPE) -> None:
        super().__init__(told, media_type=media_type)
        self._look = look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and have the look closed by a thread, because it waits for the broker."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            asyncio.get_running_loop().run_in_executor(None, self._look.close)


@router.get(
    "/dataflows/{id}/outputs/{sink}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "What leaves from now on, a few times a second some of it: `event` is `sample`, and `data` "
            "a SampleAnswer.",
            "content": {
                EVENT_STREAM_MEDIA_TYPE: {
                    "schema": {"type": "string"},
                    "example": f"event: sample\ndata: {SAMPLE.model_dump_json()}\n\n",
                }
            },
        },
        **problems(
            *(Unauthenticated, InvalidRequest, Unexpected, DatabaseAway),
            *(Conflict, NotFound, QuotaExceeded, StateNotReady),
        ),
    },
)
async def watch(  # noqa: PLR0913, PLR0917 - each is a part of the request
    request: Request,
    service: TheService,
    caller: TheCaller,
    id: Named,  # noqa: A002 - its public name
    still_let_in: StillLetIn,
    sink: Annotated[Text, Path(description="The task whose output it is.")],
) -> StreamingResponse:
    """Watch an output: some of what leaves from now on, and how much else does; its topic has all of it."""
    feed: EventFeed = request.app.state.feed
    stack = ExitStack()
    look = await asyncio.to_thread(lambda: stack.enter_context(service.look(caller, id, sink)))
    return ClosingStreamResponse(_told(look, lambda: feed.closed, still_let_in), stack)


async def _told(look: OutputLook, ends: Callable[[], bool], still_let_in: Callable[[], bool]) -> AsyncIterator[str]:
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    look.on_news(lambda: loop.call_soon_threadsafe(news.set))
    alive = loop.time()
    yield ": watching\n\n"
    while not look.over and not ends():
        try:
            await asyncio.wait_for(news.wait(), _TURN)
        except TimeoutError:
            sample = None
        else:
            news.clear()
            sample = look.take()
        if sample is not None:
            yield f"event: sample\ndata: {sample.model_dump_json()}\n\n"
            await asyncio.sleep(_PACE)
        if loop.time() - alive >= QUIET:
            if not await asyncio.to_thread(still_let_in):
                return
            alive = loop.time()
            yield ": alive\n\n"
