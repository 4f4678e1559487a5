"""Routes of sources: register, list, show, open to others, revoke; and of events that callers send to them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from dags.message_formats import MEDIA_TYPES
from manager.answers.base import Page
from manager.answers.sources import (
    ProducerAnswer,
    ProducerName,
    ProposalAnswer,
    ProposalForm,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    VisibilityForm,
)
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
from manager.rest.dependencies import DryRun, Named, SentEvents, TheCaller, ThePage, TheService, events, form
from manager.rest.examples import EVENT_LINES, EVENT_ROWS, SENT_EVENTS
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1", tags=["sources"])


@router.post(
    "/sources",
    **documented(
        Conflict,
        Forbidden,
        NotFound,
        StateNotReady,
        body=SourceForm,
        status=201,
        leads_to={"name": ("source", "set_visibility", "revoke_source")},
    ),
)
def register_source(
    service: TheService, caller: TheCaller, sent: Annotated[SourceForm, Depends(form(SourceForm))], response: Response
) -> SourceAnswer:
    """Register a source. Documents refer to it by its name."""
    answer = service.sources.register(caller, sent)
    response.headers["Location"] = f"/v1/sources/{answer.name}"
    return answer


@router.post("/sources/propose", **documented(Forbidden, QuotaExceeded, StateNotReady, body=ProposalForm, status=200))
def propose_source(
    service: TheService, caller: TheCaller, sent: Annotated[ProposalForm, Depends(form(ProposalForm))]
) -> ProposalAnswer:
    """Listen to a topic, and propose a source whose schema takes what came. Nothing is registered.

    A tenant listens only below its own name, or on the topics of its sources.
    """
    return service.sources.propose(caller, sent)


@router.get("/sources", **documented(StateNotReady))
def sources(service: TheService, caller: TheCaller, page: ThePage) -> Page[SourceAnswer]:
    """List the sources that the caller may read, by name."""
    return service.sources.page(caller, page)


@router.get("/sources/{name}", **documented(NotFound, StateNotReady))
def source(service: TheService, caller: TheCaller, name: Named) -> SourceAnswer:
    """Show a source."""
    return service.sources.get(caller, name)


@router.put("/sources/{name}/visibility", **documented(Forbidden, NotFound, StateNotReady, body=VisibilityForm))
def set_visibility(
    service: TheService, caller: TheCaller, name: Named, sent: Annotated[VisibilityForm, Depends(form(VisibilityForm))]
) -> Stopped:
    """Set who may read a source. Dataflows of tenants that no longer may are removed."""
    return service.sources.set_visibility(caller, name, sent)


@router.put("/sources/{name}/schema", **documented(Conflict, Forbidden, NotFound, StateNotReady, body=SchemaForm))
def declare_fields(
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[SchemaForm, Depends(form(SchemaForm))],
    dry_run: DryRun = False,
) -> SchemaAnswer:
    """Change the schema of a source. Running dataflows keep the one that they were submitted with."""
    return service.sources.declare(caller, name, sent, dry_run=dry_run)


@router.delete("/sources/{name}", **documented(Forbidden, NotFound, StateNotReady))
def revoke_source(service: TheService, caller: TheCaller, name: Named) -> Stopped:
    """Remove a source, and every dataflow that reads it."""
    return service.sources.revoke(caller, name)


events_router = APIRouter(prefix="/v1", tags=["sources"])
_TROUBLES = (Conflict, Forbidden, NotFound, NotTaken, QuotaExceeded, StateNotReady)
_EVENTS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": EVENT_LINES},
            "application/json": {
                "schema": {"type": "array", "items": {"type": "object"}},
                "example": SENT_EVENTS,
            },
            "text/csv": {"schema": {"type": "string"}, "example": EVENT_ROWS},
        },
    }
}
# All others are binary, or need a source of their format.
_EVENTS["requestBody"]["content"] |= {
    media_type: {"schema": {"type": "string", "format": "binary"}}
    for media_type in MEDIA_TYPES
    if media_type not in _EVENTS["requestBody"]["content"]
}


@events_router.post(
    "/sources/{name}/events",
    **documented(*_TROUBLES, TooLarge, UnsupportedMediaType),
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
    """Send events to a source. Answered once they are in its spool. If one does not fit, none is taken.

    JSON and JSON lines are always taken; other content types if the source's format is theirs. The body may be
    compressed, with `Content-Encoding: gzip`.
    """
    return service.source_events.send(
        caller, name, sent.body, media_type=sent.media_type, producer=producer, first=first
    )


@events_router.get("/sources/{name}/producers/{producer}", **documented(*_TROUBLES))
def producer(
    service: TheService,
    caller: TheCaller,
    name: Named,
    producer: Annotated[ProducerName, Path(description="The name of the numbering.")],
) -> ProducerAnswer:
    """Show the number that comes next from a producer."""
    return service.source_events.producer(caller, name, producer)
