"""TLS between machines: who is let in, whom an owner trusts, what a mixture says, and certificates that are renewed."""

import logging
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.host.keeper import CopyAddress
from engine.replicas import channel
from engine.replicas.channel import Channel, CopyTls, Disconnected, TlsFailed, TlsFiles, UnfitCertificate
from tests import needs
from tests.authority import Authority
from tests.engine.replicas.scene import SECRET, Cutter, Scene, files, until

HERE = "IP:127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The one that signs the certificates of all machines."""
    needs.openssl()
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another one."""
    needs.openssl()
    return Authority(tmp_path_factory.mktemp("tls") / "foreign")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> CopyTls:
    """What a machine at 127.0.0.1 has."""
    return CopyTls(certified(authority))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was logged so far."""
    caplog.set_level(logging.INFO, "braid.host")
    return lambda: caplog.text


def certified(authority: Authority, name: str = "here", *subjects: str) -> TlsFiles:
    """The files of a machine, by default of one at 127.0.0.1."""
    certificate, key = authority.certify(name, *(subjects or (HERE,)))
    return TlsFiles(certificate=certificate, key=key, authority=authority.certificate)


def foreign(stranger: Authority, authority: Authority) -> CopyTls:
    """That of a machine which trusts our authority, and whose certificate is another one's."""
    paths = certified(stranger, "foreign")
    tls = CopyTls(paths)
    paths = replace(paths, authority=authority.certificate)
    tls._contexts = channel._Contexts(
        owner=channel._context(ssl.PROTOCOL_TLS_CLIENT, paths),
        peer=channel._context(ssl.PROTOCOL_TLS_SERVER, paths),
    )
    return tls


def test_copies_arrive_over_tls(scene: Scene, tls: CopyTls) -> None:
    """All files of a host are at the peer, and none of their bytes was on the way in clear."""
    seen = bytearray()
    peer = scene.serve(tls=tls)
    way = Cutter(peer, lambda: None, seen=seen.extend)
    scene.append(0, b"a known event " * 50)
    scene.append(1, bytes(range(256)) * 10_000)
    replicator = scene.own(way.address, tls=tls)
    replicator.settle()
    until(lambda: files(scene.root) == files(scene.place("b")))
    way.close()
    assert len(seen) > 2_560_000
    assert b"a known event" not in seen
    assert {} == replicator.report().troubles


def test_a_peer_names_itself_as_it_was_named(scene: Scene, authority: Authority) -> None:
    """A certificate for a host name does: others connect to the name that the machine was given."""
    named = CopyTls(certified(authority, "by name", "DNS:localhost"))
    peer = scene.serve(listen="localhost", tls=named)
    assert peer.at.startswith("localhost:")
    path = scene.append(0)
    replicator = scene.own(peer, tls=named)
    replicator.settle()
    assert replicator.has(path)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_owner_with_a_foreign_certificate_gets_nothing(  # noqa: PLR0913, PLR0917 - the scene, two authorities, the log
    scene: Scene,
    tls: CopyTls,
    stranger: Authority,
    authority: Authority,
    said: Callable[[], str],
    version: ssl.TLSVersion,
) -> None:
    """It knows the secret, and hears why it is refused; the peer logs it, and goes on for others."""
    outsider = foreign(stranger, authority)
    outsider._contexts.owner.maximum_version = version
    peer = scene.serve(tls=tls)
    path = scene.append(0)
    refused = scene.own(peer, tls=outsider)
    until(lambda: "alert unknown ca" in refused.report().troubles.get("b", ""))
    until(
        lambda: "a connection from 127.0.0.1 is refused: its certificate is not trusted: unable to get local" in said()
    )
    assert not scene.place("b").exists()
    replicator = scene.own(peer, tls=tls)
    replicator.settle()
    assert replicator.has(path)
    assert not refused.has(path)


