"""Webhooks of sources: made, rotated and revoked by their owners, and what services post to them.

A service that posts to a webhook has no API key. It signs what it sends with the secret of the webhook, which is kept
encrypted by the key of the vault. Its path holds a token that nobody guesses. An unknown token and a wrong signature
are refused by the same answer.

**A delivery adds its events once.** Its id makes it a producer of the source for one use, so that a spool which has its
events takes no more of them, even if nobody was told so. A spool remembers few of these. So the ids are noted once the
spool has the events, and what is noted is not sent again.
"""

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import bindparam, delete, select
from sqlmodel import Session, col

from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import (
    DeliveredAnswer,
    NewWebhookAnswer,
    WebhookAnswer,
    WebhookForm,
    WebhookRotationForm,
    WebhookScheme,
)
from braid_client.answers.tenants import Role
from dags.vocabulary import ONE_TIME_PRODUCER
from engine.outside import NoSecret, Vault
from manager.problem import Conflict, NotFound, StateNotReady, Unauthenticated, invalid
from manager.sources.signatures import SCHEMES, accepted_delivery
from manager.sources.use_cases import SourceEvents, forget_webhook, owned_source
from manager.store.tables import SourceRow, TenantRow, WebhookDeliveryRow, WebhookRow
from manager.use_case import Base, Caller, Tools, moment

HOOKS = "/v1/hooks/"
MOST_DELIVERIES = 10_000
"""Deliveries of a webhook that are remembered: those that came last."""
_FORGET_EVERY = 100
"""Older ones are forgotten once in so many deliveries."""
_TOKEN_BYTES = 24
_HOUR = 3600.0
_WITH_HEADERS = (WebhookScheme.HEX, WebhookScheme.BASE64)
_UNKNOWN = "no webhook has this path and this signature; correct the URL, the secret or the scheme at the service"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """What a service has posted to a webhook, with the right signature; made by `Webhooks.verified`."""

    caller: Caller
    """The owner of the source, for whom the service acts."""
    source: str
    token: str
    id: str | None
    """The digest of its id; None if it has none, and is new whenever it comes."""


