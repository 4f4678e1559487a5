"""Both clients: their requests, answers, errors, retries and streams."""

import asyncio
import inspect
import itertools
import json
import pickle
import sys
from hashlib import sha256
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from braid_client import AsyncClient, Client, NotDone, NotUnderstood, Refused, Unreachable
from braid_client.answers.dataflows import Stop
from braid_client.answers.jobs import ImageForm, PlacementPlanForm
from braid_client.answers.machines import MachineClassForm
from braid_client.answers.pipelines import ReplanForm
from braid_client.answers.reconfigurations import ReconfigurationForm, ReconfigurationState
from braid_client.answers.sources import (
    ProposalForm,
    SchemaForm,
    SourceForm,
    VisibilityForm,
    WebhookForm,
    WebhookRotationForm,
)
from braid_client.answers.tenants import KeyForm, PublishingForm, Quota, SecretForm, TenantForm
from braid_client.errors import REQUEST_ATTEMPTS, RETRY_PATIENCE, uses_proxies
from braid_client.streams import STREAM_ATTEMPTS
from dags.vocabulary import ModuleShape
from manager.rest import examples
from tests.braid_client.samples import (
    AUDIT,
    BILL,
    CONSOLE_LINK,
    CREDENTIALS,
    DATAFLOW,
    DEAD_LETTER,
    DEAD_LETTER_GROUP,
    DEFRAGMENTATION_PREVIEW,
    DETAIL,
    EXPLAINED,
    FIGURES,
    FRAGMENTATION,
    HISTORY,
    HOST,
    IMAGE,
    JOB,
    KEY_ANSWER,
    LOGIN,
    MACHINE,
    MACHINE_CLASS,
    MODULE,
    MODULE_DETAIL,
    MOVE,
    OPERATION,
    OVERVIEW,
    PDDL,
    PLACEMENT,
    PLAN,
    PLAN_FORM,
    QUOTA,
    RECONFIGURATION,
    REMOVAL,
    RENTAL,
    REPLANNED,
    RUNNING_DAG,
    RUNNING_TASK,
    SAVINGS,
    SECRET,
    SERIES,
    SOURCE,
    STREAM,
    SUBMITTED,
    TASK_TYPE,
    TENANT,
    WEBHOOK,
    WHEEL,
)
from tests.braid_client.scripted_service import (
    KEY,
    URL,
    Ask,
    Service,
    asynchronously,
    event,
    lines,
    ok,
    page,
    refusal,
    synchronously,
)

BOTH = pytest.mark.parametrize("ask", [synchronously, asynchronously])
SOURCE_FORM = SourceForm.model_validate(
    {"name": "city", "connection": {"kind": "topic", "topic": "city"}, "schema": {"f": "float"}}
)
ADAPTED = examples.BODIES["AdaptationAnswer"]
TRIAL = examples.BODIES["TrialAnswer"]
TASK_EVENTS = examples.BODIES["TaskEvents"]
PROPOSAL = examples.BODIES["ProposalAnswer"]
TENANT_FORM = TenantForm(name="school", quota=Quota(tasks=2))

