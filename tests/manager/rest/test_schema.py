"""Whatever is sent, the answers are as OpenAPI says, and none says that something went wrong.

Requests go to the real service over a database. Ids, tenants and documents are mixed with those that exist, by three
callers in turn: an operator and two tenants.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response

from manager.kernel.live_events import LiveEvents
from manager.rest import examples
from manager.rest.app import make_app
from manager.rest.bodies import KINDS_OF_EVENTS
from manager.rest.openapi import resolved
from manager.rest.problems import PROBLEM_MEDIA_TYPE
from tests.manager.rest.documented_answers import ROUTES
from tests.manager.rest.fake_service import FakeService
from tests.manager.rest.socket_server import Switch, serving
from tests.manager.rest.town import OTHER, OWN, Town, town

EXAMPLES = 3
"""For each operation, besides those that cover each parameter once."""
SLOW_EXAMPLES, MANY = 280, 50_000
"""In the slow suite: for each operation and each way to draw them, and at least in all."""
WALKS, STEPS = 6, 8
"""How often somebody goes from one answer to the next request, and how far."""
CALLERS = ("operator", "ann", "bob")
_QUIET = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    # A fixture is set up once for all examples, as it should be.
    suppress_health_check=list(HealthCheck),
)
# What has the right form may still be refused for what it means; the callers' keys are added afterwards.
_EXCLUDED = [schemathesis.checks.positive_data_acceptance, schemathesis.checks.ignored_auth]
_DOCUMENTS = (examples.DOCUMENT, OTHER, OWN)
_MADE: dict[str, Callable[[int], Any]] = {
    "submit": lambda number: _DOCUMENTS[number % len(_DOCUMENTS)],
    "register_source": lambda number: {"name": f"made-{number}", "connection": {"kind": "rate", "per_second": 1.0}},
    "make_key": lambda number: {"note": f"{number}"},
}
"""What walks begin with."""
_EXISTING = {
    "/v1/dataflows/{id}": ("running", "edited", "drained", "removed", "poors"),
    "/v1/keys/{id}": ("spare_key",),
    "/v1/jobs/{job}": ("job",),
    "/v1/dead-letters/{id}": ("letter", "own_letter", "shared_letter"),
    "/v1/dead-letters/{id}/replay": ("sources_letter", "own_letter", "shared_letter"),
}
"""What the last parameter of a path may be besides what is made up; not what the callers themselves need."""
_SOURCES, _TENANTS = ("spare", "city:spare", "city:street"), ("poor", "bob")
_MODULES = ("plausible", "everybodys", "script")
_CHARACTERS = re.compile(r"\^(\[\^[^\]]+\])([+*])\$")
"""A pattern that only says which characters a text has."""
_FORM_CODES = {"missing-field", "unknown-field", "wrong-type", "wrong-value", "too-short", "too-long", "bad-cursor"}
"""What a schema can say. Configs within documents have schemas of their own."""


@schemathesis.serializer(*(kind for kind in KINDS_OF_EVENTS if kind != "application/json"))
def _lines(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    """Events in other formats than JSON, which are texts or bytes to OpenAPI."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


_switch = Switch()
_switch.app = make_app(FakeService().use_cases, LiveEvents(last=0), lambda: None)
_config = schemathesis.Config.from_dict(
    {
        "generation": {"deterministic": True, "with-security-parameters": False},
        # What other methods are answered stands in another test.
        "phases": {"coverage": {"unexpected-methods": []}},
        # What is too long may be more than is read, and the tag that is asked for another.
        "checks": {
            "negative_data_rejection": {
                "expected-statuses": [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429, "5xx"]
            }
        },
    }
)


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: Any) -> None:
    """Have texts be drawn by their characters, since their patterns take half a minute while tests are collected."""
    for each in raw_schema.values() if isinstance(raw_schema, dict) else raw_schema:
        if isinstance(each, dict | list):
            before_load_schema(context, each)
    if not isinstance(raw_schema, dict) or "maxLength" not in raw_schema:
        return
    if (characters := _CHARACTERS.fullmatch(str(raw_schema.get("pattern")))) is not None:
        raw_schema.pop("pattern")
        raw_schema.setdefault("format", _format(*characters.groups()))


