"""A certificate in files that a listener serves, and takes up anew once they have changed, without a restart.

Connections that there are go on with the certificate that they began with.
"""

import ssl
from pathlib import Path


class UnusableCertificate(Exception):
    """A certificate or its key that cannot be served; the message says which, why, and what to do."""


class ServedCertificate:
    """A certificate and its key."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """`UnusableCertificate` where they cannot be served."""
        self._certificate = certificate
        self._key = key
        self._version = self._seen()
        self._newest = self._read()
        self.context = self._newest
        """What listeners hand to the server that they make."""
        # A context whose files are replaced has no key for a moment, and a connection that begins then fails.
        self.context.sni_callback = self._begin

    def look(self) -> bool:
        """Take the files up if they have changed, and tell whether they have.

        `UnusableCertificate`, once for each change, where they cannot be served; what was served before stays then.
        """
        version = self._seen()
        if version == self._version:
            return False
        self._version = version
        self._newest = self._read()
        return True

    def _begin(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Have a connection begin with the newest certificate."""
        connection.context = self._newest

    def _seen(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_version, (self._certificate, self._key)))

    def _read(self) -> ssl.SSLContext:
        """A context with what the files hold."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        for path in (self._certificate, self._key):
            try:
                path.read_bytes()
            except OSError as error:
                why = f"cannot be read: {error.strerror}; let the service's user read it, or name another"
                raise UnusableCertificate(f"{path}: {why}") from None
        try:
            # Else OpenSSL would ask for a password at the terminal.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except ssl.SSLError as error:
            if "MISMATCH" in (error.reason or ""):
                why = f"is not the key of the certificate in {self._certificate}; name the files that belong together"
                raise UnusableCertificate(f"{self._key}: {why}") from None
            why = "hold no certificate and key without a password in the form PEM; name others"
            raise UnusableCertificate(f"{self._certificate} and {self._key}: {why}") from None
        return context


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
