"""Where a machine takes copies of other machines' hosts, and the files with which it does so over TLS."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.replicas.copy_tls import CopyTls, TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAddress:
    """What the options of a machine say about copies."""

    host: str
    port: int
    forwarded_to: tuple[str, int] | None = None
    """Where it listens, if that is elsewhere than where others connect."""
    files: TlsFiles | None = None
    """Its certificate; None if it speaks without TLS."""

    @classmethod
    def parse(
        cls,
        at: str,
        listen: str = "",
        /,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
        authority: Path | None = None,
    ) -> "CopyAddress | None":
        """Read the options; None if the machine takes no copies. Raises ValueError."""
        named = {"--copies-certificate": certificate, "--copies-key": key, "--copies-ca": authority}
        missing = [option for option, path in named.items() if path is None]
        if not at:
            if listen or len(missing) < len(named):
                raise ValueError(f"--copies-listen, {', '.join(named)} are for copies; give --copies-at as well")
            return None
        host, port = _parsed("--copies-at", at)
        files = None
        if certificate and key and authority:
            files = TlsFiles(certificate=certificate.absolute(), key=key.absolute(), authority=authority.absolute())
        elif len(missing) < len(named):
            raise ValueError(f"{', '.join(named)} belong together; {', '.join(missing)} is missing")
        return cls(
            host=host, port=port, forwarded_to=_parsed("--copies-listen", listen) if listen else None, files=files
        )

    def reached_at(self, listening: str) -> str:
        """Where others connect to a machine that listens at an address."""
        return f"{self.host}:{self.port}" if self.forwarded_to else listening

    @property
    def listen(self) -> tuple[str, int]:
        """Where it listens."""
        return self.forwarded_to or (self.host, self.port)

    def options(self) -> Iterator[str]:
        """The options again."""
        yield f"--copies-at={self.host}:{self.port}"
        if self.forwarded_to is not None:
            yield "--copies-listen={}:{}".format(*self.forwarded_to)
        if self.files is not None:
            yield f"--copies-certificate={self.files.certificate}"
            yield f"--copies-key={self.files.key}"
            yield f"--copies-ca={self.files.authority}"

    def tls(self) -> CopyTls | None:
        """The TLS of these files; raises UnfitCertificate."""
        return None if self.files is None else CopyTls(self.files)

    def check(self) -> None:
        """Raise UnfitCertificate if other machines will not accept the certificate at this address."""
        if (tls := self.tls()) is not None:
            tls.check_name(self.host)


def _parsed(option: str, at: str) -> tuple[str, int]:
    host, _, port = at.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{option} {at} is no address; give it as host:port")
    return host, int(port)
