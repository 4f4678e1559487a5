"""The pages of access, of tenants and of task types: keys, credentials, secrets and quotas."""

import pytest
from playwright.sync_api import expect

from braid_client.answers.tenants import Quota, Role
from manager.problem import Unauthenticated
from manager.use_case import Paging
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR, caller

pytestmark = pytest.mark.chromium
NOTE = "<b>line 1</b>"


def test_a_key_is_made_shown_once_and_revoked(console_service: ConsoleService, page_for: PageFor) -> None:
    """It lets its tenant in until then; another tenant does not see it."""
    page = page_for(console_service.keys["bob"], "#/access")
    keys = page.get_by_role("region", name="API keys", exact=True)
    keys.get_by_label("Note").fill(NOTE)
    keys.get_by_role("button", name="Make a key").click()
    made = keys.get_by_role("region", name="API key", exact=True).inner_text()
    administration = console_service.service.administration
    assert "bob" == administration.caller(made).tenant
    row = keys.get_by_role("row").filter(has_text=NOTE)
    expect(row).to_be_visible()
    stranger = page_for(console_service.keys["ann"], "#/access")
    expect(stranger.get_by_role("region", name="Keys that are valid")).to_be_visible()
    expect(stranger.get_by_text(NOTE)).to_have_count(0)
    row.get_by_role("button", name=f"Revoke {NOTE}").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
    expect(keys.get_by_text("1 revoked or expired key")).to_be_visible()
    expect(row).to_be_hidden()
    with pytest.raises(Unauthenticated):
        administration.caller(made)
    page.reload()
    expect(keys.get_by_text("1 revoked or expired key")).to_be_visible()
    expect(page.get_by_text(made)).to_have_count(0)