@cache
def _format(characters: str, times: str) -> str:
    """The name of the format of short texts of these characters."""
    name = f"characters-{crc32((characters + times).encode())}"
    # All that patterns exclude is below.
    excluded = [chr(number) for number in range(0x3001) if not re.fullmatch(characters, chr(number))]
    drawn = st.characters(exclude_categories=["Cs"], exclude_characters=excluded)
    schemathesis.openapi.format(name, st.text(drawn, min_size=times == "+", max_size=40))
    return name


schema = schemathesis.openapi.from_asgi("/openapi.json", _switch, config=_config)
_OPERATIONS = {
    each.ok().definition.raw["operationId"]: each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)
}


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """The town in which all requests are made."""
    with town(tmp_path_factory.mktemp("town")) as made:
        _switch.app = made.app
        yield made


@pytest.fixture
def untouched(tmp_path: Path) -> Iterator[Town]:
    """A town in which nobody asked for anything yet: no quota is lowered, and nobody's key taken away."""
    with town(tmp_path) as made:
        others, _switch.app = _switch.app, made.app
        yield made
        _switch.app = others


@schema.parametrize()
@settings(_QUIET, max_examples=EXAMPLES)
def test_answers_are_as_documented(living: Town, case: schemathesis.Case[Any]) -> None:
    """Status, problem, media type, headers and body of every answer are documented, and none is a server's error."""
    _check(living, case)


@pytest.mark.slow
def test_many_answers_are_as_documented(living: Town) -> None:
    """So are fifty thousand answers, drawn anew each time, to what the schema allows and to what it does not."""
    calls = 0
    for operation in _OPERATIONS.values():
        for mode in schemathesis.GenerationMode:

            @settings(_QUIET, derandomize=False, max_examples=SLOW_EXAMPLES)
            @given(operation.as_strategy(generation_mode=mode))
            def answered(case: schemathesis.Case[Any]) -> None:
                nonlocal calls
                _check(living, case)
                calls += 1

            # What has neither parameters nor a body has nothing that could be wrong.
            with suppress(Unsatisfiable):
                answered()
    assert calls > MANY


@pytest.mark.parametrize("begin", ["submit", "register_source", "make_key"])
def test_what_follows_from_answers_is_as_documented(untouched: Town, begin: str) -> None:
    """So it is where what was submitted, registered or made is shown, changed and removed, in any order, by anybody."""
    draw = Random(begin)
    reached: set[tuple[str, int]] = set()
    for walk in range(WALKS):
        made = _ask(untouched, begin, draw.choice(("ann", "city")), _MADE[begin](walk), {})
        assert made.status_code == 201, made.text
        for _ in range(STEPS):
            name = draw.choice(sorted(_links(begin)))
            parameters = {field: made.json()[field] for field in _links(begin)[name]["parameters"]}
            who = draw.choice(("ann", "ann", "bob", "city", "operator"))
            answer = _ask(untouched, name, who, ROUTES[name].well.body, parameters)
            reached.add((name, answer.status_code))
    assert {(name, status) for name in _links(begin) for status in (200, 404)} <= reached


def _check(town: Town, case: schemathesis.Case[Any]) -> None:
    # With a slash it would be another path.
    assume(not any("/" in unquote(str(value)) for value in (case.path_parameters or {}).values()))
    who = _settle(case, town)
    headers, checks = _as(town, who), [_known_problem, _refused_for_its_meaning]
    # A draft with problems is answered, not refused.
    drafts = [schemathesis.checks.negative_data_rejection] if "draft" in (case.query or ()) else []
    case.call_and_validate(headers=headers, excluded_checks=_EXCLUDED + drafts, additional_checks=list[Any](checks))


def _links(begin: str) -> dict[str, Any]:
    links: dict[str, Any] = _OPERATIONS[begin].definition.raw["responses"]["201"]["links"]
    return links


def _ask(town: Town, name: str, who: str, body: Any, parameters: dict[str, str]) -> Response:
    case = _OPERATIONS[name].Case(path_parameters=parameters)
    if body is not None:
        case.body, case.media_type = body, "application/json"
    return case.call_and_validate(headers=_as(town, who), excluded_checks=_EXCLUDED, additional_checks=[_known_problem])


