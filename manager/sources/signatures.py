"""The signatures of webhooks: what services sign, in which headers, and whether it is right. Decided purely.

All sign by HMAC-SHA256. They differ in what they put before the body, in the headers, and in how bytes are written.
A scheme reads the headers into a claim, and the claim is checked in the same way for all of them: with every secret
that counts, in a time that says nothing about these, and not if it is older than the tolerance.

A repeated delivery is known by its id. Where a service sends none, but signs the time, all that is signed is one: the
same with the same time is a replay, as a service that tries again signs anew.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid_client.answers.sources import WebhookForm, WebhookScheme

TOLERANCE = 300.0
"""The most seconds between the time that was signed and now."""
_MOST_SIGNATURES = 8
"""The signatures of one delivery that are looked at. While a secret is rotated, a service sends two."""
_STANDARD_PREFIX = "whsec_"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureClaim:
    """What the headers of a delivery claim."""

    signatures: Sequence[bytes]
    """One of these has to be right."""
    before: bytes = b""
    """What is signed before the body."""
    at: int | None = None
    """The time that is signed, in seconds since 1970."""
    delivery: str | None = None
    """The id of the delivery."""


Headers = Mapping[str, str]
"""Headers whose names are found in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningScheme:
    """How a kind of service signs."""

    claim: Callable[[Headers, WebhookForm], SignatureClaim]
    """Raises `ValueError` or `KeyError` if the headers have no such signature."""
    key: Callable[[str], bytes] = str.encode
    """The key that a secret stands for."""
    secret: Callable[[], str] = lambda: secrets.token_hex(_KEY_BYTES)
    """Makes a secret."""


class AcceptedDelivery(NamedTuple):
    """A delivery whose signature is right."""

    id: bytes | None
    """What tells it from others; None if nothing does."""


def accepted_delivery(
    form: WebhookForm, valid: Iterable[str], headers: Headers, body: bytes, now: float
) -> AcceptedDelivery | None:
    """A delivery that one of the valid secrets has signed, and that is not too old; else None.

    >>> form = WebhookForm(scheme="hex", header="X-Signature")
    >>> signature = hmac.digest(b"a secret of ann's", b"{}", "sha256").hex()
    >>> accepted_delivery(form, ["a secret of ann's"], {"X-Signature": signature}, b"{}", 0.0)
    AcceptedDelivery(id=None)
    >>> accepted_delivery(form, ["a secret of bob's"], {"X-Signature": signature}, b"{}", 0.0)
    """
    scheme = SCHEMES[form.scheme]
    try:
        claim = scheme.claim(headers, form)
    except (KeyError, ValueError):
        claim = _NOTHING
    right = [hmac.digest(scheme.key(secret), claim.before + body, hashlib.sha256) for secret in valid]
    # All are compared, whichever is right.
    matches = [hmac.compare_digest(one, other) for one in right for other in claim.signatures[:_MOST_SIGNATURES]]
    is_timely = claim.at is None or abs(now - claim.at) <= TOLERANCE
    if not (any(matches) and is_timely):
        return None
    if claim.delivery is not None:
        return AcceptedDelivery(claim.delivery.encode())
    return AcceptedDelivery(None if claim.at is None else claim.before + body)


_NOTHING = SignatureClaim(signatures=())


def _standard(headers: Headers, _form: WebhookForm) -> SignatureClaim:
    delivery, at = headers["webhook-id"], headers["webhook-timestamp"]
    versions = (signature.partition(",") for signature in headers["webhook-signature"].split(" "))
    return SignatureClaim(
        signatures=[_from_base64(value) for version, _, value in versions if version == "v1"],
        before=f"{delivery}.{at}.".encode(),
        at=_seconds(at),
        delivery=delivery,
    )


def _standard_key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True)
    except ValueError:
        # Some senders take any text.
        return secret.encode()


def _standard_secret() -> str:
    return f"{_STANDARD_PREFIX}{base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}"


def _github(headers: Headers, _form: WebhookForm) -> SignatureClaim:
    return SignatureClaim(
        signatures=[bytes.fromhex(_after("sha256=", headers["x-hub-signature-256"]))],
        delivery=headers.get("x-github-delivery"),
    )


def _stripe(headers: Headers, _form: WebhookForm) -> SignatureClaim:
    named = [part.strip().partition("=") for part in headers["stripe-signature"].split(",")]
    (at,) = (value for name, _, value in named if name == "t")
    signatures = [value for name, _, value in named if name == "v1"]
    return SignatureClaim(
        signatures=[bytes.fromhex(value) for value in signatures],
        before=f"{at}.".encode(),
        at=_seconds(at),
    )


def _plain(read: Callable[[str], bytes]) -> Callable[[Headers, WebhookForm], SignatureClaim]:
    def claim(headers: Headers, form: WebhookForm) -> SignatureClaim:
        return SignatureClaim(
            signatures=[read(_after(form.prefix, headers[form.header or ""]))],
            delivery=headers.get(form.delivery) if form.delivery else None,
        )

    return claim


def _after(prefix: str, text: str) -> str:
    if not text.startswith(prefix):
        raise ValueError("the header has another form")
    return text.removeprefix(prefix)


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise ValueError("it is not a time")
    return int(text)


_DIGITS = 15
_HEX, _BASE64 = _plain(bytes.fromhex), _plain(_from_base64)
SCHEMES: Mapping[WebhookScheme, SigningScheme] = {
    WebhookScheme.STANDARD: SigningScheme(claim=_standard, key=_standard_key, secret=_standard_secret),
    WebhookScheme.GITHUB: SigningScheme(claim=_github),
    WebhookScheme.STRIPE: SigningScheme(claim=_stripe),
    WebhookScheme.HEX: SigningScheme(claim=_HEX),
    WebhookScheme.BASE64: SigningScheme(claim=_BASE64),
}