ROUTES: list[tuple[str, tuple[Any, ...], str, str, Any, Any]] = [
    # method of the client, its arguments, HTTP method and path with query, body, answer
    ("submit", ({"name": "x"},), "POST", "/v1/dataflows", {"name": "x"}, SUBMITTED),
    ("submit", (b'{"name": "x"}',), "POST", "/v1/dataflows", {"name": "x"}, SUBMITTED),
    (
        "submit_together",
        ([{"name": "x"}, b'{"name": "y"}'],),
        "POST",
        "/v1/dataflows/bundle",
        {"documents": [{"name": "x"}, {"name": "y"}]},
        {"dataflows": [SUBMITTED]},
    ),
    (
        "explain_together",
        ([{"name": "x"}],),
        "POST",
        "/v1/explain/bundle",
        {"documents": [{"name": "x"}]},
        {"documents": [EXPLAINED], "started": 2},
    ),
    ("try_document", (b'{"name":  "x"}',), "POST", "/v1/try", {"document": {"name": "x"}}, TRIAL),
    ("task_events", ("d1", "a"), "GET", "/v1/dataflows/d1/tasks/a/events", None, TASK_EVENTS),
    ("replace", ("d1", {"name": "x"}), "PUT", "/v1/dataflows/d1", {"name": "x"}, SUBMITTED),
    ("remove", ("d1",), "DELETE", "/v1/dataflows/d1?stop=now", None, DATAFLOW),
    ("remove", ("d1", Stop.DRAIN), "DELETE", "/v1/dataflows/d1?stop=drain", None, DATAFLOW),
    ("dataflow_tasks", ("d1",), "GET", "/v1/dataflows/d1/tasks", None, FIGURES),
    ("preview_removal", ("d1",), "GET", "/v1/dataflows/d1/removal", None, REMOVAL),
    (
        "reconfigure",
        ("d1", ReconfigurationForm(tasks={"a": {"config": {"add": 2}}})),
        "POST",
        "/v1/dataflows/d1/reconfigurations",
        {"tasks": {"a": {"config": {"add": 2}}}},
        RECONFIGURATION,
    ),
    ("reconfiguration", ("d1", "7"), "GET", "/v1/dataflows/d1/reconfigurations/7", None, RECONFIGURATION),
    ("cancel_reconfiguration", ("d1", "7"), "DELETE", "/v1/dataflows/d1/reconfigurations/7", None, RECONFIGURATION),
    ("undo_reconfiguration", ("d1", "7"), "POST", "/v1/dataflows/d1/reconfigurations/7/undo", None, RECONFIGURATION),
    ("replan", ("d1", ReplanForm()), "POST", "/v1/dataflows/d1/replan", {}, REPLANNED),
    ("adaptation", ("d1",), "GET", "/v1/dataflows/d1/adaptation", None, ADAPTED),
    ("set_policy", ("d1", {"cores": 1}), "PUT", "/v1/dataflows/d1/policy", {"cores": 1}, ADAPTED),
    ("choose", ("d1", {"a": "b"}), "PUT", "/v1/dataflows/d1/choice", {"choose": {"a": "b"}}, ADAPTED),
    ("explain", ({"name": "x"},), "POST", "/v1/explain", {"name": "x"}, EXPLAINED),
    ("dataflow", ("a/b?",), "GET", "/v1/dataflows/a%3Ab%3F", None, DETAIL),
    ("register_source", (SOURCE_FORM,), "POST", "/v1/sources", SOURCE_FORM, SOURCE),
    ("register_source", (b'{"name": "city"}',), "POST", "/v1/sources", {"name": "city"}, SOURCE),
    ("source", ("city",), "GET", "/v1/sources/city", None, SOURCE),
    (
        "send_events",
        ("city", b'{"f": 1.5}', "day", 7),
        "POST",
        "/v1/sources/city/events?producer=day&first=7",
        {"f": 1.5},
        {"source": "school:city", "producer": "day", "next": 8},
    ),
    (
        "producer",
        ("city", "day"),
        "GET",
        "/v1/sources/city/producers/day",
        None,
        {"source": "school:city", "producer": "day", "next": 8},
    ),
    (
        "propose_source",
        (ProposalForm(topic="school/raw", seconds=40),),
        "POST",
        "/v1/sources/propose",
        {"topic": "school/raw", "seconds": 40},
        PROPOSAL,
    ),
    ("revoke_source", ("city",), "DELETE", "/v1/sources/city", None, {"dataflows": 2}),
    (
        "make_webhook",
        ("city", WebhookForm(scheme="github")),
        "POST",
        "/v1/sources/city/webhook",
        {"scheme": "github", "prefix": ""},
        WEBHOOK | {"secret": "s" * 64},
    ),
    (
        "rotate_webhook",
        ("city", WebhookRotationForm(former_hours=0)),
        "POST",
        "/v1/sources/city/webhook/rotate",
        {"former_hours": 0},
        WEBHOOK | {"secret": "s" * 64},
    ),
    ("webhook", ("city",), "GET", "/v1/sources/city/webhook", None, WEBHOOK),
    ("revoke_webhook", ("city",), "DELETE", "/v1/sources/city/webhook", None, WEBHOOK),
    (
        "set_visibility",
        ("city", VisibilityForm(visibility="public")),
        "PUT",
        "/v1/sources/city/visibility",
        {"visibility": "public"},
        {"dataflows": 2},
    ),
    (
        "declare_fields",
        ("city", SchemaForm.model_validate({"schema": {"f": "float"}})),
        "PUT",
        "/v1/sources/city/schema",
        {"schema": {"f": "float"}},
        {"source": SOURCE, "going_on": 1, "dependent": []},
    ),
    ("publish_module", ({"name": "clean"},), "POST", "/v1/modules", {"name": "clean"}, MODULE_DETAIL),
    ("module", ("clean", 2), "GET", "/v1/modules/clean/2", None, MODULE_DETAIL),
    ("remove_wheel", ("0" * 64,), "DELETE", f"/v1/wheels/{'0' * 64}", None, WHEEL),
    ("deprecate_module", ("a/b", 2), "POST", "/v1/modules/a%2Fb/2/deprecate", None, MODULE),
    ("admit", (TENANT_FORM,), "POST", "/v1/tenants", {"name": "school", "quota": {"tasks": 2}}, TENANT),
    ("set_quota", ("school", Quota(**QUOTA)), "PUT", "/v1/tenants/school/quota", QUOTA, TENANT),
    (
        "set_publishing",
        ("school", PublishingForm(code=True)),
        "PUT",
        "/v1/tenants/school/publishing",
        {"code": True},
        TENANT,
    ),
    ("make_credentials", ("school",), "POST", "/v1/tenants/school/credentials", None, CREDENTIALS),
    ("broker_login", ("school",), "GET", "/v1/tenants/school/credentials", None, LOGIN),
    ("make_key", (KeyForm(note="x"),), "POST", "/v1/keys", {"note": "x"}, KEY_ANSWER | {"key": "hush"}),
    ("revoke_key", ("k1",), "DELETE", "/v1/keys/k1", None, KEY_ANSWER),
    ("make_console_link", (), "POST", "/v1/session/link", None, CONSOLE_LINK),
    ("put_secret", ("a/b", SecretForm(secret="hush")), "PUT", "/v1/secrets/a%2Fb", {"secret": "hush"}, SECRET),  # noqa: S106 - an example
    ("remove_secret", ("lake",), "DELETE", "/v1/secrets/lake", None, SECRET),
    ("replay_dead_letter", (3,), "POST", "/v1/dead-letters/3/replay", None, {"dead_letters": 1, "events": 2}),
    (
        "replay_dead_letters",
        ("d1",),
        "POST",
        "/v1/dead-letters/replay?dataflow=d1",
        None,
        {"dead_letters": 2, "events": 7, "left": 1, "why_left": "its job is busy"},
    ),
    ("discard_dead_letter", (3,), "DELETE", "/v1/dead-letters/3", None, {"dead_letters": 1}),
    ("discard_dead_letters", ("d1",), "DELETE", "/v1/dead-letters?dataflow=d1", None, {"dead_letters": 2}),
    ("job", ("j1",), "GET", "/v1/jobs/j1", None, JOB),
    ("overview", (), "GET", "/v1/overview", None, OVERVIEW),
    ("fragmentation", (), "GET", "/v1/fragmentation", None, FRAGMENTATION),
    ("preview_defragmentation", (), "GET", "/v1/defragmentations/preview", None, DEFRAGMENTATION_PREVIEW),
    ("defragment", (), "POST", "/v1/defragmentations", None, MOVE),
    ("history", ("d1",), "GET", "/v1/dataflows/d1/series?range=1h", None, HISTORY),
    ("savings", (), "GET", "/v1/reports/savings", None, SAVINGS),
    ("admit_machine", ("north",), "POST", "/v1/machines/north/admit", None, MACHINE),
    ("drain_machine", ("north",), "POST", "/v1/machines/north/drain", None, MACHINE),
    ("undrain_machine", ("north/1",), "DELETE", "/v1/machines/north%2F1/drain", None, MACHINE),
    ("forget_machine", ("north",), "DELETE", "/v1/machines/north", None, MACHINE),
    (
        "put_machine_class",
        ("large", MachineClassForm(cores=8, price=2.4)),
        "PUT",
        "/v1/machine-classes/large",
        {"cores": 8, "price": 2.4},
        MACHINE_CLASS,
    ),
    ("remove_machine_class", ("large",), "DELETE", "/v1/machine-classes/large", None, MACHINE_CLASS),
    (
        "put_image",
        ("gpu-large", ImageForm(tags=frozenset({"gpu"}), cores=8.0)),
        "PUT",
        "/v1/images/gpu-large",
        {"tags": ["gpu"], "cores": 8.0},
        IMAGE,
    ),
    ("explain_placement", ("d1",), "GET", "/v1/dataflows/d1/placement", None, PLACEMENT),
    ("export_placement", ("d1",), "GET", "/v1/dataflows/d1/placement/pddl", None, PDDL),
    (
        "check_placement_plan",
        ("d1", PlacementPlanForm(**PLAN_FORM)),
        "POST",
        "/v1/dataflows/d1/placement/plan",
        PLAN_FORM,
        PLAN,
    ),
    ("remove_image", ("gpu-large",), "DELETE", "/v1/images/gpu-large", None, IMAGE),
    ("savings_series", (), "GET", "/v1/reports/savings/series", None, SERIES),
    ("bill", (), "GET", "/v1/reports/bills", None, BILL),
]
LISTS = {
    "dataflows": ("/v1/dataflows", DATAFLOW),
    "sources": ("/v1/sources", SOURCE),
    "task_types": ("/v1/task-types", TASK_TYPE),
    "modules": ("/v1/modules", MODULE),
    "wheels": ("/v1/wheels", WHEEL),
    "tenants": ("/v1/tenants", TENANT),
    "keys": ("/v1/keys", KEY_ANSWER),
    "secrets": ("/v1/secrets", SECRET),
    "running_tasks": ("/v1/running/tasks", RUNNING_TASK),
    "running_dags": ("/v1/running/dags", RUNNING_DAG),
    "jobs": ("/v1/jobs", JOB),
    "streams": ("/v1/streams", STREAM),
    "hosts": ("/v1/hosts", HOST),
    "machines": ("/v1/machines", MACHINE),
    "machine_classes": ("/v1/machine-classes", MACHINE_CLASS),
    "rentals": ("/v1/rentals", RENTAL),
    "images": ("/v1/images", IMAGE),
    "operations": ("/v1/operations", OPERATION),
    "audit": ("/v1/audit", AUDIT),
    "dead_letters": ("/v1/dead-letters", DEAD_LETTER),
    "dead_letter_groups": ("/v1/dead-letters/groups", DEAD_LETTER_GROUP),
}


