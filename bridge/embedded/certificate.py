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
        self.context = _new_context()
        """What listeners hand to the server that they make."""
        self._load(self.context)

    def look(self) -> bool:
        """Take the files up if they have changed, and tell whether they have.

        `UnusableCertificate`, once for each change, where they cannot be served; what was served before stays then.
        """
        version = self._seen()
        if version == self._version:
            return False
        self._version = version
        # First elsewhere: one file may have been replaced before the other, and only what is whole is served.
        self._load(_new_context())
        self._load(self.context)
        return True

    def _seen(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_version, (self._certificate, self._key)))

    def _load(self, context: ssl.SSLContext) -> None:
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


def _new_context() -> ssl.SSLContext:
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
