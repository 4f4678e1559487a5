"""The package in the documentation of task types works as a package."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import installed_catalogue
from engine.trial import try_out
from tests.documentation.pages import page


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The documented module and project, as an installer would lay them out."""
    shown = page("docs/task-types.md")
    shown.save_files(tmp_path)
    (text,) = (example.text for example in shown.examples if example.language == "toml")
    project = tomllib.loads(text)["project"]
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for module in ("acme_tasks", "acme_behaviours"):
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("_package")
def test_a_documented_type_is_found_once_its_package_is_installed() -> None:
    """The entry point in the page's project leads to the type in the page's module."""
    found = installed_catalogue().find("acme:convert")
    assert found is not None
    assert found.config.model_validate({"field": "celsius"}).model_dump() == {"field": "celsius", "to": "kelvin"}


@pytest.mark.usefixtures("_package")
def test_its_behaviour_is_found_by_hosts_under_its_name() -> None:
    """And does what the text says."""
    found = try_out("acme:convert", {"field": "celsius"}, [{"celsius": 20}])
    assert [{"celsius": 293.15}] == found["out"]


def test_without_the_package_the_type_is_unknown() -> None:
    """The test above finds what it installed, and leaves nothing behind."""
    assert installed_catalogue().find("acme:convert") is None
