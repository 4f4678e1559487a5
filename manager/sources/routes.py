"""Routes of sources: register, list, show, open to others, revoke; of events that callers send, and of webhooks."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import create_model

from braid_client.answers.base import Page
from braid_client.answers.sources import (
    DeliveredAnswer,
    NewWebhookAnswer,
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
    WebhookAnswer,
    WebhookForm,
    WebhookRotationForm,
)
from dags.message_formats import MEDIA_TYPES
from manager.kernel.registered_sources import InstalledConnection
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
from manager.rest.bodies import SentEvents, events, form, opened_events, signed_events
from manager.rest.dependencies import DryRun, Named, Text, TheCaller, ThePage, TheService, counted, looked_up
from manager.rest.examples import EVENT_LINES, EVENT_ROWS, SENT_EVENTS
from manager.rest.openapi import documented
from manager.sources.webhooks import WebhookDelivery

SOURCE_FORM: type[SourceForm] = create_model(
    SourceForm.__name__, __base__=SourceForm, __doc__=SourceForm.__doc__, connection=(InstalledConnection, ...)
)
"""The form with the connections of all packages that are installed here."""
router = APIRouter(prefix="/v1", tags=["sources"])


@router.post(
    "/sources",
    **documented(
        Conflict,
        Forbidden,
        NotFound,
        QuotaExceeded,
        StateNotReady,
        body=SOURCE_FORM,
        status=201,
        leads_to={"name": ("source", "set_visibility", "revoke_source")},
    ),
)
def register_source(
    service: TheService, caller: TheCaller, sent: Annotated[SourceForm, Depends(form(SOURCE_FORM))], response: Response
) -> SourceAnswer:
    """Register a source. Documents refer to it by its name."""
    answer = service.sources.register(caller, sent)
    response.headers["Location"] = f"/v1/sources/{answer.name}"
    return answer


@router.post(
    "/sources/propose",
    **documented(Forbidden, QuotaExceeded, StateNotReady, body=ProposalForm, status=200, only_looks=True),
)
def propose_source(
    service: TheService, caller: TheCaller, sent: Annotated[ProposalForm, Depends(form(ProposalForm))]
) -> ProposalAnswer:
    """Listen to a topic, and propose a source whose schema takes what came. Nothing is registered.

    A tenant listens only below its own name, or on the topics of its sources. With messages in the request, nothing is
    listened to.
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


webhooks_router = APIRouter(prefix="/v1", tags=["sources"])


@webhooks_router.post(
    "/sources/{name}/webhook",
    **documented(Conflict, Forbidden, NotFound, StateNotReady, body=WebhookForm, status=201),
)
def make_webhook(
    request: Request,
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[WebhookForm, Depends(form(WebhookForm))],
) -> NewWebhookAnswer:
    """Make a webhook of a source, for services that cannot send an API key. Its secret is shown this once."""
    return service.webhooks.make(caller, name, sent, base=str(request.base_url))


@webhooks_router.post(
    "/sources/{name}/webhook/rotate",
    **documented(Conflict, Forbidden, NotFound, StateNotReady, body=WebhookRotationForm),
)
def rotate_webhook(
    request: Request,
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[WebhookRotationForm, Depends(form(WebhookRotationForm))],
) -> NewWebhookAnswer:
    """Give a webhook another secret, which is shown this once. The one before counts for a day, or as long as sent."""
    return service.webhooks.rotate(caller, name, sent, base=str(request.base_url))


@webhooks_router.get("/sources/{name}/webhook", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def webhook(request: Request, service: TheService, caller: TheCaller, name: Named) -> WebhookAnswer:
    """Show the webhook of a source, without its secret."""
    return service.webhooks.get(caller, name, base=str(request.base_url))


@webhooks_router.delete("/sources/{name}/webhook", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def revoke_webhook(request: Request, service: TheService, caller: TheCaller, name: Named) -> WebhookAnswer:
    """Take the webhook of a source away. Nothing more is taken at its URL."""
    return service.webhooks.revoke(caller, name, base=str(request.base_url))


HookToken = Annotated[Text, Path(description="What the URL of the webhook ends with.")]


# Not async: looking up a webhook blocks, as below.
def _known_hook(request: Request, service: TheService, token: HookToken) -> str:
    """The token of a webhook. Of what is sent to another one nothing is read."""
    looked_up(request, partial(service.webhooks.check_known, token))
    return token


async def _signed(request: Request, token: Annotated[str, Depends(_known_hook)]) -> bytes:  # noqa: ARG001 - it is read only for a known webhook
    return await signed_events(request)


def _verified(
    request: Request, service: TheService, token: HookToken, signed: Annotated[bytes, Depends(_signed)]
) -> tuple[WebhookDelivery, SentEvents]:
    """What a service has posted; refused if it is not signed, and counted as a request of the source's owner."""
    delivery = looked_up(request, partial(service.webhooks.verified, token, request.headers, signed))
    counted(request, delivery.caller)
    return delivery, opened_events(request, signed)


@webhooks_router.post(
    "/hooks/{token}",
    **documented(*(Conflict, NotTaken, QuotaExceeded, StateNotReady, TooLarge, UnsupportedMediaType), by_token=False),
    openapi_extra=_EVENTS,
)
def deliver(
    service: TheService, sent: Annotated[tuple[WebhookDelivery, SentEvents], Depends(_verified)]
) -> DeliveredAnswer:
    """Take what a service posts to a webhook. Answered once the events are in the spool of the source.

    It needs no API key, but the signature that the webhook asks for. A delivery whose id has come before adds nothing.
    Bodies are those of `/v1/sources/{name}/events`.
    """
    delivery, posted = sent
    return service.webhooks.take(delivery, posted.body, media_type=posted.media_type)
