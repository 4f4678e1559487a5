"""The site is built without a warning, has every page, and asks nobody else for anything."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documentation.pages import ROOT, every_page

SETTINGS: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
ASKED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*\bhref=[\"']?(?:https?:)?//"
    r"|@import\s+[\"']?(?:url\([\"']?)?(?:https?:)?//|url\([\"']?(?:https?:)?//"
)
"""What makes a browser ask another server; a link that a reader follows does not."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors; what the builder says is shown where it fails."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    done = subprocess.run(  # noqa: S603 - our own documentation
        [str(Path(sys.executable).parent / "zensical"), "build", "--strict"],
        cwd=folder,
        env={"NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return folder / str(SETTINGS["site_dir"])


def navigated(entry: Any) -> list[str]:
    """The pages of an entry of the navigation, in order."""
    if isinstance(entry, str):
        return [entry]
    entries = entry if isinstance(entry, list) else list(entry.values())
    return [page for each in entries for page in navigated(each)]


def test_the_navigation_has_every_page_once() -> None:
    """No page of docs/ is found by luck only."""
    known = [str(shown).removeprefix("docs/") for shown in every_page() if str(shown).startswith("docs/")]
    assert sorted(known) == sorted(navigated(SETTINGS["nav"]))


def test_every_page_is_built(site: Path) -> None:
    """Each has a page of HTML with its heading, and code in colours."""
    for name in navigated(SETTINGS["nav"]):
        html = (site / name.replace("README", "index")).with_suffix(".html").read_text(encoding="utf-8")
        assert "<h1" in html
    tutorial = (site / "tutorial.html").read_text(encoding="utf-8")
    assert '<div class="highlight">' in tutorial
    assert "not_run" not in tutorial


def test_no_page_asks_another_server(site: Path) -> None:
    """Scripts, styles, fonts and pictures all come with the site."""
    read = [each for each in site.rglob("*") if each.suffix in {".html", ".css"}]
    asking = {
        str(each.relative_to(site)): found
        for each in read
        if (found := ASKED.findall(each.read_text(encoding="utf-8")))
    }
    assert not asking


def test_what_asks_another_server_would_be_found() -> None:
    """The expression above finds each way, and lets links be."""
    asking = [
        '<script src="https://a.example/x.js">',
        "<link rel=preconnect href=https://fonts.example>",
        '<img alt="" src="//a.example/x.png">',
        'src: url("https://a.example/x.woff2")',
        '@import "https://a.example/x.css"',
    ]
    assert all(ASKED.search(each) for each in asking)
    assert not ASKED.search('<a href="https://a.example"> <link href="assets/x.css"> url(data:image/png;base64,)')
