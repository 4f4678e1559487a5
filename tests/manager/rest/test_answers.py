"""What use cases answer over HTTP."""

import csv
import gzip
import io
import json
from typing import Any

import httpx
import pytest

from braid_client.answers.dead_letters import DeadLetterAnswer
from braid_client.answers.sources import SentAnswer
from manager.rest import examples
from manager.sources.use_cases import SourceEvents
from manager.use_case import Caller
from tests.manager.rest.conftest import Asking
from tests.manager.rest.fake_service import FakeService

DOCUMENT = json.dumps(examples.DOCUMENT).encode()
JSON = {"Content-Type": "application/json"}


def _submitted(client: httpx.Client, **headers: str) -> dict[str, Any]:
    answer = client.post("/v1/dataflows", content=DOCUMENT, headers=JSON | headers)
    assert 201 == answer.status_code, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_submission_is_answered_with_where_it_is_found(ann: httpx.Client) -> None:
    """A submission answers 201, and its location shows the dataflow with its document."""
    answer = ann.post("/v1/dataflows", content=DOCUMENT, headers=JSON)
    assert 201 == answer.status_code
    found = ann.get(answer.headers["Location"])
    assert (200, answer.json()["id"], examples.DOCUMENT) == (
        found.status_code,
        found.json()["id"],
        found.json()["document"],
    )


def test_a_document_is_passed_on_byte_for_byte(ann: httpx.Client, service: FakeService) -> None:
    """What was sent reaches the service as it was sent, with the idempotency key beside it."""
    spaced = b"  " + DOCUMENT + b"\n"
    ann.post("/v1/dataflows", content=spaced, headers=JSON | {"Idempotency-Key": "k-1"})
    assert [("k-1", spaced)] == service.seen


def test_an_idempotency_key_submits_once(ann: httpx.Client) -> None:
    """The same key and document are answered again, and marked so; with another document the key is refused."""
    first, again = (
        ann.post("/v1/dataflows", content=DOCUMENT, headers=JSON | {"Idempotency-Key": "once"}) for _ in range(2)
    )
    assert (201, first.json()) == (again.status_code, again.json())
    assert [None, "true"] == [answer.headers.get("Idempotency-Replayed") for answer in (first, again)]
    other = ann.post("/v1/dataflows", content=DOCUMENT + b" ", headers=JSON | {"Idempotency-Key": "once"})
    assert (409, "/problems/conflict") == (other.status_code, other.json()["type"])
    assert 1 == len(ann.get("/v1/dataflows").json()["items"])


def test_a_reconfiguration_that_waits_is_answered_later(ann: httpx.Client) -> None:
    """The status of one that begins is 200, of one that waits 202 with its place; the location shows either."""
    path = f"/v1/dataflows/{_submitted(ann)['id']}/reconfigurations"
    bodies = [{"tasks": {"plausible": {"config": {"max": most}}}} for most in (50.0, 60.0)]
    first, second = (ann.post(path, json=each, headers={"Idempotency-Key": f"k{at}"}) for at, each in enumerate(bodies))
    assert [(200, "switching", None), (202, "waiting", ["7", "8"])] == [
        (each.status_code, each.json()["state"], (each.json()["queue"] or {}).get("behind")) for each in (first, second)
    ]
    assert [first.json(), second.json()] == [ann.get(each.headers["Location"]).json() for each in (first, second)]


def test_an_idempotency_key_reconfigures_once(ann: httpx.Client) -> None:
    """The same key and form are answered again, with the status that it has then; another form is refused."""
    path = f"/v1/dataflows/{_submitted(ann)['id']}/reconfigurations"
    body, headers = {"tasks": {"plausible": {"config": {"max": 50.0}}}}, {"Idempotency-Key": "once"}
    first, again = (ann.post(path, json=body, headers=headers) for _ in range(2))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert [None, "true"] == [answer.headers.get("Idempotency-Replayed") for answer in (first, again)]
    other = ann.post(path, json={"tasks": {"plausible": {"config": {"max": 51.0}}}}, headers=headers)
    assert (409, "/problems/conflict") == (other.status_code, other.json()["type"])
    assert 1 == len(ann.get(path).json()["items"])
    assert 422 == ann.post(path, json=body, headers={"Idempotency-Key": "two words"}).status_code


