"""Nothing in the documentation leads nowhere."""

from pathlib import Path

import pytest

from tests.documentation.pages import ROOT, Page, every_page, page

PAGES = pytest.mark.parametrize("shown", every_page(), ids=str)


@PAGES
def test_every_link_within_the_repository_leads_to_a_file_and_a_heading(shown: Page) -> None:
    """A relative link names a file that is there, and a heading that this file has."""
    broken: list[str] = []
    for link in shown.links:
        if link.startswith(("https://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (shown.path.parent / place).resolve() if place else shown.path
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and anchor not in Page(target).anchors):
            broken.append(link)
    assert not broken


def test_a_broken_link_would_be_found() -> None:
    """The pages give their links and headings, so that the test above has something to hold."""
    readme = page("README.md")
    assert "docs/documents.md" in set(readme.links)
    assert {"braid", "in-30-seconds", "what-there-is-today"} <= readme.anchors


def test_headings_that_are_alike_have_anchors_of_their_own(tmp_path: Path) -> None:
    """Anchors are written as on the web: lower case, no punctuation, numbers for repetitions."""
    path = tmp_path / "alike.md"
    path.write_text("# One `two`, three!\n\n# Same\n\n# Same\n", encoding="utf-8")
    assert {"one-two-three", "same", "same-1"} == Page(path).anchors


def test_every_document_is_listed_in_the_readme() -> None:
    """A reader who begins at the README finds every page, those of the site by its first one."""
    begin, site = page("README.md"), page("docs/index.md")
    linked = {(each.path.parent / link.partition("#")[0]).resolve() for each in (begin, site) for link in each.links}
    assert {begin.path, site.path} <= linked | {begin.path}
    assert not {str(shown) for shown in every_page() if shown.path not in linked | {begin.path}}
