"""The adaptation of a dynamic dataflow on its page: alternates, figures, reasons, choices by hand, and the policy."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from adaptation.document_reader import read_dynamic
from adaptation.flow import TaskMeasure
from adaptation.guards import MetricKey
from braid_client.answers.overview import OperationKind
from manager.adaptation.measurement import FlowMeasured, adapted_dataflow, adapted_row
from manager.kernel.dataflow_rows import dataflow_of
from manager.kernel.draft import write_down
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR, caller

pytestmark = [pytest.mark.full, pytest.mark.chromium]

ANN = caller("ann")
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe"
FINE = {"name": "fine", "type": "kalman_filter", "config": {"field": "temperature"}, "value": 1.0, "cost": 90}
COARSE = {
    "name": "coarse",
    "type": "range_filter",
    "config": {"field": "temperature", "min": 0, "max": 50},
    "value": 0.6,
    "cost": 5,
}
GUARD = {"activate": {"metric": "rate", "above": 80}}
DYNAMIC: Mapping[str, Any] = {
    "version": 1,
    "name": "Adapts",
    "tasks": [
        {"id": "in", "type": "source", "config": {"source": "city:street"}},
        {"id": "smooth", "alternates": [FINE, COARSE]},
        {"id": "out", "type": "output"},
        {"id": "details", "type": "output"},
    ],
    "streams": [
        {"from": "in", "to": "smooth"},
        {"from": "smooth", "to": "out"},
        {"from": "smooth", "to": "details", "when": GUARD},
    ],
    "policy": {"throughput": 0.8},
}


def submitted(service: ConsoleService) -> str:
    return service.service.dataflows.submit(ANN, json.dumps(DYNAMIC).encode()).id


def measure(service: ConsoleService, dataflow: str) -> None:
    """Put up what an adapter would have measured of a dataflow: 1,000 events a second at 40 µs each."""
    with service.tools.store.read() as session:
        row = dataflow_of(session, dataflow)
    dynamic = read_dynamic(row.dynamic or "")
    known = adapted_dataflow(dynamic, adapted_row(row, dynamic))
    cost = TaskMeasure(cost=0.000_04, selectivity=1.0)
    metrics = {MetricKey("rate", None): 1_000.0, MetricKey("throughput", None): 0.9}
    known.measured = FlowMeasured(
        rates={"in": 1_000.0}, waiting={}, tasks={"smooth": cost}, metrics=metrics, cores=0.7, got=None
    )
    known.learnt = {("smooth", "fine"): cost}
    known.standing = replace(known.standing, since={"smooth": 1_772_350_200.0})
    board = service.tools.adaptations
    board.known = {**board.known, dataflow: known}


def section(page: Page) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name="Adaptation", exact=True))


def test_alternates_figures_and_reasons_are_shown(console_service: ConsoleService, page_for: PageFor) -> None:
    """Only where a dataflow adapts, kept up to date, and to its tenant too; text is never markup."""
    flow = submitted(console_service)
    page = page_for(
        console_service.keys["ann"], f"#/dataflows/{flow}?tab=adaptation", viewport={"width": 360, "height": 640}
    )
    shown = section(page)
    rows = shown.get_by_role("region", name="Alternates of smooth").get_by_role("row")
    expect(rows.filter(has_text="fine")).to_contain_text("90 µs, declared")
    expect(shown).to_contain_text("It has not switched yet.")
    measure(console_service, flow)
    with console_service.tools.committer.writing() as (session, draft):
        write_down(session, draft, OperationKind.ADAPT, who=OPERATOR.who, subject=flow, note=HOSTILE)
    expect(rows.filter(has_text="fine")).to_contain_text("since 1 Mar 2026, 07:30:00")
    expect(rows.filter(has_text="fine")).to_contain_text("40 µs, measured")
    expect(rows.filter(has_text="coarse")).to_contain_text("5 µs, declared")
    expect(shown.get_by_role("region", name="Guarded streams").get_by_role("row").last).to_contain_text("closed")
    cards = shown.locator(".card")
    expect(cards.filter(has_text="Cost").first).to_contain_text("0.04 cores")
    expect(cards.filter(has_text="Cost").first).to_contain_text("needed, of 0.7 cores")
    expect(cards.filter(has_text="Throughput").first).to_contain_text("90%")
    expect(cards.filter(has_text="Rate").first).to_contain_text("1,000 /s")
    expect(cards.filter(has_text="Value").first.get_by_role("img", name="samples: 1 to 1, now 1")).to_be_visible()
    expect(shown.get_by_role("region", name="Switches with their reasons")).to_contain_text(HOSTILE)
    assert 0 == shown.locator("img:not([role])").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    controls = "[...document.querySelectorAll('button, input, select, textarea')]"
    assert 0 == page.evaluate(f"{controls}.filter((e) => !e.labels?.length && !e.textContent && !e.ariaLabel).length")
    page.goto(f"/#/dataflows/{console_service.places['running']}")
    expect(page.get_by_role("tab", name="Operations")).to_be_visible()
    expect(page.get_by_role("tab", name="Adaptation")).to_have_count(0)
    expect(shown).to_have_count(0)


def test_a_tenant_chooses_by_hand_and_replaces_the_policy(console_service: ConsoleService, page_for: PageFor) -> None:
    """What is chosen is let go again; a problem of a policy is shown at its place, and changes nothing."""
    flow = submitted(console_service)
    adaptations = console_service.service.adaptations
    page = page_for(console_service.keys["ann"], f"#/dataflows/{flow}?tab=adaptation")
    choice = page.get_by_role("form", name="Choose by hand")
    choice.get_by_label("smooth", exact=True).select_option("coarse")
    choice.get_by_label("smooth>details").select_option("open")
    choice.get_by_role("button", name="Choose").click()
    rows = page.get_by_role("region", name="Alternates of smooth").get_by_role("row")
    expect(rows.filter(has_text="coarse")).to_contain_text("(by hand)")
    expect(page.get_by_role("region", name="Guarded streams")).to_contain_text("(by hand)")
    assert {"smooth": "coarse", "smooth>details": True} == adaptations.get(ANN, flow).pinned
    choice.get_by_role("button", name="Let all go").click()
    expect(page.get_by_text("(by hand)")).to_have_count(0)
    assert {} == adaptations.get(ANN, flow).pinned
    policy = page.get_by_label("Policy", exact=True)
    rule = {"name": "quick", "activate": {"metric": "speed", "above": 1}, "choose": {"smooth": "coarse"}}
    policy.fill(json.dumps({"rules": [rule]}, indent=2))
    page.get_by_role("button", name="Replace the policy").click()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("Line 6")
    expect(problem).to_contain_text("/rules/0/activate/metric")
    expect(problem.locator("mark")).to_have_text('"speed"')
    policy.fill('{"throughput": 0.9,}')
    page.get_by_role("button", name="Replace the policy").click()
    expect(problem).to_contain_text("The document is not JSON")
    assert 0.8 == adaptations.get(ANN, flow).policy["throughput"]
    policy.fill('{"throughput": 0.9}')
    page.get_by_role("button", name="Replace the policy").click()
    # What counts now is written out, with what the text left open.
    expect(policy).to_have_value(re.compile('"throughput": 0.9,\\s+"tolerance": 0.05'))
    expect(problem).to_have_count(0)
    assert 0.9 == adaptations.get(ANN, flow).policy["throughput"]