@BOTH
@pytest.mark.parametrize(("method", "given", "verb", "path", "body", "answer"), ROUTES)
def test_each_method_sends_one_request_and_returns_its_answer(  # noqa: PLR0913 - a route has these parts
    *, ask: Ask, method: str, given: tuple[Any, ...], verb: str, path: str, body: Any, answer: Any
) -> None:
    """Method, path, query and body are those of the route."""
    service = Service([ok(answer)])
    found = ask(service, method, given)
    (asked,) = service.asked
    assert (verb, path) == (asked.method, asked.url.raw_path.decode())
    sent = json.loads(asked.content) if asked.content else None
    if isinstance(body, SourceForm):
        body = json.loads(body.model_dump_json(by_alias=True, exclude_unset=True))
    assert body == sent
    assert answer == json.loads(found.model_dump_json(by_alias=True, exclude_unset=True))


@BOTH
@pytest.mark.parametrize("method", LISTS)
def test_each_list_method_requests_its_route(ask: Ask, method: str) -> None:
    """A short list is one request."""
    path, item = LISTS[method]
    service = Service([page(item)])
    (found,) = ask(service, method, ())
    assert item == json.loads(found.model_dump_json(by_alias=True))
    assert [path] == [asked.url.path for asked in service.asked]


def test_both_clients_have_the_same_methods() -> None:
    """Each method of one is in the other, with the same parameters."""

    def methods(client: type) -> dict[str, list[str]]:
        found = inspect.getmembers(client, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in found if name[0] != "_"}

    assert methods(Client) == methods(AsyncClient)
    assert {method for method, *_ in ROUTES} | LISTS.keys() | {
        *("ask", "events", "tail", "send", "items", "close", "reconfigurations"),
        *("module_versions", "vouch_for_module", "withdraw_vouch", "put_wheel"),
    } == methods(Client).keys()