class Webhooks(Base):
    """The webhooks of sources."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._events = SourceEvents(tools)
        self._taken = count(1)

    def make(self, caller: Caller, name: str, form: WebhookForm, *, base: str) -> NewWebhookAnswer:
        """Make the webhook of a source; `base` is the URL at which the service is reached."""
        _check(form)
        source = self._owned(caller, name)
        secret = form.secret or SCHEMES[form.scheme].secret()
        row = WebhookRow(
            token=secrets.token_urlsafe(_TOKEN_BYTES),
            source=source,
            form=form.model_dump(mode="json", exclude={"secret"}),
            secret=self._vault.sealed(secret),
            made=time.time(),
        )
        with self._noted(OperationKind.MAKE_WEBHOOK, caller, source) as session:
            # It may have been revoked meanwhile.
            if session.scalar(select(SourceRow).where(col(SourceRow.name) == source)) is None:
                raise NotFound("source", name)
            if session.scalar(_WEBHOOK, {"source": source}) is not None:
                raise Conflict(f"{source!r} has a webhook already; rotate its secret, or revoke it first")
            session.add(row)
        return NewWebhookAnswer(**_answer(row, base), secret=secret)

    def rotate(self, caller: Caller, name: str, form: WebhookRotationForm, *, base: str) -> NewWebhookAnswer:
        """Give the webhook of a source another secret."""
        source = self._owned(caller, name)
        with self._noted(OperationKind.ROTATE_WEBHOOK, caller, source) as session:
            row = _webhook(session, source)
            secret = form.secret or SCHEMES[_form(row).scheme].secret()
            keeps = form.former_hours > 0
            row.former = row.secret if keeps else None
            row.former_until = time.time() + form.former_hours * _HOUR if keeps else None
            row.secret = self._vault.sealed(secret)
            session.add(row)
        return NewWebhookAnswer(**_answer(row, base), secret=secret)

    def get(self, caller: Caller, name: str, *, base: str) -> WebhookAnswer:
        """The webhook of a source, without its secret."""
        source = self._owned(caller, name)
        with self._store.read() as session:
            return WebhookAnswer(**_answer(_webhook(session, source), base))

    def revoke(self, caller: Caller, name: str, *, base: str) -> WebhookAnswer:
        """Take the webhook of a source away."""
        source = self._owned(caller, name)
        with self._noted(OperationKind.REVOKE_WEBHOOK, caller, source) as session:
            answer = WebhookAnswer(**_answer(_webhook(session, source), base))
            forget_webhook(session, source)
        return answer

    def check_known(self, token: str) -> None:
        """Refuse a token that no webhook has."""
        with self._store.read() as session:
            if session.get(WebhookRow, token) is None:
                raise Unauthenticated(_UNKNOWN)

    def verified(self, token: str, headers: Mapping[str, str], body: bytes) -> WebhookDelivery:
        """A delivery that is signed by the secret of a webhook; `Unauthenticated` if it is not."""
        now = time.time()
        with self._store.read() as session:
            known = session.execute(_WITH_OWNER, {"token": token}).one_or_none()
        if known is None:
            raise Unauthenticated(_UNKNOWN)
        row: WebhookRow = known[0]
        sealed = [row.secret, *([row.former] if row.former and now < (row.former_until or 0.0) else [])]
        try:
            valid = [self._vault.unsealed(secret) for secret in sealed]
        except NoSecret:
            raise StateNotReady(f"the secret of the webhook of {row.source!r} cannot be read; rotate it") from None
        if (delivery := accepted_delivery(_form(row), valid, headers, body, now)) is None:
            raise Unauthenticated(_UNKNOWN)
        return WebhookDelivery(
            caller=Caller(key=HOOKS, role=Role.TENANT, tenant=known.owner, requests_per_minute=known.most_requests),
            source=row.source,
            token=token,
            id=None if delivery.id is None else hashlib.sha256(token.encode() + delivery.id).hexdigest(),
        )

    def take(self, delivery: WebhookDelivery, body: bytes, *, media_type: str) -> DeliveredAnswer:
        """Have the events of a delivery lie in the spool of its source, once if it has an id."""
        repeated = delivery.id is not None and self._is_noted(delivery.token, delivery.id)
        if not repeated:
            named, first = (None, None) if delivery.id is None else (f"{ONE_TIME_PRODUCER}hook-{delivery.id}", 0)
            self._events.send(
                delivery.caller, delivery.source, body, media_type=media_type, producer=named, first=first
            )
            if delivery.id is not None:
                self._note_delivery(delivery.token, delivery.id)
        return DeliveredAnswer(source=delivery.source, repeated=repeated)

    def _is_noted(self, token: str, delivery: str) -> bool:
        with self._store.read() as session:
            return session.get(WebhookDeliveryRow, (token, delivery)) is not None

    def _note_delivery(self, token: str, delivery: str) -> None:
        at = col(WebhookDeliveryRow.at)
        with self._store.write() as session:
            # The same may have come twice at once, and the webhook may have been revoked.
            if session.get(WebhookRow, token) is not None:
                session.merge(WebhookDeliveryRow(token=token, delivery=delivery, at=time.time()))
            if next(self._taken) % _FORGET_EVERY == 0:
                own = col(WebhookDeliveryRow.token) == token
                newest = select(at).where(own).order_by(at.desc()).offset(MOST_DELIVERIES).limit(1)
                if (oldest := session.scalar(newest)) is not None:
                    session.execute(delete(WebhookDeliveryRow).where(own, at <= oldest))

    def _owned(self, caller: Caller, name: str) -> str:
        """The full name of a source that the caller owns, and that may have a webhook."""
        source = owned_source(self._committer, caller, name)
        with self._committer.looking() as state:
            if state.sources[source].topic is None:
                raise Conflict(f"the events of {source!r} are generated, so it takes no others, and has no webhook")
        return source

    @property
    def _vault(self) -> Vault:
        if (vault := self._tools.vault) is None:
            raise StateNotReady("this manager has no root to keep secrets in; ask one that has")
        return vault


_WITH_OWNER: Any = (
    select(WebhookRow, col(SourceRow.owner), col(TenantRow.requests_per_minute).label("most_requests"))
    .join(SourceRow, col(SourceRow.name) == col(WebhookRow.source))
    .join(TenantRow, col(TenantRow.name) == col(SourceRow.owner))
    .where(col(WebhookRow.token) == bindparam("token"))
)
_WEBHOOK = select(WebhookRow).where(col(WebhookRow.source) == bindparam("source"))


def _webhook(session: Session, source: str) -> WebhookRow:
    row: WebhookRow | None = session.scalar(_WEBHOOK, {"source": source})
    if row is None:
        raise NotFound("webhook of the source", source)
    return row


def _form(row: WebhookRow) -> WebhookForm:
    return WebhookForm.model_validate(row.form, strict=False)


def _check(form: WebhookForm) -> None:
    """Refuse headers that the scheme does not have, or lacks."""
    named = form.header is not None or form.delivery is not None or form.prefix != ""
    if form.scheme in _WITH_HEADERS and form.header is None:
        raise invalid("/header", "missing", f"the scheme {form.scheme} names no header", "name that of the signature")
    if form.scheme not in _WITH_HEADERS and named:
        what = next(name for name in ("header", "delivery", "prefix") if getattr(form, name))
        raise invalid(f"/{what}", "fixed-header", f"the scheme {form.scheme} has headers of its own", "leave it out")


def _answer(row: WebhookRow, base: str) -> dict[str, object]:
    form = _form(row)
    until = row.former_until
    return {
        "source": row.source,
        "url": f"{base.rstrip('/')}{HOOKS}{row.token}",
        "scheme": form.scheme,
        "header": form.header,
        "prefix": form.prefix,
        "delivery": form.delivery,
        "made": moment(row.made),
        "former_until": moment(until) if until is not None and time.time() < until else None,
    }