def test_an_operator_says_for_which_tenant(operator: httpx.Client) -> None:
    """An operator's submission without a tenant is refused at that parameter, and with one belongs to it."""
    without = operator.post("/v1/dataflows", content=DOCUMENT, headers=JSON)
    assert (422, "/query/tenant") == (without.status_code, without.json()["errors"][0]["pointer"])
    answer = operator.post("/v1/dataflows", params={"tenant": "ann"}, content=DOCUMENT, headers=JSON)
    assert "ann" == answer.json()["tenant"]


def test_a_list_is_read_in_parts(ann: httpx.Client) -> None:
    """Following `next` from part to part gives every item once, in order."""
    made = [_submitted(ann)["id"] for _ in range(5)]
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    ends: list[bool] = []
    for _ in range(3):
        page = ann.get("/v1/dataflows", params=query).json()
        seen += [each["id"] for each in page["items"]]
        ends.append(page["next"] is None)
        query["after"] = page["next"]
    assert (made, [False, False, True]) == (seen, ends)


@pytest.mark.parametrize("limit", ["0", "501", "-1", "many", ""])
def test_a_part_has_one_to_500_items(ann: httpx.Client, limit: str) -> None:
    """Any other limit is refused, and the problem points at it."""
    answer = ann.get("/v1/dataflows", params={"limit": limit})
    assert (422, ["/query/limit"]) == (answer.status_code, [each["pointer"] for each in answer.json()["errors"]])


def test_filters_reach_the_service(ann: httpx.Client) -> None:
    """State and name select; removed dataflows are listed only where they are asked for."""
    gone, kept = _submitted(ann)["id"], _submitted(ann)["id"]
    assert "removed" == ann.delete(f"/v1/dataflows/{gone}").json()["state"]
    listed = {
        query: [each["id"] for each in ann.get(f"/v1/dataflows?{query}").json()["items"]]
        for query in ("", "state=removed", "name=nobody")
    }
    assert {"": [kept], "state=removed": [gone], "name=nobody": []} == listed


def test_a_dataflow_is_drained_where_that_is_asked_for(ann: httpx.Client) -> None:
    """`stop=drain` reaches the service."""
    made = _submitted(ann)["id"]
    assert "draining" == ann.delete(f"/v1/dataflows/{made}", params={"stop": "drain"}).json()["state"]


def test_a_replaced_document_raises_the_revision(ann: httpx.Client) -> None:
    """PUT swaps the document."""
    made = _submitted(ann)["id"]
    answer = ann.put(f"/v1/dataflows/{made}", content=DOCUMENT, headers=JSON)
    assert (200, 2) == (answer.status_code, answer.json()["revision"])


def test_explain_changes_nothing(ann: httpx.Client) -> None:
    """What a submission would do is answered, and nothing is there afterwards."""
    answer = ann.post("/v1/explain", content=DOCUMENT, headers=JSON)
    assert (200, 4) == (answer.status_code, len(answer.json()["started"]))
    assert [] == ann.get("/v1/dataflows").json()["items"]


@pytest.mark.parametrize(
    ("query", "expected"), [("", "latest"), ("?start=latest", "latest"), ("?start=earliest", "earliest")]
)
def test_an_explanation_is_of_the_start_that_is_asked_for(ann: httpx.Client, query: str, expected: str) -> None:
    """`start` reaches the service; where nothing is said it is the latest, as for a submission."""
    assert expected == ann.post(f"/v1/explain{query}", content=DOCUMENT, headers=JSON).json()["start"]


def test_a_source_is_registered_shown_and_revoked(ann: httpx.Client, bob: httpx.Client) -> None:
    """A source lives under its name, its schema is called `schema`, and who may read it can be changed."""
    form = {"name": "s", "connection": {"kind": "topic", "topic": "a/b"}, "schema": {"t": "float"}}
    made = ann.post("/v1/sources", json=form)
    assert (201, {"t": "float"}) == (made.status_code, made.json()["schema"])
    place = made.headers["Location"]
    assert [200, 404] == [client.get(place).status_code for client in (ann, bob)]
    assert {"dataflows": 0} == ann.put(f"{place}/visibility", json={"visibility": "public"}).json()
    assert [200, 200] == [client.get(place).status_code for client in (ann, bob)]
    assert [403, 200] == [client.delete(place).status_code for client in (bob, ann)]
    assert 404 == ann.get(place).status_code