@BOTH
def test_a_number_that_json_does_not_have_removes_no_field(ask: Ask) -> None:
    """It is sent as it is, for the service to judge; null would remove the field."""
    service = Service([ok(RECONFIGURATION)])
    ask(service, "reconfigure", ("d1", ReconfigurationForm(tasks={"a": {"config": {"max": float("inf")}}})))
    assert service.asked[0].content == b'{"tasks":{"a":{"config":{"max":Infinity}}}}'


@BOTH
def test_the_reconfigurations_are_those_of_a_dataflow(ask: Ask) -> None:
    """The list is below the dataflow, and goes on from page to page."""
    service = Service([page(RECONFIGURATION, following="6"), page(RECONFIGURATION | {"id": "5"})])
    assert ["7", "5"] == [each.id for each in ask(service, "reconfigurations", ("d1",))]
    assert {"/v1/dataflows/d1/reconfigurations"} == {each.url.path for each in service.asked}


@BOTH
def test_the_versions_are_those_of_a_module(ask: Ask) -> None:
    """The list is below the module, and goes on from page to page."""
    service = Service([page(MODULE, following="2"), page(MODULE | {"version": 3})])
    assert [2, 3] == [each.version for each in ask(service, "module_versions", ("clean",))]
    assert {"/v1/modules/clean"} == {each.url.path for each in service.asked}