def test_an_owner_without_a_certificate_gets_nothing(
    scene: Scene, tls: CopyTls, authority: Authority, said: Callable[[], str]
) -> None:
    """To trust the peer is not enough; not even the first nonce is said."""
    scene.serve(tls=tls)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection(scene.address(), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        secured.recv(1)
    until(lambda: "peer did not return a certificate" in said())
    assert not scene.place("b").exists()


def test_strangers_in_the_midst_of_a_handshake_hold_up_nobody(scene: Scene, tls: CopyTls) -> None:
    """Connections that say nothing, or begin with TLS and stop, delay no owner."""
    peer = scene.serve(tls=tls)
    strangers = [socket.create_connection(scene.address()) for _ in range(20)]
    for stranger in strangers[::2]:
        stranger.sendall(b"\x16\x03\x01")
    scene.append(0)
    scene.own(peer, tls=tls).settle()
    for stranger in strangers:
        stranger.close()


def test_tls_does_not_take_the_place_of_the_secret(scene: Scene, tls: CopyTls) -> None:
    """A machine of the same authority that does not know the secret gets nothing."""
    peer = scene.serve(tls=tls)
    with pytest.raises(Disconnected):
        Channel.to(peer.at, "another secret", tls)
    assert not scene.place("b").exists()


@pytest.mark.parametrize("subject", ["IP:127.0.0.2", "DNS:localhost", "DNS:127.0.0.1"])
def test_a_certificate_for_another_address_is_refused(scene: Scene, authority: Authority, subject: str) -> None:
    """The owner sends nothing to it, though the authority has signed it, and says which address it has not."""
    elsewhere = CopyTls(certified(authority, "elsewhere", subject))
    replicator = scene.own(scene.serve(tls=elsewhere), tls=elsewhere)
    until(lambda: "b" in replicator.report().troubles)
    trouble = replicator.report().troubles["b"]
    assert trouble.startswith("the certificate of the machine at 127.0.0.1 is not trusted: ")
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in trouble
    assert not scene.place("b").exists()


def test_a_peer_of_a_foreign_authority_is_refused(
    scene: Scene, tls: CopyTls, stranger: Authority, authority: Authority, said: Callable[[], str]
) -> None:
    """The owner says so, and the peer's log too."""
    replicator = scene.own(scene.serve(tls=foreign(stranger, authority)), tls=tls)
    until(lambda: "unable to get local issuer certificate" in replicator.report().troubles.get("b", ""))
    until(lambda: "no TLS with it: tlsv1 alert unknown ca" in said())


def test_an_owner_without_tls_is_refused_by_a_peer_with_it(scene: Scene, tls: CopyTls, said: Callable[[], str]) -> None:
    """Both say what is wrong, at once, and the peer keeps nothing."""
    replicator = scene.own(scene.serve(tls=tls))
    until(lambda: "b" in replicator.report().troubles)
    assert (
        "the machine there takes copies over TLS alone, and this one was started without certificates"
        == replicator.report().troubles["b"]
    )
    until(lambda: "it connected without TLS, and this machine takes copies over TLS alone" in said())
    assert not scene.place("b").exists()


def test_an_owner_with_tls_does_not_send_to_a_peer_without_it(
    scene: Scene, tls: CopyTls, said: Callable[[], str]
) -> None:
    """Both say what is wrong, at once, and nothing goes in clear."""
    replicator = scene.own(scene.serve(), tls=tls)
    until(lambda: "b" in replicator.report().troubles)
    trouble = replicator.report().troubles["b"]
    assert trouble.startswith("no TLS with the machine at 127.0.0.1: wrong version number; see whether it has a cert")
    until(lambda: "it connected over TLS, and this machine was started without certificates" in said())
    assert not scene.place("b").exists()


def test_who_tries_again_and_again_is_logged_once(scene: Scene, tls: CopyTls, said: Callable[[], str]) -> None:
    """A machine that is configured wrongly does not fill the log of another one."""
    peer = scene.serve(tls=tls)
    for _ in range(3):
        with pytest.raises(TlsFailed):
            Channel.to(peer.at, SECRET)
    until(lambda: "is refused" in said())
    scene.own(peer, tls=tls).settle()
    assert 1 == said().count("is refused")


def test_a_hang_up_ends_the_connection_below_tls(scene: Scene, tls: CopyTls) -> None:
    """Whatever thread hangs up, the one that sends and receives never falls back to clear bytes."""
    channel = Channel.to(scene.serve(tls=tls).at, SECRET, tls)
    scene.channels.append(channel)
    channel.hang_up()
    assert isinstance(channel._socket, ssl.SSLSocket)
    assert channel._socket.version() is not None
    with pytest.raises(Disconnected):
        channel.receive()


def test_a_renewed_certificate_is_used(scene: Scene, authority: Authority, said: Callable[[], str]) -> None:
    """New connections see it without a restart, while those from before go on."""
    paths = certified(authority, "renewed")
    tls = CopyTls(paths)
    peer = scene.serve(tls=tls)
    replicator = scene.own(peer, tls=tls)
    replicator.settle()
    before = shown(scene, tls)
    certified(authority, "renewed")
    assert before != shown(scene, tls) == ssl.PEM_cert_to_DER_cert(paths.certificate.read_text())
    assert f"{paths.certificate} is used from now on" in said()
    path = scene.append(0)
    replicator.settle(path.parent)
    assert replicator.has(path)


def test_a_renewed_authority_is_used(scene: Scene, authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    """Machines can pass to another authority by trusting both for a while."""
    both = tmp_path / "both.pem"
    shutil.copy(authority.certificate, both)
    ours = certified(authority, "passes")
    tls = CopyTls(TlsFiles(certificate=ours.certificate, key=ours.key, authority=both))
    peer = scene.serve(tls=tls)
    with pytest.raises(TlsFailed):
        Channel.to(peer.at, SECRET, foreign(stranger, authority))
    both.write_bytes(authority.certificate.read_bytes() + stranger.certificate.read_bytes())
    scene.channels.append(Channel.to(peer.at, SECRET, foreign(stranger, authority)))


def test_a_renewal_that_is_not_complete_changes_nothing(
    scene: Scene, authority: Authority, said: Callable[[], str]
) -> None:
    """With a new certificate and the old key, the pair from before is used until the new key is there."""
    paths = certified(authority, "half")
    tls = CopyTls(paths)
    scene.serve(tls=tls)
    before, key = shown(scene, tls), paths.key.read_bytes()
    certified(authority, "half")
    renewed = paths.key.read_bytes()
    paths.key.write_bytes(key)
    assert before == shown(scene, tls) == shown(scene, tls)
    assert f"{paths.key} is not the key of {paths.certificate}" in said()
    assert 1 == said().count("the certificate from before is still used")
    paths.key.write_bytes(renewed)
    assert before != shown(scene, tls)


def shown(scene: Scene, tls: CopyTls) -> bytes | None:
    """The certificate that the peer shows."""
    channel = Channel.to(scene.servers["b"].at, SECRET, tls)
    scene.channels.append(channel)
    assert isinstance(channel._socket, ssl.SSLSocket)
    return channel._socket.getpeercert(binary_form=True)


def test_old_versions_of_tls_are_refused(scene: Scene, tls: CopyTls, authority: Authority) -> None:
    """Below TLS 1.2 nothing begins."""
    scene.serve(tls=tls)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    # The client would do it.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(scene.address(), timeout=30) as plain,
        pytest.raises(ssl.SSLError, match="protocol version"),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def absent(paths: TlsFiles, _stranger: Authority) -> str:
    """Without the key."""
    paths.key.unlink()
    return f"{paths.key} cannot be read: No such file or directory"


def a_folder(paths: TlsFiles, _stranger: Authority) -> str:
    """With a folder in the certificate's place."""
    paths.certificate.unlink()
    paths.certificate.mkdir()
    return f"{paths.certificate} cannot be read: Is a directory"


def of_another(paths: TlsFiles, stranger: Authority) -> str:
    """With the key of another certificate."""
    shutil.copy(certified(stranger, "another").key, paths.key)
    return f"{paths.key} is not the key of {paths.certificate}"


def without_a_key(paths: TlsFiles, _stranger: Authority) -> str:
    """With something else in the key's place."""
    paths.key.write_text("secret")
    return f"{paths.certificate} and {paths.key} hold no certificate and its key in PEM format"


def without_an_authority(paths: TlsFiles, _stranger: Authority) -> str:
    """With an empty file in the authority's place."""
    paths.authority.write_text("")
    return f"{paths.authority} holds no certificate of an authority in PEM format"


def encrypted(paths: TlsFiles, _stranger: Authority) -> str:
    """With a key that needs a passphrase."""
    options = ["-in", str(paths.key), "-out", str(paths.key), "-aes256", "-passout", "pass:secret"]
    subprocess.run(["openssl", "ec", *options], check=True, capture_output=True)  # noqa: S603, S607 - as installed
    return f"{paths.key} is encrypted; give a key without a passphrase"


def of_a_foreign_authority(paths: TlsFiles, stranger: Authority) -> str:
    """Signed by somebody else."""
    shutil.copy(stranger.certificate, paths.authority)
    return f"{paths.certificate} is no certificate for this machine signed by {paths.authority}: unable to get local"


def for_elsewhere(paths: TlsFiles, _stranger: Authority) -> str:
    """With the address of the machine at which no certificate is aimed."""
    return f"{paths.certificate} is no certificate for this machine signed by {paths.authority}: IP address mismatch"


@pytest.mark.parametrize(
    "spoil",
    [
        absent,
        a_folder,
        of_another,
        without_a_key,
        without_an_authority,
        encrypted,
        of_a_foreign_authority,
        for_elsewhere,
    ],
)
def test_files_that_do_not_fit_are_refused_at_the_start(
    tmp_path: Path, stranger: Authority, spoil: Callable[[TlsFiles, Authority], str]
) -> None:
    """One message names the file and what is wrong with it."""
    paths = certified(Authority(tmp_path / "own"), "machine")
    message = spoil(paths, stranger)
    address = CopyAddress(host="127.0.0.9" if spoil is for_elsewhere else "127.0.0.1", port=8700, files=paths)
    with pytest.raises(UnfitCertificate) as caught:
        address.check()
    assert str(caught.value).startswith(message)


def test_files_that_fit_are_accepted_at_the_start(authority: Authority) -> None:
    """The check of the start lets in what others let in."""
    CopyAddress(host="127.0.0.1", port=8700, files=certified(authority)).check()
