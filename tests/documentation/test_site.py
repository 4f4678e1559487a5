"""The site is built without a warning and can be searched, and the certificates that users make are good."""

import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect, sync_playwright

from engine.replicas.channel import CopyTls, TlsFiles
from tests import needs
from tests.authority import Authority
from tests.documentation.pages import ROOT, every_page, page

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


class QuietHandler(SimpleHTTPRequestHandler):
    """A plain static server's, without a log."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has there
        """Write nothing."""


@pytest.fixture
def static_site(site: Path) -> Iterator[str]:
    """The URL of the site at a server that only has its files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=site)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.chromium
@pytest.mark.parametrize("served", [False, True], ids=["as files", "by a static server"])
def test_a_search_finds_a_page(request: pytest.FixtureRequest, site: Path, browser: Browser, *, served: bool) -> None:
    """Without the internet, and even without a server: a result leads to its page, and nobody else is asked."""
    top = request.getfixturevalue("static_site") if served else site.as_uri()
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(f"{top}/how-to/deploy.html")
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("dead letters")
    # Links of the navigation do not say under which heading they stand; results do.
    page.locator("a", has_text=re.compile(r"Read dead letters.*How-to guides", re.DOTALL)).first.click()
    page.wait_for_url(f"{top}/how-to/read-dead-letters.html*")
    expect(page.get_by_role("heading", name="Read dead letters")).to_be_visible()
    assert not [url for url in asked if not url.startswith((top, "data:", "blob:"))]


PAGE = page("docs/how-to/run-on-several-machines.md")


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """What a reader of the page has, who types its lines."""
    needs.openssl()
    folder = tmp_path_factory.mktemp("documented")
    (lines,) = (example.text for example in PAGE.examples if "openssl req" in example.text)
    subprocess.run(["sh", "-ec", lines], cwd=folder, check=True, capture_output=True)  # noqa: S603, S607 - our own page
    return TlsFiles(certificate=folder / "north.pem", key=folder / "north.key", authority=folder / "machines.pem")


@pytest.fixture(scope="module")
def of_tests(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """What the tests' own authority makes."""
    needs.openssl()
    authority = Authority(tmp_path_factory.mktemp("tests") / "authority")
    certificate, key = authority.certify("north", "DNS:north.example")
    return TlsFiles(certificate=certificate, key=key, authority=authority.certificate)


@pytest.fixture(params=["documented", "of_tests"])
def files(request: pytest.FixtureRequest) -> TlsFiles:
    made: TlsFiles = request.getfixturevalue(request.param)
    return made


def strict(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    """A context that verifies as strictly as Python 3.13 does by default."""
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(files.authority)
    context.load_cert_chain(files.certificate, files.key)
    return context


def shake(files: TlsFiles, host: str) -> None:
    """Let both ends prove themselves to each other. Raises `ssl.SSLError`."""
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        strict(ssl.PROTOCOL_TLS_CLIENT, files).wrap_bio(back, forth, server_hostname=host),
        strict(ssl.PROTOCOL_TLS_SERVER, files).wrap_bio(forth, back, server_side=True),
    ]
    done: set[int] = set()
    while len(done) < len(ends):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                continue


def test_a_strict_check_takes_the_certificates(files: TlsFiles) -> None:
    """Of servers and of clients, for the name that they are for; Braid takes them too."""
    shake(files, "north.example")
    CopyTls(files).check_name("north.example")


def test_a_strict_check_refuses_another_name(files: TlsFiles) -> None:
    """So the check is one."""
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(files, "south.example")


def test_a_strict_check_wants_the_use_of_the_authority_s_key(tmp_path: Path) -> None:
    """Without that line of the page, it refuses; a check that does not would hold nothing."""
    needs.openssl()
    (lines,) = (example.text for example in PAGE.examples if "openssl req" in example.text)
    lines = lines.replace("  -addext keyUsage=critical,keyCertSign,cRLSign\n", "  \n")
    subprocess.run(["sh", "-ec", lines], cwd=tmp_path, check=True, capture_output=True)  # noqa: S603, S607 - our own page
    lax = TlsFiles(certificate=tmp_path / "north.pem", key=tmp_path / "north.key", authority=tmp_path / "machines.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="key usage"):
        shake(lax, "north.example")