@BOTH
def test_a_wheel_is_sent_as_it_is_under_its_digest(ask: Ask) -> None:
    """And not as JSON."""
    service = Service([ok(WHEEL)])
    assert "tiny" == ask(service, "put_wheel", (b"PK",)).name
    (asked,) = service.asked
    assert ("PUT", f"/v1/wheels/{sha256(b'PK').hexdigest()}") == (asked.method, asked.url.path)
    assert (b"PK", "application/octet-stream") == (asked.content, asked.headers["Content-Type"])


@pytest.mark.parametrize(("method", "verb"), [("vouch_for_module", "POST"), ("withdraw_vouch", "DELETE")])
def test_an_operator_vouches_for_a_tenants_version(method: str, verb: str) -> None:
    """It names the tenant, because others may have a module of that name too."""
    service = Service([ok(MODULE)])
    with service.client() as client:
        getattr(client, method)("clean", 2, tenant="school")
    (asked,) = service.asked
    assert (verb, "/v1/modules/clean/2/vouch?tenant=school") == (asked.method, asked.url.raw_path.decode())


def test_modules_are_filtered() -> None:
    """Each filter that is given is sent as a parameter of the query."""
    service = Service([page(MODULE), page(MODULE)])
    with service.client() as client:
        next(client.modules(tenant="school", name="clean", shape=ModuleShape.FILTER, tag="fast", deprecated=False))
        next(client.modules(deprecated=True))
    given = {"tenant": "school", "name": "clean", "shape": "filter", "tag": "fast", "deprecated": "false"}
    expected = [given | {"limit": "100"}, {"deprecated": "true", "limit": "100"}]
    assert expected == [dict(asked.url.params) for asked in service.asked]


@BOTH
def test_a_list_continues_from_page_to_page(ask: Ask) -> None:
    """Each request has the cursor of the page before, and the same filters."""
    service = Service([page(DATAFLOW, following="c/1"), page(DATAFLOW | {"id": "d2"})])
    assert [each.id for each in ask(service, "dataflows", ())] == ["d1", "d2"]
    assert [{"limit": "100"}, {"limit": "100", "after": "c/1"}] == [dict(each.url.params) for each in service.asked]


def test_a_page_is_requested_when_it_is_needed() -> None:
    """The first items of a long list need one request."""
    service = Service([page(DATAFLOW, following="more")])
    with service.client() as client:
        found = client.dataflows(name="x")
        assert service.asked == []
        next(found)
    assert ["x"] == [asked.url.params["name"] for asked in service.asked]


def test_a_document_is_tried_on_events_and_on_the_newest() -> None:
    """Both are sent only if they were given, and the document as it is."""
    service = Service([ok(TRIAL)])
    with service.client() as client:
        client.try_document(b'{"name":  "x"}', events={"s": [{"t": 1}]}, newest=5, tenant="a")
    (request,) = service.asked
    assert '{"document": {"name":  "x"}, "events": {"s": [{"t": 1}]}, "newest": 5}' == request.content.decode()
    assert {"tenant": "a"} == dict(request.url.params)


def test_a_placement_is_explained_for_a_task() -> None:
    """The task that is given is sent as a parameter of the query."""
    service = Service([ok(PLACEMENT), ok(PLACEMENT)])
    with service.client() as client:
        for task in ("a", None):
            client.explain_placement("d1", task=task)
    assert ["a", None] == [asked.url.params.get("task") for asked in service.asked]


