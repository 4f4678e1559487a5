"""The provider of OpenID Connect: what its tokens say of people, and the steps of a sign-in with it.

A token is taken if it is signed by a key that the provider publishes now, with one of a few algorithms that need its
private key; names this provider as its issuer and this service as its audience; and has not expired. The keys are
fetched when they are first needed, when a token names one that is not known, and when they are old. While the provider
is away, the keys that are known go on counting.

A sign-in keeps nothing here: what it needs at its end is in the browser, as a `SignIn` in a cookie.
"""

import hashlib
import json
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import BadSignatureError, ExpiredTokenError, InvalidKeyIdError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from manager.problem import Forbidden, ProviderAway, Unauthenticated
from manager.settings import GroupRole, Settings

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""None with a shared secret: who checks such a token could make one."""
# Providers add fields of their own to the head of a token.
_HEADS = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
_LEEWAY = 30
"""Seconds by which the clocks of provider and service may differ."""
_KEYS_FRESH = 600.0
"""Seconds after which the keys are fetched again."""
_FETCH_EVERY = 10.0
"""Seconds between two attempts to fetch them: anybody may send a token with an unknown key."""
_TIMEOUT = 5.0
_MOST_SHOWN = 10
"""Groups that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody whom the provider knows; made by `Provider.bearer` and `Provider.signed_in`, or kept with a session."""

    subject: str
    """The name that the provider never gives to anybody else."""
    name: str
    """What people call them."""
    groups: tuple[str, ...]
    """Those that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in that has begun; its browser keeps it, and nobody else may see it."""

    state: str
    """Comes back with the code, so that nobody can have a browser end a sign-in that it has not begun."""
    nonce: str
    """Comes back in the token, so that none of another sign-in is taken."""
    verifier: str
    """Proves to the provider that the code is redeemed by who asked for it (PKCE)."""

    @classmethod
    def new(cls) -> Self:
        """A new one."""
        return cls(state=secrets.token_urlsafe(24), nonce=secrets.token_urlsafe(24), verifier=secrets.token_urlsafe(48))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what `text` wrote; None if it is something else."""
        parts = text.split(".")
        return cls(state=parts[0], nonce=parts[1], verifier=parts[2]) if len(parts) == 3 and all(parts) else None  # noqa: PLR2004 - as many as fields

    @property
    def text(self) -> str:
        """As a text without characters that are special in cookies."""
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @property
    def challenge(self) -> str:
        """The digest of the verifier, which the provider gets at first."""
        return urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """What the provider publishes, and when that was fetched by the monotonic clock."""

    endpoints: Mapping[str, Any]
    keys: KeySet
    at: float


