"""The console's files and how they are served; no browser is needed."""

import gzip
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from manager.kernel.live_events import LiveEvents
from manager.rest.app import make_app
from tests.manager.rest.fake_service import FakeService
from tests.manager.rest.socket_server import serving

CONSOLE = Path(str(files("manager.console")))
VENDOR = CONSOLE / "vendor"
SCRIPTS = sorted(path for path in CONSOLE.rglob("*.js") if VENDOR not in path.parents)
PAGES = sorted(CONSOLE.glob("*.html"))
STYLES = sorted(CONSOLE.rglob("*.css"))
TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_LINES = 250
LEAST_CONTRAST = 4.5
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|createContextualFragment"
    r"|\.cssText|setAttribute\(\s*[\"']style|localStorage|sessionStorage|document\.cookie"
)
"""Functions that make code or markup of text, and storage that could hold a key."""
STORING = CONSOLE / "scripts" / "composer" / "drafts.js"
SIGNING_IN = CONSOLE / "scripts" / "pages" / "sign-in.js"
"""The one script that stores something in the browser: drafts."""
TOKEN = re.compile(r"(--[a-z-]+):\s*(#[0-9a-f]{6});")
ON = {
    "--text": ("--ground", "--surface"),
    "--faint": ("--ground", "--surface"),
    "--accent": ("--ground", "--surface"),
    "--good": ("--ground", "--surface"),
    "--warn": ("--ground", "--surface"),
    "--bad": ("--ground", "--surface"),
    "--on-accent": ("--accent",),
    "--on-bad": ("--bad",),
}
"""Each colour of text with its backgrounds."""


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app(FakeService().use_cases, LiveEvents(last=0), lambda: None)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[httpx.Client]:
    with serving(app) as url, httpx.Client(base_url=url, trust_env=False) as made:
        yield made


def test_every_file_is_served_and_nothing_else(client: httpx.Client) -> None:
    """Each with its type; no name leads out of the folder, and an unknown one is a problem+json."""
    for path in sorted(each for each in CONSOLE.rglob("*") if each.suffix in TYPES):
        answer = client.get(f"/console/{path.relative_to(CONSOLE)}")
        assert (200, TYPES[path.suffix]) == (answer.status_code, answer.headers["Content-Type"].partition(";")[0]), path
        assert path.read_bytes() == answer.content
    assert (CONSOLE / "index.html").read_bytes() == client.get("/").content
    assert (CONSOLE / "docs.html").read_bytes() == client.get("/docs").content
    for name in ("__init__.py", "..%2fservice.py", "../service.py", "nothing.js", "", "scripts", "%00"):
        answer = client.get(f"/console/{name}")
        assert (404, "application/problem+json") == (answer.status_code, answer.headers["Content-Type"]), name


def test_the_page_of_the_api_may_make_markup(client: httpx.Client) -> None:
    """As Swagger UI does; in all else its policy is that of the console's page."""
    policies = [client.get(path).headers["Content-Security-Policy"].split("; ") for path in ("/docs", "/")]
    assert ["require-trusted-types-for 'script'", "trusted-types 'none'"] == [
        part for part in policies[1] if part not in policies[0]
    ]
    assert set(policies[0]) <= set(policies[1])


