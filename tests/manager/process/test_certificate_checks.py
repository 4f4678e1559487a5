"""The doctor's check of certificates, shown by a real server for copies."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from engine.replicas.channel import CopyTls, TlsFiles
from engine.replicas.copy_server import CopyServer
from manager.client import Client
from manager.process import doctor
from manager.process.doctor import FindingState, certificates
from manager.settings import ClientSettings, Settings
from tests import needs
from tests.authority import Authority
from tests.manager.client.scripted_service import URL, Service, page


@pytest.mark.parametrize(("days", "expected"), [(2, FindingState.WARN), (40, FindingState.OK)])
def test_a_certificate_that_ends_soon_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, expected: FindingState
) -> None:
    """With whose it is and when; a machine without one is passed over, as one that is not reached."""
    needs.openssl()
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.certify("b", "IP:127.0.0.1", days=days)
    files = TlsFiles(certificate=certificate, key=key, authority=authority.certificate)
    place: Callable[[str], None] = lambda _host: None  # noqa: E731 - it keeps no copies
    shown = CopyServer("b", "secret", listen=("127.0.0.1", 0), place=place, tls=CopyTls(files))
    plain = CopyServer("c", "secret", listen=("127.0.0.1", 0), place=place)
    machines = [
        {"name": name, "alive": alive, "at": at}
        for name, alive, at in (("b", True, shown.at), ("c", True, plain.at), ("d", True, ""), ("e", False, "x:1"))
    ]
    service = Service([page(*machines)])
    transport = httpx.MockTransport(service.answer)
    monkeypatch.setattr(doctor, "Client", lambda url, key: Client(url, key, transport=transport))
    client = ClientSettings(root=tmp_path, url=URL, key=SecretStr("braid_1_hush"))
    found = certificates(client, Settings(root=tmp_path))
    assert (found.state, "that of machine b lasts until 20" in found.detail) == (expected, True)
    found = certificates(client.model_copy(update={"key": None}), Settings(root=tmp_path))
    assert (found.state, found.detail) == (FindingState.OK, "nothing that was reached from here shows one")
    shown.close()
    plain.close()