def _settle(case: schemathesis.Case[Any], town: Town) -> str:
    """Have some requests be about what exists, as follows from what else they hold; says who is to ask."""
    number = crc32(repr((case.method, case.path, case.path_parameters, case.query, case.body)).encode())
    who, number = CALLERS[number % len(CALLERS)], number // len(CALLERS)
    number, exists = number // 3, number % 3 > 0
    if exists and case.path_parameters:
        known = [town.places[name] for name in _EXISTING.get(case.path, ())]
        known += _SOURCES if "/sources/" in case.path else ()
        known += _TENANTS if "{tenant}" in case.path else ()
        if known:
            exists_already = known[number % len(known)]
            case.path_parameters |= {name: exists_already for name in case.path_parameters if name != "producer"}
        elif "/modules/" in case.path:
            is_there = {"name": _MODULES[number % len(_MODULES)], "version": 1}
            case.path_parameters = {name: is_there[name] for name in case.path_parameters}
    if exists and case.query and "dataflow" in case.query:
        case.query = {**case.query, "dataflow": town.places["running"]}
    # Most that are made up stay so: a document that is accepted costs more than one that is refused.
    if number % 5 == 0 and case.operation.definition.raw["operationId"] in {"submit", "replace", "explain"}:
        case.body, case.media_type = _DOCUMENTS[number % len(_DOCUMENTS)], "application/json"
        # A tenant is known by its key, an operator says it.
        case.query = {"tenant": "ann"} if who == "operator" and case.method == "POST" else {}
    return who


def _known_problem(_context: Any, response: Response, case: schemathesis.Case[Any]) -> None:
    """The problem is one of those that the operation documents for its status."""
    if response.headers.get("content-type") == [PROBLEM_MEDIA_TYPE]:
        documented = case.operation.definition.raw["responses"][str(response.status_code)]
        known = resolved(schema.raw_schema, documented)["content"][PROBLEM_MEDIA_TYPE]["examples"]
        assert response.json()["type"].removeprefix("/problems/") in known, response.text


def _refused_for_its_meaning(_context: Any, response: Response, case: schemathesis.Case[Any]) -> None:
    """What the schema allows is not refused for its form."""
    if case.meta is None or case.meta.generation.mode.is_negative or response.status_code != 422:
        return
    wrong = [
        error
        for error in response.json()["errors"]
        if error["code"] in _FORM_CODES
        and not error["message"].startswith("the value is not valid: ")
        and not re.search("/(config|variables)(/|$)", error["pointer"])
    ]
    assert [] == wrong


def _as(town: Town, who: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {town.keys[who]}"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/tenants/ann/quota", '{"dataflows": 1' + "0" * 30 + "}"),
        ("POST", "/v1/tenants", '{"name": "t", "quota": {"submits_per_minute": 9223372036854775808}}'),
        ("POST", "/v1/keys", '{"note": "\\u0000"}'),
        ("POST", "/v1/sources", '{"name": "n", "owner": "ann", "connection": {"kind": "topic", "topic": "\\u0000"}}'),
        ("POST", "/v1/sources", '{"name": "n", "owner": "ann", "connection": {"kind": "rate", "per_second": 1e-320}}'),
        ("POST", "/v1/sources", '{"name": "n", "owner": "ann", "connection": {"kind": "timer", "seconds": 1e308}}'),
        ("POST", "/v1/sources", '{"name": "n", "owner": "ann", "connection": {"kind": "replay", "path": "\\u0000"}}'),
        ("GET", "/v1/dataflows?after=999999999999999999", ""),
        ("GET", "/v1/jobs/" + "9" * 300, ""),
        ("GET", "/v1/operations?after=\u0663", ""),
        ("POST", "/v1/explain?tenant=ann", "\ufeff{}"),
        ("POST", "/v1/dataflows?tenant=nobody", "{}"),
    ],
)
def test_the_service_is_not_broken_by_odd_values(living: Town, method: str, path: str, body: str) -> None:
    """Numbers beyond what a database counts to, and characters that it does not keep, are no server's errors."""
    headers = _as(living, "operator") | {"Content-Type": "application/json"}
    with serving(living.app) as url, httpx.Client(base_url=url, headers=headers, trust_env=False) as operator:
        answer = operator.request(method, path, content=body.encode())
    assert answer.status_code < 500, answer.text
