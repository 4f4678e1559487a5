"""Remote folders and buckets, opened by the secrets of tenants.

A secret is a URL, or a JSON object with `url` and the credentials. It must contain credentials, because a host may have
its own for its operator's buckets, and file systems use these if none are given.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import fsspec

from dags import Secret
from engine.behaviour import NoBehaviour
from engine.implementations.outside.guarded_connections import guarded
from engine.outside import HostBarred


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemKind:
    """A kind of file system that tenants may use."""

    needs: tuple[frozenset[str], ...] = ()
    """The alternative sets of required options; empty if user and password are in the URL."""
    takes: frozenset[str] = frozenset()
    """Optional options."""
    always: Mapping[str, Any] | None = None
    """Options that are always set, so that it does not look for credentials of the host."""
    renames: bool = False
    """True if a file is first written under another name, because its writes are not atomic."""


_ANYBODY = frozenset({"anon"})
_S3 = FileSystemKind(needs=(frozenset({"key", "secret"}), _ANYBODY), takes=frozenset({"endpoint_url", "token"}))
_GCS = FileSystemKind(needs=(frozenset({"token"}),))
_AZURE = FileSystemKind(needs=tuple(frozenset({"account_name", each}) for each in ("account_key", "sas_token")))
FILE_SYSTEMS: Mapping[str, FileSystemKind] = {
    "abfs": _AZURE,
    "az": _AZURE,
    "ftp": FileSystemKind(renames=True),
    "gcs": _GCS,
    "gs": _GCS,
    "s3": _S3,
    "sftp": FileSystemKind(always={"look_for_keys": False, "allow_agent": False}, renames=True),
}
_UNFIT = re.compile(r"\s|::")
"""Parts of no host and path: fsspec takes `::` for a second URL, which may lead to files of the host."""
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"[a-z0-9$-]+(@[a-z0-9]{3,24}\.(blob|dfs)\.core\.windows\.net)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFolder:
    """The folder or bucket of a secret; made by `opened`."""

    system: Any
    """The fsspec file system."""
    path: str
    """The path in the file system."""
    renames: bool
    """As in its kind."""
    hosts: tuple[str, ...]
    """The hosts that the secret names. Hosts of a cloud are known to its file system."""


def opened(secret: Secret) -> OpenedFolder:
    """Open the folder or bucket of a secret. Errors do not reveal the secret."""
    url, options = _read(secret)
    name, _, _ = url.partition("://")
    if (kind := FILE_SYSTEMS.get(name)) is None:
        # Others lead to files or memory of the host.
        known = ", ".join(f"{each}://" for each in FILE_SYSTEMS)
        raise _unfit(secret, f"is not the URL of a bucket or folder; begin it with one of {known}")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unfit(secret, "has a URL that cannot be read; write characters such as [ in it as %5B") from None
    if why := _lacking(kind, url, options):
        raise _unfit(secret, why)
    hosts = hosts_of(kind, url, options)
    if not kind.needs:
        url, options = without_login(parts)
    if _UNFIT.search(url):
        raise _unfit(secret, "has a space or `::` in the host or path of its URL; choose a host and a path without")
    try:
        # Some connect at once.
        with guarded(secret, () if kind.needs else hosts):
            system, path = fsspec.core.url_to_fs(url, **options, **(kind.always or {}))
    except HostBarred as barred:
        raise _unfit(secret, f"cannot be used: {barred}") from None
    except ImportError:
        raise NoBehaviour(f"the package for {name}:// is not installed; install it on every worker") from None
    except Exception as error:  # noqa: BLE001 - each file system raises its own errors, which may contain the URL
        raise _unfit(secret, f"cannot be opened: {type(error).__name__}") from None
    return OpenedFolder(system=system, path=path, renames=kind.renames, hosts=hosts)


def hosts_of(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts that a secret names. A missing host is an empty text."""
    if not kind.needs:
        return (urlsplit(url).hostname or "",)
    named = [options["endpoint_url"]] if "endpoint_url" in options else []
    if kind is _GCS:
        # A service account's key contains the URL where it is exchanged for a token.
        named += [url for name, url in options["token"].items() if name.endswith(("_uri", "_url"))]
    return tuple(urlsplit(str(each)).hostname or "" for each in named)


def without_login(url: SplitResult) -> tuple[str, dict[str, str]]:
    """Take user and password out of a URL, where they may hold any character, percent-encoded or not.

    >>> without_login(urlsplit("sftp://ann:a::b%2Fc d@files.example:2022/in"))
    ('sftp://files.example:2022/in', {'username': 'ann', 'password': 'a::b/c d'})
    """
    login = {"username": unquote(url.username or ""), "password": unquote(url.password or "")}
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl(), login


def _read(secret: Secret) -> tuple[str, dict[str, Any]]:
    text = secret.revealed.strip()
    if not text.startswith("{"):
        return text, {}
    try:
        options: dict[str, Any] = json.loads(text)
    except ValueError:
        raise _unfit(secret, "is neither a URL nor JSON; correct it") from None
    return str(options.pop("url", "")), options


def _lacking(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """A fault in the options of a secret; empty if there is none."""
    known = kind.takes.union(*kind.needs)
    if unknown := sorted(options.keys() - known):
        return f"has the option {unknown[0]!r}, which tenants may not use; remove it"
    if kind.needs and not any(each <= options.keys() for each in kind.needs):
        wanted = " or ".join(" and ".join(map(repr, sorted(each))) for each in kind.needs)
        return f"has no credentials; make it a JSON object with 'url' and {wanted}"
    if "anon" in options and options["anon"] is not True:
        return "has an 'anon' that is not true; remove it, and give credentials"
    if not kind.needs and not urlsplit(url).password:
        return "has no user and password in its URL; put them there, with / ? # in them as %2F %3F %23"
    return _misfit(kind, url, options)


def _misfit(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """A fault in the options for a cloud; empty if there is none."""
    if kind is _GCS and not isinstance(options["token"], dict):
        # A text would name a file or the identity of the host.
        return "has a 'token' that is not a JSON object; put the service account's key there unchanged"
    if kind is _AZURE and not (
        _ACCOUNT.fullmatch(str(options["account_name"])) and _CONTAINER.fullmatch(urlsplit(url).netloc)
    ):
        # The account's name becomes part of a host's name.
        return "has no valid name of an account or container of Azure; correct it"
    return ""


def _unfit(secret: Secret, why: str) -> NoBehaviour:
    return NoBehaviour(f"the secret {secret.secret!r} {why}")
