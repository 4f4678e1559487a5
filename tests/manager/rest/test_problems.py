"""How refusals are answered: as problems that say where, why and what to do, and that tell nobody too much."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types of its own

from dags.json_text import MOST_DOCUMENT_BYTES
from engine.code.wheel_file import MOST_WHEEL_BYTES
from manager.problem import TROUBLES, Trouble
from manager.rest import examples
from manager.rest.app import ROUTERS
from manager.rest.bodies import OCTETS
from manager.rest.openapi import resolved
from manager.use_case import Caller
from tests.manager.rest.conftest import Asking
from tests.manager.rest.fake_service import FakeService

DOCUMENT = json.dumps(examples.DOCUMENT).encode()
JSON = {"Content-Type": "application/json"}
MOST_DESCRIBED = 300_000
"""Bytes of the OpenAPI description."""
ROUTES = [
    (
        method,
        route.path.format_map(defaultdict(lambda: "x", tenant="ann", number="1", version="1", digest="0" * 64)),
    )
    for router in ROUTERS
    for route in router.routes
    # A request to sign in has no key but the one in its body, and what services post has a signature instead.
    if isinstance(route, APIRoute) and route.path.startswith("/v1") and route.name not in {"begin_session", "deliver"}
    for method in sorted(route.methods or ())
]
BODILESS = ("admit", "credentials", "replay", "defragmentations", "drain", "undo", "deprecate", "vouch", "link")
BODIES = [(method, path) for method, path in ROUTES if method in {"POST", "PUT"} and not path.endswith(BODILESS)]


def _problem(answer: httpx.Response) -> dict[str, Any]:
    assert "application/problem+json" == answer.headers["Content-Type"], answer.text
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, True) == (problem["status"], bool(problem["detail"]))
    assert quote(answer.request.url.path) == problem["instance"]
    assert 16 == len(answer.headers["X-Request-Id"])
    return problem


def _pointers(answer: httpx.Response) -> list[str]:
    return [each["pointer"] for each in _problem(answer)["errors"]]


def test_nothing_is_answered_without_a_key(ask: Asking, service: FakeService) -> None:
    """Every route asks for a key, and takes none that is unknown or changed in its last character."""
    last = "A" if service.ann[-1] != "A" else "B"
    for client in [ask(key) for key in (None, "x", service.ann[:-1] + last, service.ann.upper())]:
        for method, path in ROUTES:
            answer = client.request(method, path, content=DOCUMENT, headers=JSON)
            assert ("/problems/unauthenticated", 'Bearer realm="braid"') == (
                _problem(answer)["type"],
                answer.headers["WWW-Authenticate"],
            )
    assert (3, []) == (len(service.known_keys), service.seen)


@pytest.mark.parametrize("scheme", ["Basic", "braid", ""])
def test_a_key_is_a_bearer_token(ask: Asking, service: FakeService, scheme: str) -> None:
    """A key that is sent in another way lets nobody in."""
    answer = ask(None).get("/v1/keys", headers={"Authorization": f"{scheme} {service.ann}".strip()})
    assert "/problems/unauthenticated" == _problem(answer)["type"]


@pytest.mark.parametrize("trouble", examples.TROUBLE_EXAMPLES.values(), ids=lambda trouble: trouble.code)
def test_each_trouble_is_answered_as_documented(
    ann: httpx.Client, monkeypatch: pytest.MonkeyPatch, service: FakeService, trouble: Trouble
) -> None:
    """Whatever the service raises on any route is answered with the status, code and headers that are its own."""

    def raises(_key: str) -> Caller:
        raise trouble

    monkeypatch.setattr(service.use_cases.administration, "caller", raises)
    for method, path in ROUTES:
        answer = ann.request(method, path, content=DOCUMENT, headers=JSON)
        problem = _problem(answer)
        assert (trouble.status, f"/problems/{trouble.code}", trouble.detail) == (
            answer.status_code,
            problem["type"],
            problem["detail"],
        )
        assert (trouble.retry_after is not None) == ("Retry-After" in answer.headers)


def test_every_operation_documents_its_problems_with_examples(app: FastAPI) -> None:
    """Each operation has an answer with an example, and for each problem its form, an example, and its headers."""
    codes = {trouble.code: trouble for trouble in TROUBLES}
    schema = app.openapi()
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            responses = {status: resolved(schema, response) for status, response in operation["responses"].items()}
            assert {"422"} <= responses.keys()
            assert not path.startswith("/v1") or {"401", "500", "503"} <= responses.keys()
            for status, response in responses.items():
                for media, content in response["content"].items():
                    if media == "application/problem+json":
                        for code, reference in content["examples"].items():
                            example = resolved(schema, reference)["value"]
                            assert (status, f"/problems/{code}") == (str(codes[code].status), example["type"])
                        retried = any(
                            examples.TROUBLE_EXAMPLES[codes[code]].retry_after for code in content["examples"]
                        )
                        assert retried == ("Retry-After" in response["headers"])
                    else:
                        assert "example" in content or not path.startswith("/v1")


def test_every_reference_in_the_schema_leads_somewhere(app: FastAPI) -> None:
    """What OpenAPI refers to is there, bodies included."""
    schema = app.openapi()
    known = {f"#/components/{kind}/{name}" for kind, parts in schema["components"].items() for name in parts}
    assert set() == set(_references(schema)) - known
    body = schema["paths"]["/v1/dataflows"]["post"]["requestBody"]["content"]["application/json"]
    assert ("#/components/schemas/Document-Input", examples.DOCUMENT) == (body["schema"]["$ref"], body["example"])


def test_every_example_is_whole(app: FastAPI) -> None:
    """The example of an answer is valid by its schema, and has each of its fields."""
    schema = app.openapi()
    for operations in schema["paths"].values():
        for operation in operations.values():
            for reference in operation["responses"].values():
                content = resolved(schema, reference)["content"].get("application/json", {})
                if "example" in content:
                    parts = {"components": schema["components"]}
                    Draft202012Validator(content["schema"] | parts).validate(content["example"])
                    answer = schema["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
                    assert answer["properties"].keys() == content["example"].keys()


def test_the_description_is_short(ann: httpx.Client) -> None:
    """What many operations have alike stands in it once."""
    assert len(ann.get("/openapi.json").content) < MOST_DESCRIBED


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.code)
def test_a_problems_type_can_be_read(ask: Asking, trouble: type[Trouble]) -> None:
    """The type of each problem is an address at which people read what it means, without a key."""
    answer = ask(None).get(f"/problems/{trouble.code}")
    assert (200, True) == (answer.status_code, trouble.about in answer.text)


def test_an_unknown_problem_or_path_is_not_found(ann: httpx.Client) -> None:
    """What is not there is a problem too, with or without a slash at its end."""
    for path in ("/problems/none", "/nowhere", "/v1/dataflows/", "/v1/dataflows/a/b", "/v1/sources/a%2Fb"):
        assert "/problems/not-found" == _problem(ann.get(path))["type"]


def test_a_method_that_does_nothing_names_those_that_do(ann: httpx.Client) -> None:
    """405 lists every method of the path."""
    answer = ann.patch("/v1/dataflows/x")
    assert "POST" == ann.put("/v1/dead-letters/replay", headers=JSON).headers["Allow"]
    assert ("/problems/method-not-allowed", "DELETE, GET, PUT") == (_problem(answer)["type"], answer.headers["Allow"])


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_body_has_to_be_plain_json(ann: httpx.Client, method: str, path: str) -> None:
    """Another media type, none, or a compressed body is refused before it is read; events may be a gzip file."""
    coding = "br" if path.endswith("/events") else "gzip"
    for headers in ({}, {"Content-Type": "text/html"}, JSON | {"Content-Encoding": coding}):
        answer = ann.request(method, path, content=DOCUMENT, headers=headers)
        assert (415, "/problems/unsupported-media-type") == (answer.status_code, _problem(answer)["type"])


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_body_has_its_bound(ann: httpx.Client, method: str, path: str) -> None:
    """More bytes than are taken are refused, whether their number is announced or not."""
    part = b" " * 65_536
    is_wheel = path.startswith("/v1/wheels")
    parts = (MOST_WHEEL_BYTES if is_wheel else MOST_DOCUMENT_BYTES) // len(part) + 1
    headers = {"Content-Type": OCTETS} if is_wheel else JSON
    announced = ann.request(method, path, content=part * parts, headers=headers)
    assert (413, "/problems/too-large") == (announced.status_code, _problem(announced)["type"])
    silent = ann.request(method, path, content=(part for _ in range(parts)), headers=headers)
    assert (413, "/problems/too-large") == (silent.status_code, _problem(silent)["type"])


def test_every_problem_of_a_document_is_reported_at_its_place(ann: httpx.Client) -> None:
    """A refused document names the fields in it."""
    wrong = {"version": 2, "name": "", "tasks": [{"id": 1, "type": "x"}], "streams": []}
    answer = ann.post("/v1/dataflows", json=wrong)
    assert ["/version", "/name", "/tasks/0/id"] == _pointers(answer)
    assert "/problems/invalid-dataflow" == answer.json()["type"]


@pytest.mark.parametrize(
    ("path", "sent", "places"),
    [
        ("/v1/tenants", "", [""]),
        ("/v1/tenants", "[", [""]),
        ("/v1/tenants", "[]", [""]),
        ("/v1/tenants", "\ud800", [""]),
        ("/v1/tenants", '{"name": "\\ud800"}', [""]),
        ("/v1/tenants", "[" * 100_000, [""]),
        ("/v1/tenants", "{}", ["/name"]),
        ("/v1/tenants", '{"name": "UPPER"}', ["/name"]),
        ("/v1/tenants", '{"name": "a\\u0000"}', ["/name"]),
        ("/v1/tenants", '{"name": "a\\n"}', ["/name"]),
        ("/v1/tenants", '{"name": "a", "nmae": 1}', ["/nmae"]),
        ("/v1/tenants", '{"name": "a", "a/b~c": 1}', ["/a~1b~0c"]),
        (
            "/v1/tenants",
            '{"name": "a", "quota": {"dataflows": "5", "tasks": -1}}',
            ["/quota/dataflows", "/quota/tasks"],
        ),
        ("/v1/tenants", '{"name": "a", "quota": {"dataflows": 1e400}}', ["/quota/dataflows"]),
        ("/v1/tenants", '{"name": "a", "quota": {"dataflows": NaN}}', ["/quota/dataflows"]),
        ("/v1/sources", '{"name": "s", "connection": {"kind": "topic"}}', ["/connection/topic"]),
        ("/v1/sources", '{"name": "s", "connection": {"kind": "topic", "topic": 1}}', ["/connection/topic"]),
        ("/v1/sources", '{"name": "s", "connection": {"kind": "tpoic"}}', ["/connection"]),
        (
            "/v1/sources",
            '{"name": "s", "connection": {"kind": "timer", "seconds": 1}, "schema": {"a": 1}}',
            ["/schema/a"],
        ),
        ("/v1/sources", '{"name": "s", "connection": {"kind": "timer", "seconds": 0}}', ["/connection/seconds"]),
    ],
)
def test_a_forms_problems_are_reported_at_their_places(
    operator: httpx.Client, path: str, sent: str, places: list[str]
) -> None:
    """A refused form names each field, and says what to do; no text whatever ends in a traceback."""
    answer = operator.post(path, content=sent.encode("utf-8", "surrogatepass"), headers=JSON)
    assert (422, "/problems/invalid-request", places) == (
        answer.status_code,
        _problem(answer)["type"],
        _pointers(answer),
    )
    assert all(each["message"] and each["remedy"] for each in answer.json()["errors"])


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/v1/dataflows/%00", "/path/id"),
        ("/v1/dataflows/a%0Ab", "/path/id"),
        (f"/v1/dataflows/{'x' * 301}", "/path/id"),
        ("/v1/dataflows?after=%00", "/query/after"),
        ("/v1/dataflows?state=gone", "/query/state"),
        ("/v1/dataflows?tenant=UPPER", "/query/tenant"),
        ("/v1/dataflows?name=%7F", "/query/name"),
        ("/v1/operations?kind=none", "/query/kind"),
        ("/v1/dataflows?limit=5.0.", "/query/limit"),
        ("/v1/dataflows?satte=removed", "/query/satte"),
        ("/v1/dataflows/x?a%2Fb=1", "/query/a~1b"),
    ],
)
def test_a_hostile_parameter_is_refused_at_its_place(ann: httpx.Client, path: str, place: str) -> None:
    """Control characters, endless names and unknown values reach no use case."""
    assert [place] == _pointers(ann.get(path))


def test_a_hostile_header_is_refused_at_its_place(ann: httpx.Client) -> None:
    """So are idempotency keys and event numbers that are none."""
    sent = JSON | {"Idempotency-Key": "x" * 201}
    assert ["/header/Idempotency-Key"] == _pointers(ann.post("/v1/dataflows", content=DOCUMENT, headers=sent))
    assert ["/header/Last-Event-ID"] == _pointers(ann.get("/v1/events", headers={"Last-Event-ID": "-1"}))


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_what_is_another_tenants_answers_as_if_it_were_not_there(
    ann: httpx.Client, bob: httpx.Client, method: str
) -> None:
    """Byte for byte, but for the id that was asked for."""
    made = ann.post("/v1/dataflows", content=DOCUMENT, headers=JSON).json()["id"]
    others, nobodys = (
        bob.request(method, f"/v1/dataflows/{name}", content=DOCUMENT, headers=JSON) for name in (made, "d-9")
    )
    assert (404, nobodys.text.replace("d-9", made)) == (others.status_code, others.text)
    assert _names(nobodys) == _names(others)


def _names(answer: httpx.Response) -> set[str]:
    return set(answer.headers)


def test_what_goes_wrong_unforeseen_is_logged_and_not_shown(
    ann: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer holds a request id and no internals; the log holds the reason under that id, and no key."""

    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(service.use_cases.dataflows, "page", breaks)
    with caplog.at_level(logging.DEBUG):
        answer = ann.get("/v1/dataflows", params={"name": "private"})
    problem = _problem(answer)
    assert (500, "/problems/unexpected") == (answer.status_code, problem["type"])
    request = answer.headers["X-Request-Id"]
    assert (True, False) == (request in problem["detail"], "inside" in answer.text)
    logged = _ours(caplog)
    assert [True, True, False, False] == [
        part in logged for part in (request, "the secret inside", service.ann, "private")
    ]