def test_running_tasks_are_filtered_by_job() -> None:
    """A filter that is given is sent as a parameter of the query."""
    service = Service([page(RUNNING_TASK), page(RUNNING_TASK)])
    with service.client() as client:
        assert [7, 7] == [each.instance for job in ("j1", None) for each in client.running_tasks(job=job)]
    assert ["j1", None] == [asked.url.params.get("job") for asked in service.asked]


@BOTH
def test_the_api_key_is_sent_but_never_shown(ask: Ask) -> None:
    """It is in its header, and in no `repr`."""
    service = Service([page()])
    ask(service, "jobs", ())
    (asked,) = service.asked
    assert f"Bearer {KEY}" == asked.headers["Authorization"]
    assert "hush" not in str(asked.url)
    for client in (service.client(), Client(URL, SecretStr(KEY))):
        assert "hush" not in repr((client, vars(client)))
    assert "hush" not in repr(service.async_client())


@BOTH
def test_a_refusal_holds_the_whole_problem(ask: Ask) -> None:
    """Status and code are for programs, detail and errors for people."""
    wrong = {"pointer": "/tasks/0", "code": "unknown-type", "message": "unknown task type", "remedy": "mend it"}
    service = Service([refusal(422, "invalid-dataflow", errors=[wrong])])
    with pytest.raises(Refused, match="It is invalid-dataflow; mend it") as raised:
        ask(service, "submit", ({},))
    error = raised.value
    assert (422, "invalid-dataflow", "No") == (error.status, error.code, error.title)
    assert [wrong] == [each.model_dump() for each in error.errors]
    assert len(service.asked) == 1


def test_a_refusal_can_be_pickled() -> None:
    """It reaches another process with all its parts."""
    refused = Refused(status=429, code="quota", title="Too many", detail="wait", retry_after=2.0)
    arrived = pickle.loads(pickle.dumps(refused))  # noqa: S301 - what was written a moment ago
    assert (vars(refused), str(refused)) == (vars(arrived), str(arrived))


@BOTH
@pytest.mark.parametrize("status", [404, 500])
def test_an_error_of_another_program_is_a_refusal(ask: Ask, status: int) -> None:
    """Its message says what to check."""
    with pytest.raises(Refused, match="check that this is the URL of a Braid service") as raised:
        ask(Service([httpx.Response(status, text="<html>")]), "jobs", ())
    assert (status, "unknown") == (raised.value.status, raised.value.code)


@BOTH
def test_an_answer_of_another_program_is_not_understood(ask: Ask) -> None:
    """The message names the request and the remedy."""
    with pytest.raises(NotUnderstood, match=f"GET {URL}/v1/jobs gave an answer that this client does not understand"):
        ask(Service([httpx.Response(200, text="<html>")]), "jobs", ())


@BOTH
@pytest.mark.parametrize("passing", [refusal(503, "not-ready"), httpx.Response(502), httpx.ReadTimeout("slow")])
def test_a_read_is_retried_after_a_transient_error(ask: Ask, passing: Any) -> None:
    """A service that is starting, or a proxy before it, gets some time."""
    service = Service([passing, passing, page()])
    assert ask(service, "jobs", ()) == []
    assert (3, [0.1, 0.2]) == (len(service.asked), service.waited)


@BOTH
def test_a_submission_is_retried_with_the_same_key(ask: Ask) -> None:
    """The service sees that it is the same one; the next submission has another key."""
    service = Service([httpx.ReadError("broke"), ok(SUBMITTED)])
    ask(service, "submit", ({},))
    ask(service, "submit", ({},))
    first, again, second = (asked.headers["Idempotency-Key"] for asked in service.asked)
    assert first == again != second


@BOTH
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("reconfigure", ("d1", ReconfigurationForm(tasks={"a": {"config": {"add": 2}}}))),
        ("undo_reconfiguration", ("d1", "7")),
    ],
)
def test_a_reconfiguration_is_retried_with_the_same_key(ask: Ask, method: str, arguments: tuple[Any, ...]) -> None:
    """A lost answer does not make it twice; the next one has another key."""
    service = Service([httpx.ReadError("broke"), ok(RECONFIGURATION)])
    ask(service, method, arguments)
    ask(service, method, arguments)
    first, again, second = (asked.headers["Idempotency-Key"] for asked in service.asked)
    assert first == again != second


