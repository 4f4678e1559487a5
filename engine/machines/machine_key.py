"""The key of a machine: it signs what the machine reports, so that no other process passes for it.

It lies in the root, so a machine whose disk is lost comes back with another one.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bridge.files import link_whole, make_folder

_FILE = "machine.key"
_PURPOSE = b"braid machine 1\n"
"""Signed with each report, so that a signature says nothing else."""


class MachineKey:
    """The key in a root; machines that share the root share it."""

    def __init__(self, root: Path) -> None:
        """Read the key, or make one. Raises OSError if that cannot be done."""
        make_folder(root)
        path = root / _FILE
        if not path.exists():
            link_whole(path, Ed25519PrivateKey.generate().private_bytes_raw(), mode=0o600)
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        except ValueError as error:
            raise OSError(
                f"{path} holds no key of a machine; remove it, and have the machine admitted again"
            ) from error
        self.public = _text(self._key.public_key().public_bytes_raw())
        """The part that everybody may know."""

    def signed(self, report: Mapping[str, Any]) -> bytes:
        """A report as a message, with the public key and a signature."""
        content = {**report, "key": self.public}
        return json.dumps({**content, "signature": _text(self._key.sign(_signed_part(content)))}).encode()


def public_key(root: Path) -> str:
    """The public key of the machine in a root; empty as long as none has run there."""
    return MachineKey(root).public if (root / _FILE).exists() else ""


def signed_content(message: bytes) -> Mapping[str, Any]:
    """The content of a message. Raises ValueError unless it was signed with the key that it names."""
    content: dict[str, Any] = json.loads(message)
    try:
        signature = _bytes(content.pop("signature", ""))
        Ed25519PublicKey.from_public_bytes(_bytes(content["key"])).verify(signature, _signed_part(content))
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ValueError(f"it is not signed with the key that it names, {content.get('key')}") from error
    return content


def _signed_part(content: Mapping[str, Any]) -> bytes:
    return _PURPOSE + json.dumps(content, sort_keys=True).encode()


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
