"""Every example in the documentation works, and prints what the text says."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dags.canonical import canonicalise
from engine import installed_catalogue
from manager.command import app
from tests.documentation.pages import Example, Page, every_page, page

PAGES = {str(shown): shown for shown in every_page()}


def having(language: str, text: str = "") -> list[str]:
    """The pages that have an example to run in a language with some text in it."""
    return [
        name
        for name, shown in PAGES.items()
        if any(
            example.language == language and text in example.text and example.not_run is None
            for example in shown.examples
        )
    ]


def plain() -> list[str]:
    """The pages with plain documents; others have tests of their own."""
    others = {"docs/adaptation.md", "docs/planning.md"}
    return [name for name in having("json", '"tasks"') if name not in others]


@pytest.fixture
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    # Modules that the text says to save may import each other.
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.usefixtures("_in_an_empty_folder")
@pytest.mark.parametrize("name", having("python"))
def test_python_examples_run_in_order_and_print_what_the_text_shows(name: str) -> None:
    """A page's Python examples are one program, and the block after one is what it prints."""
    PAGES[name].save_files(Path())
    _, printed = PAGES[name].run()
    assert [shown for shown, _ in printed] == [actual for _, actual in printed]


@pytest.mark.usefixtures("_in_an_empty_folder")
@pytest.mark.parametrize("name", plain())
def test_documents_are_accepted_over_the_sources_that_the_text_shows(name: str) -> None:
    """Each document in a page passes the checks with the installed types and the page's `sources`."""
    shown = PAGES[name]
    shown.save_files(Path())
    names, _ = shown.run()
    for document in documents(shown):
        made = canonicalise(
            document.text, dataflow="d", tenant="me", catalogue=installed_catalogue(), sources=names["sources"]
        )
        assert json.loads(document.text)["name"] == made.name


@pytest.mark.usefixtures("_in_an_empty_folder")
@pytest.mark.parametrize("name", having("sh", "braid check"))
def test_the_command_answers_as_the_text_shows(name: str) -> None:
    """Where a page calls `braid check`, the block after it is the answer."""
    PAGES[name].save_files(Path())
    for example in PAGES[name].examples:
        for line in example.text.splitlines() if example.language == "sh" else ():
            if "braid check" in line:
                _, *words = shlex.split(line, comments=True)
                assert example.output == CliRunner().invoke(app, words).output


def test_the_pages_that_promise_examples_have_them() -> None:
    """The tests above have something to hold."""
    promised = {
        "README.md",
        "docs/adaptation.md",
        "docs/architecture.md",
        "docs/builder.md",
        "docs/commands.md",
        "docs/consistency.md",
        "docs/documents.md",
        "docs/how-to/connect-your-data.md",
        "docs/how-to/merge-from-python.md",
        "docs/how-to/write-adaptive-dataflows.md",
        "docs/placement.md",
        "docs/provisioning.md",
        "docs/running.md",
        "docs/task-library.md",
        "docs/task-types.md",
        "docs/workloads.md",
    }
    assert promised == set(having("python"))
    assert {"README.md", "docs/documents.md"} == set(plain())
    assert {"README.md"} == set(having("sh", "braid check"))


def test_every_example_says_its_language() -> None:
    """A block without a language would be held by no test, nor coloured for readers."""
    known = {"json", "jsonl", "python", "sh", "text", "toml", "yaml"}
    languages = {(name, example.language) for name, shown in PAGES.items() for example in shown.examples}
    assert not {(name, language) for name, language in languages if language not in known}


def test_files_are_saved_under_the_name_that_the_sentence_before_says() -> None:
    """Readers save the README's examples under the names that it gives."""
    files = [example.file for example in page("README.md").examples if example.language == "json"]
    assert files == ["street.json", "averages.json", "sources.json"]


def documents(shown: Page) -> list[Example]:
    return [example for example in shown.examples if example.language == "json" and '"tasks"' in example.text]
