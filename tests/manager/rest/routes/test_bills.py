"""What is asked of bills and of savings over time over HTTP."""

import csv
import io

import httpx
import pytest

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
