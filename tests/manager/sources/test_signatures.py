"""Signatures of webhooks: those that services publish, or their tools make, are right; and no other is."""

import base64
import hmac
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from braid_client.answers.sources import WebhookForm, WebhookScheme
from manager.sources.signatures import SCHEMES, TOLERANCE, accepted_delivery

STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The example of the specification of Standard Webhooks."""
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - published
GITHUB_SECRET = "It's a Secret to Everybody"  # noqa: S105 - published
GITHUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
KNOWN: list[tuple[dict[str, str], str, bytes, dict[str, str], float, bytes | None]] = [
    # the webhook, its secret, the body, the headers, the time, what tells the delivery from others
    (
        {"scheme": "standard"},
        STANDARD_SECRET,
        b'{"test": 2432232314}',
        STANDARD,
        1614265330.0,
        b"msg_p5jXN8AQM9LWM0D4loKWxJek",
    ),
    (
        {"scheme": "github"},
        GITHUB_SECRET,
        b"Hello, World!",
        {"X-Hub-Signature-256": GITHUB, "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
        0.0,
        b"72d3162e-cc78-11e3-81ab-4c9367dc0958",
    ),
    (
        {"scheme": "stripe"},
        "whsec_the-secret-of-ann",
        b'{"id": "evt_1"}',
        {"Stripe-Signature": "t=1492774577,v1=a16a64eb0edeae926833b0706fd52e3ae6efcda470082a8bada01a46686db9f0,v0=00"},
        1492774577.0,
        b'1492774577.{"id": "evt_1"}',
    ),
    (
        # The second test case of RFC 4231.
        {"scheme": "hex", "header": "X-Signature", "prefix": "sha256="},
        "Jefe",
        b"what do ya want for nothing?",
        {"X-Signature": "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        0.0,
        None,
    ),
    (
        {"scheme": "base64", "header": "X-Shop-Hmac", "delivery": "X-Shop-Id"},
        "the-secret-of-ann",
        b'{"t": 21.5}',
        {"X-Shop-Hmac": "d8ccFLEvJ5iyB/ILooD+lfkStVZl5AucAc7ckK8OqPA=", "X-Shop-Id": "17"},
        0.0,
        b"17",
    ),
]
NAMES = [case[0]["scheme"] for case in KNOWN]


@pytest.mark.parametrize(("form", "secret", "body", "headers", "now", "expected"), KNOWN, ids=NAMES)
def test_published_signatures_are_right(  # noqa: PLR0913, PLR0917 - the columns of the table
    form: dict[str, str], secret: str, body: bytes, headers: dict[str, str], now: float, expected: bytes | None
) -> None:
    """As the services document them, or their own tools and openssl make them; and with no other secret or body."""
    webhook = WebhookForm.model_validate(form)
    delivery = accepted_delivery(webhook, [secret], Headers(headers), body, now)
    assert delivery is not None
    assert expected == delivery.id
    assert accepted_delivery(webhook, ["a newer secret of it", secret], Headers(headers), body, now) == delivery
    assert accepted_delivery(webhook, [f"{secret}."], Headers(headers), body, now) is None
    assert accepted_delivery(webhook, [], Headers(headers), body, now) is None
    assert accepted_delivery(webhook, [secret], Headers(headers), body + b" ", now) is None


@pytest.mark.parametrize(("form", "secret", "body", "headers", "now"), [case[:5] for case in KNOWN if case[4]])
def test_an_old_signature_is_not_right(
    form: dict[str, str], secret: str, body: bytes, headers: dict[str, str], now: float
) -> None:
    """Nor one of the future, as a clock that is wrong makes it. The time is part of what is signed."""
    webhook = WebhookForm.model_validate(form)
    taken = [
        accepted_delivery(webhook, [secret], Headers(headers), body, now + later) is not None
        for later in (-TOLERANCE - 1, -TOLERANCE, TOLERANCE, TOLERANCE + 1)
    ]
    assert [False, True, True, False] == taken
    later = {name: value.replace(f"{now:.0f}", f"{now + 1:.0f}") for name, value in headers.items()}
    assert accepted_delivery(webhook, [secret], Headers(later), body, now) is None


def test_another_signature_beside_the_right_one_makes_no_other_delivery() -> None:
    """Whoever repeats a delivery of a service that sends no id may add to the header, which is not signed."""
    form, secret, body, headers, now, expected = KNOWN[2]
    more = {"Stripe-Signature": headers["Stripe-Signature"].replace("v1=", "v1=00,v1=")}
    delivery = accepted_delivery(WebhookForm.model_validate(form), [secret], Headers(more), body, now)
    assert delivery is not None
    assert expected == delivery.id


def _hex_header(secret: bytes, body: bytes) -> dict[str, str]:
    return {"X-Signature": hmac.digest(secret, body, "sha256").hex()}


def _standard_header(secret: bytes, body: bytes) -> dict[str, str]:
    signed = hmac.digest(base64.b64decode(secret.removeprefix(b"whsec_")), b"m.1." + body, "sha256")
    both = f"v1a,ignored v1,{base64.b64encode(signed).decode()}"
    return {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": both}


def _stripe_header(secret: bytes, body: bytes) -> dict[str, str]:
    return {"stripe-signature": f"t=1, v1={hmac.digest(secret, b'1.' + body, 'sha256').hex()}"}


def _github_header(secret: bytes, body: bytes) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={hmac.digest(secret, body, 'sha256').hex()}"}


def _base64_header(secret: bytes, body: bytes) -> dict[str, str]:
    return {"X-Signature": base64.b64encode(hmac.digest(secret, body, "sha256")).decode()}


SIGN: Mapping[WebhookScheme, Callable[[bytes, bytes], dict[str, str]]] = {
    WebhookScheme.STANDARD: _standard_header,
    WebhookScheme.GITHUB: _github_header,
    WebhookScheme.STRIPE: _stripe_header,
    WebhookScheme.HEX: _hex_header,
    WebhookScheme.BASE64: _base64_header,
}


def _webhook(scheme: WebhookScheme) -> WebhookForm:
    return WebhookForm(scheme=scheme, header="X-Signature")


@given(
    scheme=st.sampled_from(WebhookScheme),
    body=st.binary(max_size=200),
    at=st.integers(0, 10_000),
    bit=st.integers(0, 7),
)
def test_each_body_has_one_signature(scheme: WebhookScheme, body: bytes, at: int, bit: int) -> None:
    """With the secret that Braid makes for a scheme; a body in which one bit differs has another."""
    secret = SCHEMES[scheme].secret()
    headers = Headers(SIGN[scheme](secret.encode(), body))
    assert accepted_delivery(_webhook(scheme), [secret], headers, body, 1.0) is not None
    if body:
        other = bytearray(body)
        other[at % len(body)] ^= 1 << bit
        assert accepted_delivery(_webhook(scheme), [secret], headers, bytes(other), 1.0) is None


_VALUES = st.one_of(
    st.text(st.characters(max_codepoint=255), max_size=60),
    st.from_regex(r"\A(t=|v1[=,]|sha256=|[0-9a-f]{2}|[, .]){0,8}\Z"),
)


@given(
    scheme=st.sampled_from(WebhookScheme),
    headers=st.dictionaries(
        st.sampled_from([*STANDARD, "x-hub-signature-256", "x-github-delivery", "stripe-signature", "x-signature"]),
        _VALUES,
    ),
)
def test_no_header_is_more_than_wrong(scheme: WebhookScheme, headers: dict[str, str]) -> None:
    """Whatever anybody sends, it is refused like any wrong signature."""
    assert accepted_delivery(_webhook(scheme), ["secret"], Headers(headers), b"{}", 0.0) is None