@BOTH
def test_a_reconfiguration_that_waits_is_an_answer(ask: Ask) -> None:
    """The status 202 is no error; the answer has its place."""
    queue = {"place": 2, "behind": ["5"], "behind_others": 1, "behind_moves": False}
    service = Service([httpx.Response(202, json=RECONFIGURATION | {"state": "waiting", "queue": queue})])
    answer = ask(service, "reconfigure", ("d1", ReconfigurationForm(tasks={"a": {"config": {"add": 2}}})))
    assert (ReconfigurationState.WAITING, queue) == (answer.state, answer.queue.model_dump(mode="json"))


def test_a_submission_has_the_key_that_is_given() -> None:
    """So a caller can repeat it later."""
    service = Service([ok(SUBMITTED)])
    with service.client() as client:
        client.submit({}, tenant="school", idempotency_key="mine")
    (asked,) = service.asked
    assert ("mine", "school") == (asked.headers["Idempotency-Key"], asked.url.params["tenant"])


@BOTH
def test_retry_after_sets_the_wait(ask: Ask) -> None:
    """It overrides the client's own backoff."""
    service = Service([refusal(429, "quota-exceeded", **{"Retry-After": "7"}), ok(SUBMITTED)])
    ask(service, "submit", ({},))
    assert service.waited == [7.0]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(429, "quota-exceeded"),
        refusal(429, "quota-exceeded", **{"Retry-After": f"{RETRY_PATIENCE + 1:g}"}),
        refusal(409, "conflict"),
        refusal(500, "failed"),
    ],
)
def test_a_lasting_refusal_is_raised_at_once(answer: httpx.Response) -> None:
    """A long wait, or a request that is wrong in itself, is not retried."""
    service = Service([answer])
    with pytest.raises(Refused):
        synchronously(service, "submit", ({},))
    assert (1, []) == (len(service.asked), service.waited)


@BOTH
@pytest.mark.parametrize(
    ("method", "given"),
    [("remove", ("d1",)), ("replace", ("d1", {})), ("make_key", (KeyForm(),)), ("admit", (TENANT_FORM,))],
)
def test_a_change_without_a_key_is_not_retried(ask: Ask, method: str, given: tuple[Any, ...]) -> None:
    """The message says that it may have been done."""
    service = Service([httpx.ReadError("broke")])
    with pytest.raises(Unreachable, match="it may have been done all the same, so check before you try again"):
        ask(service, method, given)
    assert len(service.asked) == 1


@BOTH
def test_an_absent_service_is_one_clear_message(ask: Ask) -> None:
    """It names the URL, the reason and the remedy, without a chain of causes."""
    service = Service([httpx.ConnectError("[Errno 111] Connection refused")])
    with pytest.raises(Unreachable) as raised:
        ask(service, "jobs", ())
    assert str(raised.value) == (
        f"no service answers at {URL}: [Errno 111] Connection refused; "
        "start one with: braid serve; or name another in BRAID_URL"
    )
    assert REQUEST_ATTEMPTS == len(service.asked)


TROUBLES = st.sampled_from(
    [
        *(
            refusal(status, "x", **{"Retry-After": wait})
            for status in (429, 503)
            for wait in ("0", "3", "29", "1e9", "x")
        ),
        *(refusal(status, "x") for status in (400, 429, 500, 502, 503, 504)),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
    ]
)


@given(troubles=st.lists(TROUBLES, min_size=1, max_size=8))
def test_retries_are_bounded(troubles: list[Any]) -> None:
    """In number and in time, for any sequence of errors."""
    service = Service(troubles)
    with pytest.raises(NotDone):
        synchronously(service, "jobs")
    assert len(service.asked) <= REQUEST_ATTEMPTS
    assert sum(service.waited) <= RETRY_PATIENCE


def take(count: int, service: Service) -> list[int]:
    with service.client() as client:
        return [found.id for found in itertools.islice(client.events(), count)]


def test_events_come_one_by_one() -> None:
    """Signs of life and unknown fields are skipped."""
    service = Service([lines(": alive", *event(1), "retry: 10", "", *event(2))])
    assert take(2, service) == [1, 2]
    assert service.asked[0].headers["Accept"] == "text/event-stream"
    assert "Last-Event-ID" not in service.asked[0].headers


def test_a_broken_stream_continues_where_it_broke() -> None:
    """The new request names the last complete event."""
    service = Service([lines(*event(1), *event(2)[:3]), httpx.ReadError("broke"), lines(*event(2))])
    assert take(2, service) == [1, 2]
    assert [None, "1", "1"] == [asked.headers.get("Last-Event-ID") for asked in service.asked]