class Provider:
    """One provider, as the settings name it; made by `provider_of`. Thread-safe."""

    def __init__(  # noqa: PLR0913 - each is a setting
        self,
        *,
        issuer: str,
        client: str,
        secret: str | None,
        audience: str,
        groups_claim: str,
        groups: Mapping[str, GroupRole],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self._client = client
        self._secret = secret
        self._audience = audience
        self._groups_claim = groups_claim
        self._groups = groups
        self._clock = clock
        self._lock = threading.Lock()
        self._published: _Published | None = None
        self._tried = -_FETCH_EVERY
        self._trouble = ""

    def bearer(self, token: str) -> Person:
        """The person whom a token that came with a request is about; `Unauthenticated` where it is not valid."""
        return self._person(self._claims(token, self._audience))

    def begin(self, sign_in: SignIn, page: str) -> str:
        """The address to send a browser to, which the provider sends back to a page."""
        asked = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": page,
            "scope": "openid profile email",
            "state": sign_in.state,
            "nonce": sign_in.nonce,
            "code_challenge": sign_in.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    def signed_in(self, sign_in: SignIn, code: str, page: str) -> Person:
        """The person who has signed in, by the code with which the browser came back to the page."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": page,
            "code_verifier": sign_in.verifier,
            "client_id": self._client,
        }
        login: tuple[str, str] | None = None
        ways = self._current().endpoints.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret is not None and "client_secret_basic" in ways:
            login = quote(self._client, safe=""), quote(self._secret, safe="")
        elif self._secret is not None:
            form["client_secret"] = self._secret
        answer = self._asked("POST", self._endpoint("token_endpoint"), data=form, auth=login)
        token = answer.get("id_token")
        if not isinstance(token, str):
            why = f"{answer['error']}" if "error" in answer else "it gave no token"
            raise Unauthenticated(f"the provider at {self.issuer} did not take the sign-in: {why}; sign in again")
        claims = self._claims(token, self._client)
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), sign_in.nonce.encode()):
            raise Unauthenticated("the token is of another sign-in; sign in again")
        return self._person(claims)

    def granted(self, person: Person) -> GroupRole:
        """What a person may do, by the first row of the table with one of the groups; `Forbidden` if there is none."""
        row = next((role for group, role in self._groups.items() if group in person.groups), None)
        if row is None:
            raise Forbidden(
                f"{person.name} is in no group that the setting oidc_groups names, by the claim "
                f"{self._groups_claim!r} of the token; ask an operator to name one"
            )
        return row

    def _person(self, claims: Mapping[str, Any]) -> Person:
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise Unauthenticated("the token names no subject; get one of the provider that does")
        names = (claims.get(claim) for claim in ("preferred_username", "email", "name"))
        name = next((name for name in names if isinstance(name, str) and name), subject)
        groups = claims.get(self._groups_claim)
        held = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Person(subject=subject, name=_line(name), groups=tuple(group for group in self._groups if group in held))

    def _claims(self, token: str, audience: str) -> Mapping[str, Any]:
        """What a valid token says."""
        try:
            claims = self._verified(token).claims
        except UnsupportedAlgorithmError:
            raise Unauthenticated(
                f"the token is signed by an algorithm that is not taken; have the provider use one of {_ALGORITHMS[0]} "
                "or the like, with a private key"
            ) from None
        except InvalidKeyIdError:
            raise Unauthenticated(
                f"the token is signed by a key that the provider at {self.issuer} does not publish; get a new one"
            ) from None
        except (JoseError, ValueError):
            raise Unauthenticated(
                f"what was sent is neither an API key nor a token that the provider at {self.issuer} signed"
            ) from None
        if claims.get("iss") != self.issuer:
            raise Unauthenticated(f"the token is of another issuer; send one of {self.issuer}")
        meant = claims.get("aud")
        audiences = [meant] if isinstance(meant, str) else meant if isinstance(meant, list) else []
        if audience not in audiences:
            said = ", ".join(map(_line, map(str, audiences[:_MOST_SHOWN]))) or "nobody"
            raise Unauthenticated(f"the token has the wrong audience: it is for {said}; get one for {audience}")
        checks = jwt.JWTClaimsRegistry(leeway=_LEEWAY, exp={"essential": True})
        try:
            checks.validate(claims)
        except ExpiredTokenError:
            raise Unauthenticated("the token has expired; get a new one, or sign in again") from None
        except JoseError as error:
            raise Unauthenticated(f"the token is not valid: {error}; get a new one") from None
        return claims

    def _verified(self, token: str) -> jwt.Token:
        current = self._current()
        try:
            return jwt.decode(token, current.keys, registry=_HEADS)
        except (InvalidKeyIdError, BadSignatureError):
            # The provider may have a new key since, which not all of them name.
            return jwt.decode(token, self._current(than=current).keys, registry=_HEADS)

    def _endpoint(self, name: str) -> str:
        return _checked(str(self._current().endpoints.get(name, "")), self.issuer, name)

    def _current(self, than: _Published | None = None) -> _Published:
        """What the provider publishes; newer `than` something if it can be fetched now."""
        known = self._published
        is_useless = known is None or known is than
        is_old = known is not None and self._clock() - known.at > _KEYS_FRESH
        # Old keys go on counting meanwhile, so only those who need new ones wait for who fetches them.
        if (is_useless or is_old) and self._lock.acquire(blocking=is_useless):
            try:
                self._renew(known)
            finally:
                self._lock.release()
        if self._published is None:
            raise ProviderAway(self._trouble, retry_after=_FETCH_EVERY)
        return self._published

    def _renew(self, known: _Published | None) -> None:
        """Fetch what is published, unless another thread has, or tried just now."""
        now = self._clock()
        if self._published is not known or now - self._tried < _FETCH_EVERY:
            return
        self._tried = now
        try:
            self._published = self._fetched(now)
        except ProviderAway as away:
            self._trouble = away.detail

    def _fetched(self, now: float) -> _Published:
        endpoints = self._asked("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if endpoints.get("issuer") != self.issuer:
            raise self._away(f"it calls itself {_line(str(endpoints.get('issuer')))}; correct the setting oidc_issuer")
        keys = self._asked("GET", _checked(str(endpoints.get("jwks_uri", "")), self.issuer, "jwks_uri"))
        try:
            return _Published(endpoints=endpoints, keys=KeySet.import_key_set(keys), at=now)  # type: ignore[arg-type]  # checked there
        except (JoseError, KeyError, TypeError, ValueError):
            raise self._away("it publishes no keys that are understood") from None

    def _asked(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """The object that the provider answers with; refusals are objects too."""
        try:
            answer = httpx.request(method, url, timeout=_TIMEOUT, headers={"Accept": "application/json"}, **more)
        except httpx.HTTPError as error:
            raise self._away(str(error) or type(error).__name__) from None
        try:
            said = answer.json()
        except (json.JSONDecodeError, UnicodeDecodeError):
            said = None
        if not isinstance(said, dict) or (answer.is_error and "error" not in said):
            raise self._away(f"it answered {answer.status_code}, and not as OpenID Connect says")
        return said

    def _away(self, why: str) -> ProviderAway:
        return ProviderAway(f"the provider at {self.issuer} does not answer: {why}", retry_after=_FETCH_EVERY)


def provider_of(settings: Settings) -> Provider | None:
    """The provider that the settings name, if they do."""
    if settings.oidc_issuer is None or settings.oidc_client is None:
        return None
    return Provider(
        issuer=settings.oidc_issuer,
        client=settings.oidc_client,
        secret=None if settings.oidc_secret is None else settings.oidc_secret.get_secret_value(),
        audience=settings.oidc_audience or settings.oidc_client,
        groups_claim=settings.oidc_groups_claim,
        groups=settings.oidc_groups,
    )


def is_token(text: str) -> bool:
    """Whether a text looks like a signed token, and not like an API key.

    >>> is_token("e30.e30.c2ln"), is_token("braid_00112233aabbccdd_secret")
    (True, False)
    """
    return text.count(".") == 2  # noqa: PLR2004 - between head, claims and signature


def _checked(url: str, issuer: str, name: str) -> str:
    """An address that the provider publishes; one without TLS only where the provider has none itself."""
    if urlsplit(url).scheme in {"https", urlsplit(issuer).scheme}:
        return url
    raise ProviderAway(f"the provider at {issuer} publishes no {name} that can be used", retry_after=_FETCH_EVERY)


def _line(text: str) -> str:
    """A text from elsewhere, short and without what could not be shown in a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]
