"""A certificate authority of our own, made by the command openssl, as strict checks want it."""

import subprocess
from pathlib import Path

_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_AS_STRICT_CHECKS_WANT = """\
basicConstraints=critical,CA:FALSE
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""
"""Python 3.13 checks strictly."""


class Authority:
    """A certificate authority, in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "authority.pem"
        self._key = folder / "authority.key"
        new = [*_NEW, "-subj", f"/CN=authority {folder.name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        self._openssl("req", "-x509", *new, "-keyout", str(self._key), "-out", str(self.certificate), "-days", "2")

    def certify(self, name: str, *subjects: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate for hosts, and its key; a new one of the same name replaces the files."""
        certificate, key, wish, more = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr", "txt"))
        more.write_text(f"subjectAltName={','.join(subjects)}\n{_AS_STRICT_CHECKS_WANT}")
        self._openssl("req", *_NEW, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(wish))
        by = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"]
        self._openssl(
            "x509", "-req", "-in", str(wish), *by, "-extfile", str(more), "-out", str(certificate), "-days", str(days)
        )
        return certificate, key

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)  # noqa: S603, S607 - as installed
