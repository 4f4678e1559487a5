"""`braid bill` and `braid savings`: their requests and their output."""

import csv
import io
import json

import pytest

from tests.braid_client.samples import BILL, SAVINGS
from tests.braid_client.scripted_service import ok
from tests.manager.braid_runner import Braid


def test_a_bill_is_shown_as_tables(braid: Braid) -> None:
    """One of tenants, with the overhead and the total, and one of dataflows."""
    rows = [" ".join(line.split()) for line in braid("bill", answers=ok(BILL)).stdout.splitlines()]
    assert rows[0] == "2026-01-01 00:00:00 to 2026-02-01 00:00:00, 1.0 hours metered"
    for expected in (
        "tenant core hours at most rented machines amount EUR",
        "school 1.000000 1.000000 0.020000 0.050000",
        "(overhead) 1.000000 0.080000 0.050000",
        "(measured) 1.000000 0.100000 0.050000",
        "small 1 1 0.100000",
        "tenant dataflow name core hours at most rented machines amount EUR",
        "school d1 =1+1 1.000000 1.000000 0.020000 0.050000",
    ):
        assert expected in rows


def test_a_tenant_sees_its_own_costs_without_amounts_if_there_is_no_price(braid: Braid) -> None:
    """An incomplete bill is marked as not final."""
    paid = {"cpu_ns": 1, "core_hours": "0.000000", "amount": None}
    lines = [each | {"pays": paid, "most": paid} for each in BILL["tenants"]]
    bill = BILL | {"complete": False, "tenants": lines, "dataflows": [], "whole": None, "price_per_core_hour": None}
    shown = braid("bill", answers=ok(bill)).stdout
    assert "not final" in shown
    assert "overhead" not in shown
    assert "amount" not in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {}),
        (("--month", "2026-12"), {"from": "2026-12-01T00:00:00+00:00", "to": "2027-01-01T00:00:00+00:00"}),
        (("--from", "2026-01-02T03:00+01:00", "--tenant", "school"), {"from": "2026-01-02T02:00:00+00:00"}),
    ],
)
def test_a_bill_is_requested_for_an_interval(braid: Braid, words: tuple[str, ...], expected: dict[str, str]) -> None:
    """A month lasts from its first day to that of the next, in UTC; with --json the answer is printed unchanged."""
    result = braid("bill", *words, "--json", answers=ok(BILL))
    (asked,) = braid.service.asked
    assert expected == {name: text for name, text in asked.url.params.items() if name != "tenant"}
    assert BILL == json.loads(result.stdout)


def test_csv_is_printed_for_spreadsheets(braid: Braid) -> None:
    """The same as over HTTP; names are not taken for formulas."""
    printed = braid("bill", "--csv", answers=ok(BILL)).stdout
    rows = list(csv.DictReader(io.StringIO(printed, newline="")))
    assert [("dataflow", "'=1+1"), ("overhead", "")] == [(each["kind"], each["name"]) for each in rows]


@pytest.mark.parametrize("words", [("--month", "2026-13"), ("--month", "0000-01"), ("--month", "2026-10", "--to", "x")])
def test_a_wrong_month_is_reported_without_a_request(braid: Braid, words: tuple[str, ...]) -> None:
    """The message names the option."""
    result = braid("bill", *words, answers=ok(BILL))
    assert (1, []) == (result.exit_code, braid.requests())
    assert "--month: " in result.stderr


def test_savings_are_shown_as_tables(braid: Braid) -> None:
    """One of the total by parts and of separate execution, and one each of tenants and dataflows."""
    shown = braid("savings", "--wide", answers=ok(SAVINGS)).stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert rows[0] == "2026-01-02 03:04:05 to 2026-01-02 04:04:00, 1.0 minutes metered, tenants: 1"
    for expected in (
        "cores likely low high price EUR",
        "measured 0.25 0.0125",
        "driver 0.25 0.0125",
        "broker not measured",
        "packed without sharing 0.5 0.25 0.75",
        "work saved by sharing 7.7 %",
        "cores saved by sharing 0.25 0.0125",
        "cores saved by packing 0.5 0.25 0.75",
        "tenant share alone low high work saved by sharing cores saved by sharing cores saved by packing price EUR",
        "school 0.25 0.5 0.25 0.75 50 % 0.25 0.5 0.0125",
        "d1 0.25 0.5 0.25 0.75 50 % 0.25 0.5 0.0125",
    ):
        assert expected in rows


def test_a_tenant_sees_its_own_savings(braid: Braid) -> None:
    """Without a total there is no table of it, and without a price no column of prices."""
    savings = SAVINGS | {"whole": None, "price_per_core_hour": None, "currency": ""}
    shown = braid("savings", answers=ok(savings)).stdout
    assert "measured" not in shown
    assert "price" not in shown
    assert "school" in shown


def test_savings_are_requested_for_an_interval(braid: Braid) -> None:
    """Times without a zone are local; with --json the answer is printed unchanged."""
    words = ("--from", "2026-01-02T03:00", "--to", "2026-01-02T05:00+01:00", "--tenant", "school", "--dataflow", "d1")
    result = braid("savings", *words, "--json", answers=ok(SAVINGS))
    (asked,) = braid.service.asked
    assert dict(asked.url.params) == {
        "from": "2026-01-02T03:00:00+00:00",
        "to": "2026-01-02T04:00:00+00:00",
        "tenant": "school",
        "dataflow": "d1",
    }
    assert SAVINGS == json.loads(result.stdout)


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_wrong_time_is_reported_without_a_request(braid: Braid, option: str) -> None:
    """The message names the option and the format."""
    result = braid("savings", option, "yesterday", answers=ok(SAVINGS))
    assert (1, []) == (result.exit_code, braid.requests())
    assert f"{option}: 'yesterday' is not a time; write one such as 2026-03-01T12:00" in result.stderr


def test_a_saving_that_rounds_to_nothing_is_shown_as_0(braid: Braid) -> None:
    """Not in scientific notation, nor as less than 0; where nothing was shared there is no figure of sharing."""
    small = {"low": -1e-9, "likely": -0.0004, "high": 0.0006, "price": None}
    savings = SAVINGS | {"whole": SAVINGS["whole"] | {"saved": {"cores_by_packing": small}}}
    rows = [" ".join(line.split()) for line in braid("savings", "--wide", answers=ok(savings)).stdout.splitlines()]
    assert "cores saved by packing 0 0 0.0006" in rows
    assert not [row for row in rows if row.startswith(("work saved", "cores saved by sharing"))]