def test_a_key_that_is_made_lets_in_until_it_is_revoked(ask: Asking, operator: httpx.Client) -> None:
    """An operator admits a tenant and makes its key, which works at once, and no more once it is revoked."""
    assert 201 == operator.post("/v1/tenants", json={"name": "eve"}).status_code
    made = operator.post("/v1/keys", json={"tenant": "eve"}).json()
    eve = ask(made["key"])
    assert ["eve"] == [each["name"] for each in eve.get("/v1/tenants").json()["items"]]
    assert 201 == eve.post("/v1/tenants/eve/credentials").status_code
    assert 200 == operator.delete(f"/v1/keys/{made['id']}").status_code
    assert 401 == eve.get("/v1/tenants").status_code


def test_a_quota_is_set_and_holds(ann: httpx.Client, operator: httpx.Client) -> None:
    """Beyond its quota a tenant is refused, and learns when to ask again in whole seconds."""
    assert 200 == operator.put("/v1/tenants/ann/quota", json={"dataflows": 0}).status_code
    answer = ann.post("/v1/dataflows", content=DOCUMENT, headers=JSON)
    assert (429, "1", "/problems/quota-exceeded") == (
        answer.status_code,
        answer.headers["Retry-After"],
        answer.json()["type"],
    )


@pytest.mark.parametrize("path", ["running/dags", "jobs", "jobs/1", "streams", "hosts"])
def test_what_runs_is_the_operators_to_see(ann: httpx.Client, operator: httpx.Client, path: str) -> None:
    """An operator is shown what runs; a tenant may not see it."""
    assert [403, 200] == [client.get(f"/v1/{path}").status_code for client in (ann, operator)]


def test_the_journal_is_each_ones_own(ann: httpx.Client, bob: httpx.Client, operator: httpx.Client) -> None:
    """A tenant sees its operations, an operator all, newest first and by kind and subject."""
    made = [_submitted(client)["id"] for client in (ann, bob)]
    seen = [
        [each["subject"] for each in client.get("/v1/operations").json()["items"]] for client in (ann, bob, operator)
    ]
    assert [[made[0]], [made[1]], made[::-1]] == seen
    query = {"kind": "submit", "subject": made[0]}
    assert [made[0]] == [each["subject"] for each in operator.get("/v1/operations", params=query).json()["items"]]


def test_dead_letters_are_listed(ann: httpx.Client, service: FakeService) -> None:
    """Dead letters come with their events as they were."""
    service.parked.append(examples.example(DeadLetterAnswer))
    answer = ann.get("/v1/dead-letters").json()["items"]
    assert [{"sensor": "s1", "temperature": "warm"}] == answer[0]["events"]


def test_it_says_that_it_lives_and_whether_it_is_ready(ask: Asking, service: FakeService) -> None:
    """Without a key: it lives always, and is ready where it leads; else it says what it waits for, and till when."""
    nobody = ask(None)
    assert [200, 200] == [nobody.get(path).status_code for path in ("/healthz", "/readyz")]
    service.leads = False
    assert [200, 503] == [nobody.get(path).status_code for path in ("/healthz", "/readyz")]
    answer = nobody.get("/readyz")
    assert ("another manager leads; ask that one", "1") == (answer.json()["detail"], answer.headers["Retry-After"])


BILLS, SERIES = "/v1/reports/bills", "/v1/reports/savings/series"


@pytest.mark.parametrize("path", [BILLS, SERIES])
@pytest.mark.parametrize("parameter", ["from", "to"])
def test_a_time_is_written_with_its_zone(ann: httpx.Client, path: str, parameter: str) -> None:
    """Whatever is no time is refused at its parameter."""
    answer = ann.get(path, params={parameter: "2026-03-01"})
    assert (422, f"/query/{parameter}") == (answer.status_code, answer.json()["errors"][0]["pointer"])


@pytest.mark.parametrize(
    ("accept", "form", "expected"),
    [
        ("*/*", None, "application/json"),
        ("text/csv", None, "text/csv"),
        ("text/csv", "json", "application/json"),
        ("application/json", "csv", "text/csv"),
        ("application/json, text/csv", None, "application/json"),
    ],
)
def test_a_bill_comes_in_the_form_that_is_asked_for(
    ann: httpx.Client, accept: str, form: str | None, expected: str
) -> None:
    """By the parameter, else by the header, else in JSON."""
    answer = ann.get(BILLS, params={} if form is None else {"format": form}, headers={"Accept": accept})
    assert (200, expected) == (answer.status_code, answer.headers["Content-Type"].partition(";")[0])


