"""The requests about sources: their events, schemas, visibility and webhooks."""

from secrets import token_hex

from braid_client.answers.base import Page
from braid_client.answers.sources import (
    NewWebhookAnswer,
    ProducerAnswer,
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
from braid_client.request import Document, Request, body_of, get, page_of, path_to, request
from dags.vocabulary import ONE_TIME_PRODUCER


def one_time_producer() -> str:
    """A producer name that is used once."""
    return f"{ONE_TIME_PRODUCER}{token_hex(8)}"


def register_source(form: SourceForm | Document) -> Request[SourceAnswer]:
    """Register a source, given as a form, as data, or as the bytes of a file."""
    return request("POST", SourceAnswer, "sources", body=form)


def propose_source(form: ProposalForm) -> Request[ProposalAnswer]:
    """Listen to a topic for some seconds, and propose a source whose schema takes what came."""
    path, patience = path_to("sources", "propose"), 30.0 + form.seconds
    return Request(method="POST", path=path, answer=ProposalAnswer, body=body_of(form), patience=patience)


def sources() -> Request[Page[SourceAnswer]]:
    """The sources that the caller may read."""
    return page_of(Page[SourceAnswer], "sources")


def source(name: str) -> Request[SourceAnswer]:
    """One source."""
    return get(SourceAnswer, "sources", name)


def send_events(source: str, events: bytes, producer: str | None = None, first: int = 0) -> Request[SentAnswer]:
    """Send events as JSON lines, once even if they have to be sent again; without a producer all are new."""
    headers = {"Content-Type": "application/x-ndjson"}
    path, name = ("sources", source, "events"), producer or one_time_producer()
    return request("POST", SentAnswer, *path, body=events, headers=headers, producer=name, first=first)


def producer(source: str, producer: str) -> Request[ProducerAnswer]:
    """The number of a producer's next event in a source."""
    return get(ProducerAnswer, "sources", source, "producers", producer)


def set_visibility(name: str, form: VisibilityForm) -> Request[Stopped]:
    """Set who may read a source; the answer counts the dataflows that this stopped."""
    return request("PUT", Stopped, "sources", name, "visibility", body=form)


def declare_fields(name: str, form: SchemaForm, *, dry_run: bool = False) -> Request[SchemaAnswer]:
    """Change the schema of a source; running dataflows keep the one that they were submitted with."""
    return request("PUT", SchemaAnswer, "sources", name, "schema", body=form, dry_run=dry_run or None)


def revoke_source(name: str) -> Request[Stopped]:
    """Revoke a source; the answer counts the dataflows that this stopped."""
    return request("DELETE", Stopped, "sources", name)


def make_webhook(source: str, form: WebhookForm) -> Request[NewWebhookAnswer]:
    """Make the webhook of a source; its secret is in this answer alone."""
    return request("POST", NewWebhookAnswer, "sources", source, "webhook", body=_set(form))


def rotate_webhook(source: str, form: WebhookRotationForm) -> Request[NewWebhookAnswer]:
    """Give the webhook of a source another secret, which is in this answer alone."""
    return request("POST", NewWebhookAnswer, "sources", source, "webhook", "rotate", body=_set(form))


def webhook(source: str) -> Request[WebhookAnswer]:
    """The webhook of a source."""
    return get(WebhookAnswer, "sources", source, "webhook")


def revoke_webhook(source: str) -> Request[WebhookAnswer]:
    """Take the webhook of a source away."""
    return request("DELETE", WebhookAnswer, "sources", source, "webhook")


def _set(form: WebhookForm | WebhookRotationForm) -> bytes:
    """All that a form has, defaults too, so that those of another release do not change a webhook."""
    return form.model_dump_json(exclude_none=True).encode()