@BOTH
@pytest.mark.parametrize(
    ("trouble", "expected", "attempts"),
    [
        (httpx.ConnectError("refused"), Unreachable, STREAM_ATTEMPTS),
        (lines(), Unreachable, STREAM_ATTEMPTS),
        (refusal(503, "not-ready"), Refused, STREAM_ATTEMPTS),
        (refusal(401, "unauthenticated"), Refused, 1),
        (lines("data: {}", ""), NotUnderstood, 1),
    ],
)
def test_a_stream_that_stays_broken_raises(ask: Ask, trouble: Any, expected: type[NotDone], attempts: int) -> None:
    """After some attempts without an event, or at once if no attempt can help."""
    service = Service([trouble])
    with pytest.raises(expected):
        ask(service, "events", ())
    assert attempts == len(service.asked)


def output(first: int, *events: object) -> list[str]:
    """The lines of a stream of outputs, for events of one sink."""
    return [json.dumps({"sink": "out", "epoch": 1, "number": n, "event": e}) for n, e in enumerate(events, first)]


def test_a_broken_tail_continues_where_it_broke() -> None:
    """The new request asks for past events again; each event is yielded once, and signs of life are skipped."""
    one, all_of_them = output(0, "a"), output(0, "a", "b", "\ud800")
    service = Service([lines("", *one), httpx.ReadError("broke"), lines(*all_of_them, "")])
    with service.client() as client:
        found = [each.event for each in itertools.islice(client.tail("d1", "out", last=5), 3)]
    assert ["a", "b", "\ud800"] == found
    assert [("5", "out"), ("1000", "out"), ("1000", "out")] == [
        (asked.url.params["last"], asked.url.params["sink"]) for asked in service.asked
    ]


GAP = json.dumps({"sink": "out", "epoch": 1, "number": 2, "missed": 4})


def test_a_tail_gives_dictionaries_and_tables() -> None:
    """Of the events alone; those that were missed are counted."""
    texts = [*output(0, {"t": 1.5}, {"s": "a"}), GAP, *output(6, {"t": 2.5}, {"t": 3.5})]
    with Service([lines(*texts)]).client() as client:
        tail = client.tail("d1")
        assert [{"t": 1.5}] == list(itertools.islice(tail.dictionaries(), 1))
        table = tail.to_pandas(2)
        assert {"s": {0: "a"}, "t": {1: 2.5}} == {name: table[name].dropna().to_dict() for name in ("s", "t")}
        assert (4, 7) == (tail.missed, next(tail).number)


def test_the_async_tail_gives_the_same() -> None:
    """It is awaited."""

    async def read() -> tuple[Any, int, int]:
        service = Service([lines(*output(0, {"t": 1}, {"t": 2}), GAP, *output(6, {"t": 3}, {"t": 4}))])
        async with service.async_client() as client:
            tail = client.tail("d1")
            first = await anext(tail.dictionaries())
            return first, len(await tail.to_pandas(2)), tail.missed

    assert ({"t": 1}, 2, 4) == asyncio.run(read())


def test_a_table_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is waited for."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    service = Service([lines()])
    with service.client() as client, pytest.raises(ImportError, match="pip install pandas"):
        client.tail("d1").to_pandas(1)
    assert not service.asked


@BOTH
def test_a_refused_tail_raises(ask: Ask) -> None:
    """The stream of a removed dataflow is not retried."""
    with pytest.raises(Refused, match="conflict"):
        ask(Service([refusal(409, "conflict")]), "tail", ("d1",))


def test_the_async_client_reads_events() -> None:
    """From the same stream as the sync one."""
    service = Service([lines(*event(1), *event(2)), refusal(403, "forbidden")])
    with pytest.raises(Refused, match="forbidden"):
        asynchronously(service, "events")
    assert service.asked[1].headers["Last-Event-ID"] == "2"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8642", False),
        ("http://[::1]:8642", False),
        ("http://localhost", False),
        ("https://braid.example", True),
        ("http://10.0.0.7", True),
    ],
)
def test_a_service_on_this_machine_is_reached_without_a_proxy(url: str, expected: bool) -> None:  # noqa: FBT001 - an example
    """A proxy would see the API key, and could not reach the service."""
    assert expected == uses_proxies(url)