def test_csv_is_a_file(operator: httpx.Client, ann: httpx.Client) -> None:
    """Named by the hours that it is of, with a row for each dataflow; of others and the overhead an operator reads."""
    found = {}
    for name, client in (("operator", operator), ("ann", ann)):
        answer = client.get(BILLS, params={"format": "csv"})
        file = 'attachment; filename="braid-bill-2026-10-01T00-2026-11-01T00.csv"'
        assert file == answer.headers["Content-Disposition"]
        rows = csv.DictReader(io.StringIO(answer.text, newline=""))
        found[name] = [(each["kind"], each["amount"]) for each in rows]
    own = [("dataflow", "2.232000")]
    assert {"operator": [*own, ("others", "3.720000"), ("overhead", "5.208000")], "ann": own} == found


def test_money_is_answered_as_decimal_text(ann: httpx.Client) -> None:
    """No program reads it as a float that is a little off."""
    bill = ann.get(BILLS).json()
    assert ("0.05", "2.232000", None) == (
        bill["price_per_core_hour"],
        bill["dataflows"][0]["pays"]["amount"],
        bill["whole"],
    )


@pytest.mark.parametrize("step", ["59", "86401", "x", "60.5"])
def test_a_step_is_of_a_minute_to_a_day(ann: httpx.Client, step: str) -> None:
    """Any other is refused at its parameter."""
    answer = ann.get(SERIES, params={"step": step})
    assert (422, "/query/step") == (answer.status_code, answer.json()["errors"][0]["pointer"])


@pytest.mark.parametrize("parameter", ["from", "to"])
@pytest.mark.parametrize("text", ["yesterday", "0.5", "2026-03-01", "2026-03-01T12:00:00", "2026-02-30T12:00:00Z"])
def test_a_time_of_savings_is_written_with_its_zone(ann: httpx.Client, parameter: str, text: str) -> None:
    """Whatever is no time, or leaves open which one, is refused at its parameter, with a time as it should be."""
    answer = ann.get("/v1/reports/savings", params={parameter: text})
    assert 422 == answer.status_code
    (error,) = answer.json()["errors"]
    assert (f"/query/{parameter}", "no-time") == (error["pointer"], error["code"])
    assert text in error["message"]


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01t14:00:00.5+02:00"])
def test_a_time_may_be_of_any_zone(ann: httpx.Client, text: str) -> None:
    """As RFC 3339 writes it."""
    answer = ann.get("/v1/reports/savings", params={"from": text})
    assert (200, "2026-03-01T12:00:00") == (answer.status_code, answer.json()["since"][:19])


def test_events_may_be_compressed(ann: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach the service as they were before, with their content type; the bound is on them as they are then."""
    seen: list[tuple[bytes, str]] = []

    def send(
        _self: SourceEvents, _caller: Caller, name: str, body: bytes, *, media_type: str, **_more: Any
    ) -> SentAnswer:
        seen.append((body, media_type))
        return SentAnswer(source=name, producer="p", next=1)

    monkeypatch.setattr(SourceEvents, "send", send)

    def post(body: bytes, media_type: str = "text/csv; charset=utf-8", coding: str = "gzip") -> tuple[int, str]:
        headers = {"Content-Type": media_type, "Content-Encoding": coding}
        answer = ann.post("/v1/sources/street/events", content=body, headers=headers)
        return answer.status_code, answer.json().get("type", "").rpartition("/")[2]

    rows = b"t\n" + b"1\n" * 400_000
    assert (200, "") == post(gzip.compress(rows))
    assert (200, "") == post(gzip.compress(b"[]"), "application/json", "GZIP")
    assert [(rows, "text/csv"), (b"[]", "application/json")] == seen
    assert (413, "too-large") == post(gzip.compress(b"t\n" * 100_000_000))
    for damaged in (b"", b"x", gzip.compress(rows)[:-1], gzip.compress(rows) + b"x"):
        assert (422, "invalid-request") == post(damaged)
    assert (415, "unsupported-media-type") == post(rows, coding="br")
    assert (415, "unsupported-media-type") == post(rows, "image/png", "identity")
