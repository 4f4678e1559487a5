"""Remotes: what the secret of a bucket or folder elsewhere says, held against what tenants may reach from a host.

A secret is a URL, or a JSON object with `url` and the credentials. They have to be in it: a host may have credentials
of its own, for its operator's buckets, and file systems would use them where none are given.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import fsspec

from dags import Secret
from engine.behaviour import NoBehaviour


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemKind:
    """A kind of file system that tenants may reach."""

    needs: tuple[frozenset[str], ...] = ()
    """One of these sets of options has to be given; none where user and password stand in the URL."""
    takes: frozenset[str] = frozenset()
    """Options that may be given besides."""
    always: Mapping[str, Any] | None = None
    """Options that it always gets, so that it does not look for credentials of the host."""
    renames: bool = False
    """Whether a file is written under another name first; else one is there whole or not at all."""


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
_URL = re.compile(r"([a-z0-9]+)://[^\s:]*(:[^\s:]+)*")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"[a-z0-9$-]+(@[a-z0-9]{3,24}\.(blob|dfs)\.core\.windows\.net)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFolder:
    """A folder or bucket that a secret leads to; made by `opened`."""

    system: Any
    """The file system, as fsspec has it."""
    path: str
    """Where it lies there."""
    renames: bool
    """As its kind says."""
    hosts: tuple[str, ...]
    """The hosts that the secret itself names; others are those of a cloud, which its file system knows."""


def opened(secret: Secret) -> OpenedFolder:
    """What a secret leads to; no error tells what the secret holds."""
    url, options = _read(secret)
    found = _URL.fullmatch(url)
    name = found[1] if found and "::" not in url else ""
    if (kind := FILE_SYSTEMS.get(name)) is None:
        # Others lead to the host's own files, or hold theirs in memory.
        known = ", ".join(f"{each}://" for each in FILE_SYSTEMS)
        raise _unfit(secret, f"holds no URL of a bucket or folder; it begins with one of {known}")
    if why := _lacking(kind, url, options):
        raise _unfit(secret, why)
    hosts = hosts_of(kind, url, options)
    # Some file systems connect as soon as they are made.
    if not kind.needs and (why := barred(secret, hosts)):
        raise _unfit(secret, f"cannot be used: {why}")
    try:
        system, path = fsspec.core.url_to_fs(url, **options, **(kind.always or {}))
    except ImportError:
        raise NoBehaviour(f"what {name}:// needs is not installed; install its package on every worker") from None
    except Exception as error:  # noqa: BLE001 - each file system raises errors of its own, which may repeat the URL
        raise _unfit(secret, f"leads nowhere: {type(error).__name__}") from None
    return OpenedFolder(system=system, path=path, renames=kind.renames, hosts=hosts)


def barred(secret: Secret, hosts: Iterable[str]) -> str:
    """Why a task may not connect to hosts that a secret names; empty where it may."""
    return next((why for host in hosts if (why := secret.barred(host))), "")


def hosts_of(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts that a secret names; an empty one where it should name one and does not."""
    if not kind.needs:
        return (urlsplit(url).hostname or "",)
    named = [options["endpoint_url"]] if "endpoint_url" in options else []
    if kind is _GCS:
        # A service account's key says where it is exchanged for a token.
        named += [told for name, told in options["token"].items() if name.endswith(("_uri", "_url"))]
    return tuple(urlsplit(str(each)).hostname or "" for each in named)


def _read(secret: Secret) -> tuple[str, dict[str, Any]]:
    text = secret.revealed.strip()
    if not text.startswith("{"):
        return text, {}
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError:
        raise _unfit(secret, "is neither a URL nor JSON") from None
    return str(told.pop("url", "")), told


def _lacking(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """Why a secret's options will not do; empty where they will."""
    known = kind.takes.union(*kind.needs)
    if unknown := sorted(options.keys() - known):
        return f"has the option {unknown[0]!r}, which is not for tenants; leave it out"
    if kind.needs and not any(each <= options.keys() for each in kind.needs):
        wanted = " or ".join(" and ".join(map(repr, sorted(each))) for each in kind.needs)
        return f"says nothing of credentials; make it a JSON object with 'url' and {wanted}"
    if "anon" in options and options["anon"] is not True:
        return "has an 'anon' that is not true; give credentials, or leave it out"
    if not kind.needs and not urlsplit(url).password:
        return "has no user and password in its URL; put them there"
    return _misfit(kind, url, options)


def _misfit(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """Why what a secret says to a cloud will not do; empty where it will."""
    if kind is _GCS and not isinstance(options["token"], dict):
        # A text would name a file of the host, or its own identity.
        return "has a 'token' that is no JSON object; put the service account's key there as it is"
    if kind is _AZURE and not (
        _ACCOUNT.fullmatch(str(options["account_name"])) and _CONTAINER.fullmatch(urlsplit(url).netloc)
    ):
        # The account's name becomes that of a host.
        return "names no account or no container as Azure calls them; correct it"
    return ""


def _unfit(secret: Secret, why: str) -> NoBehaviour:
    return NoBehaviour(f"the secret {secret.secret!r} {why}")
