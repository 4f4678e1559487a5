"""The section on images on the page of jobs."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from manager.answers.jobs import ImageForm
from manager.observations.reports import HostSeen
from tests.console.conftest import ConsoleService, PageFor
from tests.manager.managers import OPERATOR

pytestmark = [pytest.mark.full, pytest.mark.chromium]


def test_images_are_listed_with_their_hosts(console_service: ConsoleService, page_for: PageFor) -> None:
    """A host of an image that is not registered is a problem, seen at once."""
    console_service.service.images.put(OPERATOR, "cuda", ImageForm(tags=frozenset({"gpu"}), cores=8.0, most=4))
    console_service.seen.every_host = tuple(
        HostSeen(host=name, alive=True, image=image, seen=datetime.now(UTC))
        for name, image in (("north", "cuda"), ("south", "nothing"))
    )
    page = page_for(console_service.keys["operator"], "#/jobs")
    images = page.get_by_role("region", name="2 images")
    expect(images.get_by_role("row", name="cuda")).to_contain_text("north")
    expect(page.get_by_text("Host south: its image 'nothing' is not registered")).to_be_visible()
