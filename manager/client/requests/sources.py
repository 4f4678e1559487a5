"""The requests about sources and the events that are sent to them."""

from manager.answers import (
    Page,
    ProducerAnswer,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    VisibilityForm,
)
from manager.client.requests.request import Request, form_body, given, list_request, path_to

ONE_TIME_PREFIX = "~"
"""The prefix of a producer name that is used once."""


def register_source(form: SourceForm | bytes) -> Request[SourceAnswer]:
    """Register a source."""
    return Request(method="POST", path="/v1/sources", answer=SourceAnswer, body=form_body(form))


def sources() -> Request[Page[SourceAnswer]]:
    """The sources that the caller may read."""
    return list_request("/v1/sources", Page[SourceAnswer])


def source(name: str) -> Request[SourceAnswer]:
    """One source."""
    return Request(path=path_to("sources", name), answer=SourceAnswer)


def send_events(name: str, events: bytes, *, producer: str, first: int) -> Request[SentAnswer]:
    """Send events as JSON lines. The service takes each number of a producer once."""
    return Request(
        method="POST",
        path=path_to("sources", name, "events"),
        answer=SentAnswer,
        query={"producer": producer, "first": str(first)},
        headers={"Content-Type": "application/x-ndjson"},
        body=events,
    )


def producer(name: str, producer: str) -> Request[ProducerAnswer]:
    """The number of a producer's next event."""
    return Request(path=path_to("sources", name, "producers", producer), answer=ProducerAnswer)


def revoke_source(name: str) -> Request[Stopped]:
    """Revoke a source."""
    return Request(method="DELETE", path=path_to("sources", name), answer=Stopped)


def declare_fields(name: str, form: SchemaForm, *, dry_run: bool = False) -> Request[SchemaAnswer]:
    """Change the schema of a source."""
    return Request(
        method="PUT",
        path=path_to("sources", name, "schema"),
        answer=SchemaAnswer,
        body=form_body(form),
        query=given(dry_run="true" if dry_run else None),
    )


def set_visibility(name: str, form: VisibilityForm) -> Request[Stopped]:
    """Set who may read a source."""
    return Request(method="PUT", path=path_to("sources", name, "visibility"), answer=Stopped, body=form_body(form))
