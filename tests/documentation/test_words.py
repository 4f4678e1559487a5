"""Names in the documentation are names in the code, and public names are explained."""

import pkgutil
import re

import pytest

import dags
import merge
from tests.documentation.pages import ROOT, Page, every_page, page

PAGES = pytest.mark.parametrize("shown", every_page(), ids=str)
PACKAGES = "adaptation|bridge|dags|engine|manager|merge|planning|provisioning|tests|workloads"


@PAGES
def test_every_name_of_code_can_be_imported(shown: Page) -> None:
    """A dotted name that begins with one of the packages is one that the package has."""
    unknown: list[str] = []
    for code in shown.code:
        if re.fullmatch(rf"({PACKAGES})(\.\w+)+", code):
            try:
                pkgutil.resolve_name(code)
            except (AttributeError, ImportError):
                unknown.append(code)
    assert not unknown


@PAGES
def test_every_path_is_there(shown: Page) -> None:
    """A path that begins with one of the packages or folders is one of a file or folder."""
    paths = [code for code in shown.code if re.fullmatch(rf"({PACKAGES}|benchmarks|docs)/[\w./-]*", code)]
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_glossary_explains_every_public_class_of_the_core() -> None:
    """What `dags` and `merge` offer, but for errors, has a word; errors explain themselves."""
    offered = {
        f"{package.__name__}.{name}"
        for package in (dags, merge)
        for name, thing in vars(package).items()
        if isinstance(thing, type) and not issubclass(thing, Exception)
    }
    assert not offered - set(page("docs/glossary.md").code)


def test_the_glossary_has_one_row_for_each_word() -> None:
    """One word, one thing."""
    words = [row[0] for table in page("docs/glossary.md").tables for row in table.rows[1:]]
    assert not {word for word in words if words.count(word) > 1}


def test_names_and_paths_are_found_in_the_pages() -> None:
    """The tests above have something to hold."""
    assert "merge.RunningGraph" in set(page("docs/architecture.md").code)
    assert "dags/canonical/signatures.py" in set(page("docs/signatures.md").code)