def test_keys_and_passwords_are_never_logged(
    operator: httpx.Client, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the key that asks, nor one that is made, nor a password, nor a wrong key, at any level."""
    with caplog.at_level(logging.DEBUG):
        made = operator.post("/v1/keys", json={"tenant": "ann"}).json()["key"]
        password = operator.post("/v1/tenants/ann/credentials").json()["password"]
        operator.get("/v1/keys", headers={"Authorization": f"Bearer {made}x"})
    ours = _ours(caplog)
    assert [False] * 3 == [secret in ours for secret in (service.operator, made, password)]


def _ours(caplog: pytest.LogCaptureFixture) -> str:
    """What Braid logged, with tracebacks; the client's log and the server's are others'."""
    plain = logging.Formatter()
    return "\n".join(plain.format(record) for record in caplog.records if record.name.startswith("manager"))


def test_answers_are_kept_by_nobody(ann: httpx.Client) -> None:
    """No cache keeps what is one caller's alone, and no two requests have one id."""
    first, second = ann.get("/v1/keys"), ann.get("/v1/keys")
    assert ["no-store", "nosniff"] == [first.headers[name] for name in ("Cache-Control", "X-Content-Type-Options")]
    assert first.headers["X-Request-Id"] != second.headers["X-Request-Id"]
