"""Signing in to the console with a provider of OpenID Connect, which runs as a process, and out again."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import PageFor, console_over, pages_of
from tests.manager.managers import Seen
from tests.manager.rest.town import town
from tests.oidc_providers import SECRET, ProviderProcess, provider_at, provider_process

pytestmark = pytest.mark.chromium
PEOPLE = {"anna": ["anns"], "bert": ["bobs"], "vera": ["anns-viewers"], "nora": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Consoles:
    """A console whose people a provider knows."""

    url: str
    process: ProviderProcess
    keys: dict[str, str]


@pytest.fixture(scope="module")
def consoles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Consoles]:
    seen = Seen()
    with (
        provider_process(PEOPLE) as process,
        town(
            tmp_path_factory.mktemp("sign-in"), seeing=seen, provider=provider_at(process.issuer, secret=SECRET)
        ) as made,
        console_over(made, seen) as served,
    ):
        yield _Consoles(url=served.url, process=process, keys=served.keys)


@pytest.fixture
def page_for(browser: Browser, consoles: _Consoles) -> Iterator[PageFor]:
    # The provider's own page asks for a style sheet elsewhere.
    with pages_of(browser, consoles.url, urlsplit(consoles.process.issuer).netloc, "cdn.jsdelivr.net") as opened:
        yield opened


def _sign_in(page: Page, name: str) -> None:
    page.get_by_role("button", name="Sign in at 127.0.0.1").click()
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_people_sign_in_and_see_what_their_groups_say(consoles: _Consoles, page_for: PageFor) -> None:
    """Each tenant its own, a viewer without changes; nothing of the sign-in stays in the address."""
    page, other = page_for(None, "#/dataflows"), page_for(None)
    _sign_in(page, "anna")
    expect(page.locator("#who")).to_have_text("ann: anna")
    assert f"{consoles.url}/#/dataflows" == page.url
    _sign_in(other, "bert")
    expect(other.locator("#who")).to_have_text("bob: bert")
    other.goto("/#/access")
    expect(other.get_by_role("region", name="Secrets", exact=True)).not_to_contain_text("warehouse")
    page.goto("/#/access")
    expect(page.get_by_role("region", name="Secrets", exact=True)).to_contain_text("warehouse")
    page.get_by_role("button", name="Sign out").click()
    _sign_in(page, "vera")
    expect(page.locator("#who")).to_have_text("ann: vera")
    expect(page.get_by_text("Your access is read-only")).to_be_visible()
    expect(page.get_by_role("button", name="Set the secret")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("Your access is read-only")).to_be_hidden()


def test_who_may_not_enter_is_told_why(consoles: _Consoles, page_for: PageFor) -> None:
    """There is no group, the person refused, or the provider is away; a key still lets in."""
    page = page_for(None)
    page.get_by_role("button", name="Sign in at 127.0.0.1").click()
    page.get_by_role("button", name="nora", exact=True).click()
    expect(page.get_by_text("nora is in no group that the setting oidc_groups names")).to_be_visible()
    page.get_by_role("button", name="Sign in at 127.0.0.1").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("It answered access_denied.")).to_be_visible()
    page.goto("/?error=<b>read+me</b>&state=x")
    expect(page.get_by_text("It answered an error.")).to_be_visible()
    page.goto("/?code=stolen&state=made-up")
    expect(page.get_by_text("did not begin in this browser")).to_be_visible()
    page.get_by_label("API key").fill(consoles.keys["ann"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator("#who")).to_have_text("ann")


def test_a_session_ends_with_the_groups_at_the_next_sign_in(consoles: _Consoles, page_for: PageFor) -> None:
    """In the browser in which the person is signed in already."""
    page, other = page_for(None), page_for(None)
    _sign_in(page, "bert")
    expect(page.locator("#who")).to_have_text("bob: bert")
    consoles.process.set_groups("bert", [])
    other.get_by_role("button", name="Sign in at 127.0.0.1").click()
    other.get_by_role("button", name="bert", exact=True).click()
    expect(other.get_by_text("bert is in no group")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    consoles.process.set_groups("bert", PEOPLE["bert"])
