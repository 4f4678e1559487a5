"""Whatever is sent, the answers are as OpenAPI says, and none says that something went wrong."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings

from manager.answers import SourceForm
from manager.reconciler.events import Events
from manager.rest import examples, make_app
from manager.service import Service
from tests.manager.rest.fake import FakeService
from tests.manager.rest.real import in_folder, real_service
from tests.manager.rest.serving import Switch, serving

EXAMPLES = 8
"""For each operation, besides those that cover each parameter once."""
_RANDOM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    # A fixture is set up once for all examples, as it should be.
    suppress_health_check=list(HealthCheck),
)
_switch = Switch()


def _app(service: Service) -> FastAPI:
    events = Events(last=0)
    # A stream that lasts is never answered whole.
    events.close()
    return make_app(service, events, lambda: None)


_switch.app = _app(FakeService())
_config = schemathesis.Config.from_dict({"generation": {"deterministic": True, "with-security-parameters": False}})
schema = schemathesis.openapi.from_asgi("/openapi.json", _switch, config=_config)


@pytest.fixture(scope="module")
def fake() -> tuple[FastAPI, str]:
    """The app over the fake service, and an operator's key."""
    service = FakeService()
    return _app(service), service.operator


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, str]]:
    """The same over the real service, with the tenant and the source of the examples."""
    with real_service(in_folder(tmp_path_factory.mktemp("store"))) as (service, key):
        app = _app(service)
        with serving(app) as url, httpx.Client(base_url=url, headers=_as(key), trust_env=False) as operator:
            for tenant in ("ann", "city"):
                assert 201 == operator.post("/v1/tenants", json={"name": tenant}).status_code
            source = examples.BODIES[SourceForm] | {"owner": "city"}
            assert 201 == operator.post("/v1/sources", json=source).status_code
            submitted = operator.post("/v1/dataflows", params={"tenant": "ann"}, json=examples.DOCUMENT)
            assert 201 == submitted.status_code, submitted.text
        yield app, key


@schema.parametrize()
@_RANDOM
def test_answers_are_as_documented(fake: tuple[FastAPI, str], case: schemathesis.Case[Any]) -> None:
    """Status, media type, headers and body of every answer are documented, and none is a server's error."""
    _check(case, *fake)


@schema.parametrize()
@_RANDOM
def test_the_real_service_answers_as_documented(real: tuple[FastAPI, str], case: schemathesis.Case[Any]) -> None:
    """The same of the real service over a database."""
    _check(case, *real)


def _check(case: schemathesis.Case[Any], app: FastAPI, key: str) -> None:
    _switch.app = app
    # What has the right form may still be refused for what it means.
    excluded = [schemathesis.checks.positive_data_acceptance]
    case.call_and_validate(headers=_as(key), excluded_checks=excluded)


def _as(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


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
def test_the_real_service_is_not_broken_by_odd_values(
    real: tuple[FastAPI, str], method: str, path: str, body: str
) -> None:
    """Numbers beyond what a database counts to, and characters that it does not keep, are no server's errors."""
    app, key = real
    with serving(app) as url, httpx.Client(base_url=url, headers=_as(key), trust_env=False) as operator:
        answer = operator.request(method, path, content=body.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text
