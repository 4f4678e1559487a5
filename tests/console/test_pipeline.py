"""The places of a planned dataflow: what fills them, and a plan for other goals."""

import json

import pytest
from playwright.sync_api import expect

from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR, caller

pytestmark = [pytest.mark.full, pytest.mark.chromium]

ANN = caller("ann")
MODULE = {
    "name": "cut",
    "version": 1,
    "shape": "one-to-one",
    "variables": {"plausible": [True], "calm": [True]},
    "installed": {"type": "range_filter", "config": {"field": "temperature", "min": -10, "max": 40}},
    "ensure": {"plausible": True},
}
CALM = {
    **MODULE,
    "name": "calm",
    "installed": {"type": "kalman_filter", "config": {"field": "temperature"}},
    "ensure": {"calm": True},
}
PIPELINE = {
    "version": 1,
    "name": "Planned",
    "goals": [{"holds": {"plausible": True}}],
    "tasks": [
        {"id": "in", "type": "source", "config": {"source": "city:street"}},
        {"id": "first", "point": {"modules": ["cut", "calm"]}},
        {"id": "second", "point": {"modules": ["cut", "calm"]}},
        {"id": "out", "type": "output"},
    ],
    "streams": [{"from": "in", "to": "first"}, {"from": "first", "to": "second"}, {"from": "second", "to": "out"}],
}


def test_a_pipeline_is_planned_anew_for_other_goals(console_service: ConsoleService, page_for: PageFor) -> None:
    """The preview shows what fills each place and what goals rest on; a goal that cannot hold changes nothing."""
    service = console_service.service
    for form in (MODULE, CALM):
        service.modules.publish(OPERATOR, json.dumps(form).encode())
    flow = service.dataflows.submit(ANN, json.dumps(PIPELINE).encode()).id
    page = page_for(console_service.keys["ann"], f"#/dataflows/{flow}?tab=places")
    places = page.get_by_role("region", name="Places and their modules").get_by_role("row")
    expect(places.filter(has_text="cut@1")).to_have_count(1)
    expect(places.filter(has_text="nothing")).to_have_count(1)
    goals = page.get_by_label("Goals")
    goals.fill('[{"holds": {"plausible": true}}, {"fields": {"wind": "float"}}]')
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no plan: the goal /goals/1 cannot hold")
    expect(page.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
    goals.fill('[{"holds": {"plausible": true, "calm": true}}]')
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("It takes effect as one reconfiguration.").first).to_be_visible()
    expect(page.get_by_text("/goals/0 rests on first, second.")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(places.filter(has_text="calm@1")).to_have_count(1)
    assert {"cut@1", "calm@1"} == {
        each.get("module") for each in service.dataflows.get(ANN, flow).document["tasks"][1:3]
    }
