"""What OpenAPI says of errors is true: every documented one is reached on the real service, and there are no others."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from manager.rest.dependencies import COOKIE
from manager.rest.openapi import resolved
from manager.service import service_of
from tests.manager.rest.documented_answers import KEYS_OF, ROUTES, WELL, Ask, asked
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town
from tests.oidc_providers import provider_at, strict_provider

Answer = tuple[str, int, str]
"""An operation, a status, and the code of the problem if it is one."""
SITUATIONS = ("waiting", "away", "keyless", "well", "broken")
"""In this order: what comes after `waiting` and `away` shows that the service goes on by itself."""


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], list[tuple[str, Answer]]]]:
    """What OpenAPI says; and for each row of the table the code that it is to reach, and what was answered."""
    folder = tmp_path_factory.mktemp("reached") / "data"
    folder.mkdir()
    # What is broken on purpose is logged with its traceback.
    logging.getLogger("manager.rest.problems").setLevel(logging.CRITICAL)
    with (
        strict_provider() as strict,
        town(folder, provider=provider_at(strict.issuer)) as made,
        serving(made.app) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        made.keys["outsider"] = strict.token(groups=[])
        schema = made.app.openapi()
        methods = _methods(schema)
        rows = [
            (code, name, ask)
            for name, route in ROUTES.items()
            for code, ask in asked(route, changes=methods[name] != "GET")
        ]
        # What is done well changes something, so it comes last.
        rows.sort(key=lambda row: (SITUATIONS.index(row[2].when), row[0] == WELL, row[2].last))
        found, situation = [], "well"
        for code, name, ask in rows:
            if ask.when != situation:
                _leave(made, folder, situation)
                _enter(made, folder, ask.when)
                situation = ask.when
            found.append((code, (name, *_sent(client, made, methods[name], ask))))
        yield schema, found
    logging.getLogger("manager.rest.problems").setLevel(logging.NOTSET)


def test_every_request_reaches_what_it_is_to(answered: tuple[dict[str, Any], list[tuple[str, Answer]]]) -> None:
    """Each row of the table is answered with the code of its column."""
    _, found = answered
    assert [] == [(code, answer) for code, answer in found if code != answer[2]]


def test_what_is_reached_is_what_is_documented(answered: tuple[dict[str, Any], list[tuple[str, Answer]]]) -> None:
    """OpenAPI documents no error that no row of the table reaches, and no row an answer that it does not document."""
    schema, found = answered
    documented, reached = set(_documented(schema)), {answer for _, answer in found}
    assert [] == sorted(documented - reached)
    assert [] == sorted(reached - documented)


def _sent(client: httpx.Client, town: Town, method: str, ask: Ask) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} if ask.body is not None else {}
    if ask.by_cookie:
        assert ask.who is not None
        token, _ = town.service.sessions.begin(town.service.administration.caller(town.keys[ask.who]), 60.0)
        headers["Cookie"] = f"{COOKIE}={token}"
    elif ask.who is not None:
        headers["Authorization"] = f"Bearer {town.keys[ask.who]}"
    answer = client.request(
        method,
        ask.path.format(**town.places),
        content=_body(ask, town),
        headers=headers | dict(ask.headers),
    )
    if not answer.is_error:
        return answer.status_code, WELL
    assert ("Retry-After" in answer.headers) == (answer.status_code == httpx.codes.SERVICE_UNAVAILABLE) or (
        answer.status_code == httpx.codes.TOO_MANY_REQUESTS
    )
    kind: str = answer.json()["type"]
    return answer.status_code, kind.removeprefix("/problems/")


def _body(ask: Ask, town: Town) -> bytes | str | None:
    if ask.body is None or isinstance(ask.body, bytes):
        return ask.body
    body = json.dumps(ask.body)
    for placeholder, who in KEYS_OF.items():
        body = body.replace(placeholder, town.keys[who])
    return body


def _enter(town: Town, folder: Path, situation: str) -> None:
    match situation:
        case "waiting":
            town.tools.committer.step_down()
        case "away":
            # As if the disk that it lies on were gone: connections are made anew, and find nothing.
            town.tools.store.close()
            folder.rename(folder.with_name("gone"))
        case "keyless":
            # The keys of its provider were never fetched, and nobody answers there.
            provider = provider_at("http://127.0.0.1:1")
            town.app.state.service = service_of(replace(town.tools, provider=provider))
        case "broken":
            with town.tools.store.write() as session:
                session.execute(text("DROP TABLE api_key"))
                session.execute(text("DROP TABLE webhook"))


def _leave(town: Town, folder: Path, situation: str) -> None:
    match situation:
        case "waiting":
            town.tools.committer.lead(1)
        case "away":
            folder.with_name("gone").rename(folder)
        case "keyless":
            town.app.state.service = town.service


def _methods(schema: dict[str, Any]) -> dict[str, str]:
    return {
        operation["operationId"]: method.upper()
        for operations in schema["paths"].values()
        for method, operation in operations.items()
    }


def _documented(schema: dict[str, Any]) -> Iterator[Answer]:
    for operations in schema["paths"].values():
        for operation in operations.values():
            for status, reference in operation["responses"].items():
                response = resolved(schema, reference)
                problems = response.get("content", {}).get("application/problem+json", {}).get("examples", {WELL: None})
                for code in problems:
                    yield operation["operationId"], int(status), code
