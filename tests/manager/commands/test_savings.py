"""`braid savings`: what it asks for, and how it shows what it was told."""

import json

import pytest

from tests.manager.client.samples import SAVINGS
from tests.manager.client.scripted_service import ok
from tests.manager.commands.braid_runner import Braid


def test_savings_are_shown_as_tables(braid: Braid) -> None:
    """The whole by its parts, what separate execution would take, and the share of each tenant and dataflow."""
    shown = braid("savings", answers=ok(SAVINGS)).stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert rows[0] == "2026-01-02 03:04:05 to 2026-01-02 04:04:00, 1.0 minutes metered, tenants: 1"
    for expected in (
        "cores likely low high price EUR",
        "measured 0.25 0.0125",
        "driver 0.25 0.0125",
        "broker not measured",
        "packed without sharing 0.5 0.25 0.75",
        "saved by sharing 0.5 0.25 0.75",
        "sharing saved 7.7 % of the work of tasks",
        "tenant share alone low high saving work saved price EUR",
        "school 0.25 0.5 0.25 0.75 0.5 50.0 % 0.0125",
        "d1 0.25 0.5 0.25 0.75 0.5 50.0 % 0.0125",
    ):
        assert expected in rows


def test_a_tenant_is_shown_its_own(braid: Braid) -> None:
    """Without the whole there is no table of it, and without prices no column of them."""
    told = SAVINGS | {"whole": None, "price_per_core_hour": None, "currency": ""}
    shown = braid("savings", answers=ok(told)).stdout
    assert "measured" not in shown
    assert "price" not in shown
    assert "school" in shown


def test_savings_are_asked_for_an_interval(braid: Braid) -> None:
    """Times without a zone are those of this machine; programs get the document."""
    words = ("--from", "2026-01-02T03:00", "--to", "2026-01-02T05:00+01:00", "--tenant", "school", "--dataflow", "d1")
    told = braid("savings", *words, "--json", answers=ok(SAVINGS))
    (asked,) = braid.service.asked
    assert dict(asked.url.params) == {
        "from": "2026-01-02T03:00:00+00:00",
        "to": "2026-01-02T04:00:00+00:00",
        "tenant": "school",
        "dataflow": "d1",
    }
    assert SAVINGS == json.loads(told.stdout)


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_what_is_no_time_is_told_before_anything_is_asked(braid: Braid, option: str) -> None:
    """With the option, and how a time is written."""
    told = braid("savings", option, "yesterday", answers=ok(SAVINGS))
    assert (1, []) == (told.exit_code, braid.asked())
    assert f"{option}: 'yesterday' is no time; write one such as 2026-03-01T12:00" in told.stderr
