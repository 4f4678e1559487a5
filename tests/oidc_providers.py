"""Providers of OpenID Connect: one from a registry, as a process, and a strict one of our own, with keys of a test."""

import json
import socket
import subprocess
import sys
import time
from asyncio import to_thread
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from braid_client.answers.tenants import Role
from manager.provider import Provider
from manager.settings import GroupRole
from tests.manager.rest.socket_server import serving

CLIENT, SECRET = "braid", "a secret: 100%"
GROUPS = {
    "ops": GroupRole(Role.OPERATOR),
    "anns": GroupRole(Role.TENANT, "ann"),
    "bobs": GroupRole(Role.TENANT, "bob"),
    "anns-viewers": GroupRole(Role.READ_ONLY, "ann"),
    "strangers": GroupRole(Role.TENANT, "nobodys"),
}
"""The table of the settings; the tenant of the last one is not admitted."""
_PATIENCE = 30.0


def provider_at(issuer: str, **more: Any) -> Provider:
    """Braid's end of a provider, which knows it as `CLIENT`."""
    given = {"secret": None, "audience": CLIENT, "groups_claim": "groups", "groups": GROUPS} | more
    return Provider(issuer=issuer, client=CLIENT, **given)


class ProviderProcess:
    """The package oidc-provider-mock as a process, with people and their groups; begun anew it has other keys."""

    def __init__(self, people: Mapping[str, list[str]]) -> None:
        self._people = people
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        users = (json.dumps({"sub": name, "groups": groups}) for name, groups in self._people.items())
        words = [word for user in users for word in ("--user-claims", user)]
        command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(self._port), *words]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603 - our own command
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                httpx.get(f"{self.issuer}/.well-known/openid-configuration", trust_env=False).raise_for_status()
            except httpx.HTTPError:
                assert self._process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop it; idempotent."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def set_groups(self, name: str, groups: list[str]) -> None:
        """Have somebody be in other groups from now on."""
        answer = httpx.put(f"{self.issuer}/users/{name}", json={"groups": groups}, trust_env=False)
        answer.raise_for_status()

    def token(self, name: str, client: str = CLIENT) -> str:
        """A token about somebody for a client, as a program of theirs gets one."""
        page = "http://127.0.0.1/"
        with httpx.Client(base_url=self.issuer, trust_env=False) as asking:
            query = {"client_id": client, "redirect_uri": page, "response_type": "code", "scope": "openid"}
            sent = asking.post("/oauth2/authorize", params=query, data={"sub": name})
            (code,) = parse_qs(urlsplit(sent.headers["location"]).query)["code"]
            form = {"grant_type": "authorization_code", "code": code, "redirect_uri": page}
            answer: dict[str, str] = asking.post("/oauth2/token", data=form, auth=(client, SECRET)).json()
        return answer["id_token"]


@contextmanager
def provider_process(people: Mapping[str, list[str]]) -> Iterator[ProviderProcess]:
    """A provider that runs."""
    process = ProviderProcess(people)
    try:
        process.start()
        yield process
    finally:
        process.stop()


class StrictProvider:
    """A provider that redeems a code only with the verifier of its challenge (PKCE), and signs what a test wants."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys = [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        """Those that it publishes; a test may change them."""
        self.claims: dict[str, Any] = {}
        """What the token of the next sign-in says besides what every token says."""
        self.fetched = 0
        """How often the keys were fetched."""
        self.is_asked, self.answers = Event(), Event()
        """That the keys are asked for, and that they are given; a test may hold them back."""
        self.answers.set()
        self.asked: dict[str, str] = {}
        """What the browser was sent with, which a test fills in from the address."""
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configuration),
                Route("/keys", self._published),
                Route("/token", self._redeem, methods=["POST"]),
            ]
        )

    def token(self, key: RSAKey | None = None, *, algorithm: str = "RS256", **claims: Any) -> str:
        """A token, signed by the newest key unless another is given; a claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT, "sub": "ann-1", "groups": ["anns"], "exp": now + 300, "iat": now}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        signing = key or self.keys[-1]
        return jwt.encode({"alg": algorithm, "kid": signing.kid}, said, signing, algorithms=[algorithm])

    async def _configuration(self, _request: Request) -> JSONResponse:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return JSONResponse({"issuer": self.issuer} | {name: f"{self.issuer}/{at}" for name, at in places.items()})

    async def _published(self, _request: Request) -> JSONResponse:
        self.fetched += 1
        self.is_asked.set()
        await to_thread(self.answers.wait)
        return JSONResponse(KeySet(list(self.keys)).as_dict(private=False))

    async def _redeem(self, request: Request) -> JSONResponse:
        sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        digest = urlsafe_b64encode(sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        wanted = {"client_id": CLIENT, "redirect_uri": self.asked["redirect_uri"], "code": "the-code"}
        if digest != self.asked["code_challenge"] or wanted.items() - sent.items():
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return JSONResponse({"id_token": self.token(**({"nonce": self.asked["nonce"]} | self.claims))})


@contextmanager
def strict_provider() -> Iterator[StrictProvider]:
    """A strict provider that is served."""
    made = StrictProvider()
    with serving(made.app) as url:
        made.issuer = url
        yield made
