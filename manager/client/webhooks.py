"""Requests about the webhooks of sources, as in `manager.client.requests`."""

from manager.answers.sources import NewWebhookAnswer, WebhookAnswer, WebhookForm, WebhookRotationForm
from manager.client.errors import Request, path_to


def make_webhook(source: str, form: WebhookForm) -> Request[NewWebhookAnswer]:
    """Make the webhook of a source; its secret is in this answer alone."""
    path = path_to("sources", source, "webhook")
    return Request(method="POST", path=path, answer=NewWebhookAnswer, body=_body(form))


def rotate_webhook(source: str, form: WebhookRotationForm) -> Request[NewWebhookAnswer]:
    """Give the webhook of a source another secret, which is in this answer alone."""
    path = path_to("sources", source, "webhook", "rotate")
    return Request(method="POST", path=path, answer=NewWebhookAnswer, body=_body(form))


def webhook(source: str) -> Request[WebhookAnswer]:
    """The webhook of a source."""
    return Request(method="GET", path=path_to("sources", source, "webhook"), answer=WebhookAnswer)


def revoke_webhook(source: str) -> Request[WebhookAnswer]:
    """Take the webhook of a source away."""
    return Request(method="DELETE", path=path_to("sources", source, "webhook"), answer=WebhookAnswer)


def _body(form: WebhookForm | WebhookRotationForm) -> bytes:
    return form.model_dump_json(exclude_none=True).encode()