def test_a_key_may_be_read_only_and_expire(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its list says so and when it was last used; with it the console shows everything, and offers no changes."""
    page = page_for(console_service.keys["bob"], "#/access")
    keys = page.get_by_role("region", name="API keys", exact=True)
    keys.get_by_label("Note").fill("wall")
    keys.get_by_label("May").select_option("look only")
    keys.get_by_label("Expires").select_option("in 30 days")
    keys.get_by_role("button", name="Make a key").click()
    made = keys.get_by_role("region", name="API key", exact=True).inner_text()
    row = keys.get_by_role("row").filter(has_text="wall")
    expect(row).to_contain_text("look only")
    expect(row).to_contain_text("never")
    administration = console_service.service.administration
    who = administration.caller(made)
    assert (Role.READ_ONLY, "bob") == (who.role, who.tenant)
    administration.keep_uses()
    page.reload()
    expect(row).not_to_contain_text("never")
    reading = page_for(made, "#/access")
    expect(reading.get_by_text("Your access is read-only")).to_be_visible()
    expect(reading.get_by_role("row").filter(has_text="wall")).to_be_visible()
    expect(reading.get_by_role("button", name="Make a key")).to_have_count(0)
    reading.get_by_role("button", name="Sign out").click()
    expect(reading.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_secret_is_set_and_removed(console_service: ConsoleService, page_for: PageFor) -> None:
    """Its value is never shown, what is wrong with its name is said there, and another tenant does not see it."""
    page = page_for(console_service.keys["bob"], "#/access")
    secrets = page.get_by_role("region", name="Secrets", exact=True)
    expect(secrets.get_by_text("No secrets yet.")).to_be_visible()
    secrets.get_by_label("Name").fill("a b")
    secrets.get_by_label("Value").fill("user:hush")
    secrets.get_by_role("button", name="Set the secret").click()
    expect(secrets.locator(".field", has_text="Name").locator(".wrong")).to_contain_text("not allowed here")
    secrets.get_by_label("Name").fill("plc")
    secrets.get_by_role("button", name="Set the secret").click()
    expect(secrets.get_by_role("rowheader")).to_have_text(["plc"])
    expect(secrets.get_by_label("Value", exact=True)).to_have_value("")
    stored = console_service.service.secrets.page(caller("bob"), Paging())
    assert ["plc"] == [secret.name for secret in stored.items]
    stranger = page_for(console_service.keys["ann"], "#/access")
    expect(stranger.get_by_role("region", name="Secrets", exact=True).get_by_role("rowheader")).to_have_text(
        ["warehouse"]
    )
    secrets.get_by_role("button", name="Remove plc").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(secrets.get_by_text("No secrets yet.")).to_be_visible()


def test_a_tenant_sees_what_it_may_do_at_the_broker(console_service: ConsoleService, page_for: PageFor) -> None:
    """And when its password was made, which is shown with new credentials this once."""
    page = page_for(console_service.keys["bob"], "#/access")
    broker = page.get_by_role("region", name="Broker credentials", exact=True)
    expect(broker).to_contain_text("never: make credentials first")
    expect(broker).to_contain_text("bob/quiet")
    broker.get_by_role("button", name="Make new credentials…").click()
    page.get_by_role("button", name="Make new ones").click()
    expect(broker.get_by_role("region", name="Password")).to_be_visible()
    expect(broker).not_to_contain_text("never: make credentials first")


def test_an_operator_admits_a_tenant_and_changes_its_quota(console_service: ConsoleService, page_for: PageFor) -> None:
    """A wrong number is said at its limit, and a wrong name at the name; keys are made for the tenant."""
    page = page_for(console_service.keys["operator"], "#/tenants")
    expect(page.get_by_role("link", name="ann")).to_be_visible()
    name = page.get_by_label("Name of the new tenant")
    name.fill("no/name")
    page.get_by_role("button", name="Admit the tenant").click()
    expect(page.locator(".field .wrong")).to_contain_text("not allowed here")
    name.fill("garden")
    page.get_by_role("button", name="Admit the tenant").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tenant garden")
    tasks = page.get_by_label("Tasks", exact=True)
    tasks.fill("many")
    page.get_by_role("button", name="Change the quota").click()
    expect(page.get_by_role("row").filter(has=tasks).locator(".wrong")).to_be_visible()
    tasks.fill("200")
    page.get_by_role("button", name="Change the quota").click()
    expect(page.locator("#said")).to_have_text("The quota is changed.")
    page.get_by_role("button", name="Allow it").click()
    expect(page.get_by_role("button", name="Forbid it")).to_be_visible()
    (garden,) = (
        tenant
        for tenant in console_service.service.administration.tenants(OPERATOR, Paging()).items
        if tenant.name == "garden"
    )
    assert (Quota(tasks=200), True) == (garden.quota, garden.publishes_code)
    page.get_by_role("link", name="Keys, credentials and secrets").click()
    expect(page.get_by_text("No keys yet.")).to_be_visible()
    page.get_by_role("button", name="Make a key").click()
    made = page.get_by_role("region", name="API key", exact=True).inner_text()
    assert "garden" == console_service.service.administration.caller(made).tenant


def test_tenants_are_for_operators(console_service: ConsoleService, page_for: PageFor) -> None:
    """A tenant finds no link to them, and nothing at their addresses."""
    for at in ("#/tenants", "#/tenants/bob"):
        page = page_for(console_service.keys["ann"], at)
        expect(page.get_by_role("heading", name="This page is for operators")).to_be_visible()
        expect(page.get_by_role("link", name="Tenants")).to_have_count(0)
        expect(page.get_by_text("bob")).to_have_count(0)


def test_task_types_are_searched_and_composed_with(console_service: ConsoleService, page_for: PageFor) -> None:
    """Each with its sentence and its settings."""
    page = page_for(console_service.keys["ann"], "#/task-types")
    page.get_by_label("Search the task types").fill("kalman filter")
    types = page.locator(".task-type")
    expect(types).to_have_count(1)
    types.first.locator("summary").click()
    settings = page.get_by_role("region", name="Settings of kalman_filter")
    expect(settings.get_by_role("row").nth(1)).to_contain_text("needed")
    page.get_by_role("link", name="Compose with it").click()
    expect(page.locator("[data-task=kalman_filter]")).to_be_visible()
