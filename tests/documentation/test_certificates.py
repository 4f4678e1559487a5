"""The certificates that the documentation has users make."""

import ssl
import subprocess
from pathlib import Path

import pytest

from engine.replicas.channel import CopyTls, TlsFiles
from tests import needs
from tests.authority import Authority
from tests.documentation.pages import page

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