@pytest.mark.parametrize("path", ["/", "/console/scripts/main.js", "/console/icon.svg"])
def test_files_have_security_headers(client: httpx.Client, path: str) -> None:
    """It is revalidated each time, runs nothing from elsewhere, and cannot be framed by other sites."""
    headers = client.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert {"'none'"} == {policy[name] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")}
    assert {"'self'"} == {policy[name] for name in ("script-src", "style-src", "connect-src", "font-src")}
    assert ("'script'", "'none'") == (policy["require-trusted-types-for"], policy["trusted-types"])
    assert "unsafe" not in headers["Content-Security-Policy"]
    expected = {
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    assert expected == {name: headers[name] for name in expected}
    assert "geolocation=()" in headers["Permissions-Policy"]
    assert "Set-Cookie" not in headers


def test_an_unchanged_file_is_not_sent_again(client: httpx.Client) -> None:
    """A browser that has it gets 304, even with a weakened tag, and still the policy."""
    first = client.get("/console/style.css")
    tag = first.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = client.get("/console/style.css", headers={"If-None-Match": known})
        assert (304, b"", tag) == (again.status_code, again.content, again.headers["ETag"])
        assert first.headers["Content-Security-Policy"] == again.headers["Content-Security-Policy"]
    assert 200 == client.get("/console/style.css", headers={"If-None-Match": '"other"'}).status_code
    head = client.head("/console/style.css")
    assert (200, b"", tag) == (head.status_code, head.content, head.headers["ETag"])


def test_files_are_compressed_for_who_accepts_that(client: httpx.Client) -> None:
    """Each encoding has a tag of its own, and caches between know that the answers differ."""
    kept: dict[str, tuple[bytes, str]] = {}
    for accepted in ("gzip, deflate, br", "identity", "gzip;q=0"):
        with client.stream("GET", "/console/style.css", headers={"Accept-Encoding": accepted}) as answer:
            kept[accepted] = (b"".join(answer.iter_raw()), answer.headers["ETag"])
            assert ("gzip" if "deflate" in accepted else None) == answer.headers.get("Content-Encoding")
            assert "Accept-Encoding" == answer.headers["Vary"]
    compressed, plain = kept["gzip, deflate, br"], kept["identity"]
    assert plain == kept["gzip;q=0"]
    assert (CONSOLE / "style.css").read_bytes() == plain[0] == gzip.decompress(compressed[0])
    assert len(compressed[0]) < len(plain[0]) / 2
    assert compressed[1] != plain[1]


def test_the_console_is_not_part_of_the_api(app: FastAPI, client: httpx.Client) -> None:
    """It is not in OpenAPI, and its files are read-only."""
    known = ("/v1/", "/healthz", "/readyz", "/problems/", "/metrics")
    assert [] == [path for path in app.openapi()["paths"] if not path.startswith(known)]
    for path in ("/", "/console/style.css"):
        answer = client.post(path)
        assert (405, "GET, HEAD") == (answer.status_code, answer.headers["Allow"])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(CONSOLE)))
def test_scripts_make_no_code_of_text(path: Path) -> None:
    """Nor store anything in the browser but drafts, and where a sign-in began until it ends; and each is short."""
    script = path.read_text()
    stores = {STORING: ["localStorage"], SIGNING_IN: ["sessionStorage"] * 2}
    assert stores.get(path, []) == FORBIDDEN.findall(script)
    assert len(script.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(CONSOLE)))
def test_scripts_import_existing_files(path: Path) -> None:
    """Each import names a file of the console."""
    for name in re.findall(r'(?:from|import)\s*\(?\s*"(\.[^"]+)"', path.read_text()):
        assert (path.parent / name).resolve().is_file(), name


@pytest.mark.parametrize("name", ["codemirror", "swagger-ui", "uplot"])
def test_what_comes_from_npm_is_what_was_bundled(name: str) -> None:
    """In the versions of the lock, with the licence of each package; `make console` makes all of it anew."""
    bundled = json.loads((VENDOR / f"{name}.json").read_text())
    assert bundled["sha256"] == sha256((VENDOR / f"{name}.js").read_bytes()).hexdigest()
    locked = json.loads((VENDOR / "package-lock.json").read_text())["packages"]
    assert bundled["versions"] == {one: locked[f"node_modules/{one}"]["version"] for one in bundled["versions"]}
    licences = (VENDOR / f"{name}-licences.txt").read_text()
    assert [] == [one for one, version in bundled["versions"].items() if f"{one} {version}\n" not in licences]
    assert licences.count("Permission is hereby granted") >= len(bundled["versions"])


def test_every_linked_page_exists() -> None:
    """The table of routes names modules that exist."""
    named = re.findall(r'page: "([a-z-]+)"', (CONSOLE / "scripts" / "main.js").read_text())
    assert [] == [name for name in named if not (CONSOLE / "scripts" / "pages" / f"{name}.js").is_file()]
    assert len(named) > 10


@pytest.mark.parametrize("path", [*PAGES, *STYLES], ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    """Pages and styles name no other host, and pages have no inline scripts or styles."""
    text = re.sub(r"url\((\"?)data:.*?\1\)", "", path.read_text())
    assert [] == re.findall(r"https?://|(?<!:)//[a-z]|@import|url\(", text)
    if path.suffix == ".html":
        assert [] == re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme: str) -> None:
    """Every colour of text on each of its backgrounds, in both schemes."""
    style = (CONSOLE / "style.css").read_text()
    dark = style.index("prefers-color-scheme: dark")
    tokens = dict(TOKEN.findall(style[:dark])) | (dict(TOKEN.findall(style[dark:])) if scheme == "dark" else {})
    pairs = [(text, ground) for text, grounds in ON.items() for ground in grounds]
    found = {pair: contrast(*(tokens[each] for each in pair)) for pair in pairs}
    assert {} == {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST}


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
