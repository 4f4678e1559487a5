"""Routes of events that callers send to sources."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from manager.answers import ProducerAnswer, ProducerName, SentAnswer
from manager.problem import (
    Conflict,
    Forbidden,
    NotFound,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
)
from manager.rest.bodies import SentEvents, events
from manager.rest.dependencies import Named, TheCaller, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import outputs as examples

router = APIRouter(prefix="/v1", tags=["sources"])
_TROUBLES = (Conflict, Forbidden, NotFound, NotTaken, QuotaExceeded, StateNotReady)
_EVENTS = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": examples.EVENT_LINES},
            "application/json": {
                "schema": {"type": "array", "items": {"type": "object"}},
                "example": examples.SENT_EVENTS,
            },
        },
    }
}


@router.post(
    "/sources/{name}/events",
    **documented(examples.SENT, *_TROUBLES, TooLarge, UnsupportedMediaType),
    openapi_extra=_EVENTS,
)
def send_events(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[SentEvents, Depends(events)],
    producer: Annotated[
        ProducerName | None,
        Query(description="A name for this numbering. Numbers that it has sent before are ignored."),
    ] = None,
    first: Annotated[int | None, Query(ge=0, lt=2**62, description="The number of the first event, from 0.")] = None,
) -> SentAnswer:
    """Send events to a source. Answered once they are in its spool. If one does not fit, none is taken."""
    return service.source_events.send(caller, name, sent.body, as_lines=sent.as_lines, producer=producer, first=first)


@router.get("/sources/{name}/producers/{producer}", **documented(examples.PRODUCER, *_TROUBLES))
def producer(
    service: TheService,
    caller: TheCaller,
    name: Named,
    producer: Annotated[ProducerName, Path(description="The name of the numbering.")],
) -> ProducerAnswer:
    """Show the number that comes next from a producer."""
    return service.source_events.producer(caller, name, producer)
