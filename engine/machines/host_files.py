"""The files that a host's jobs need besides its own: published code, secrets, and an id for what they write outside."""

import uuid
from pathlib import Path
from urllib.parse import quote

from bridge.files import link_whole, make_folder
from engine.code.store import CODE_FOLDER
from engine.code.vouchers import VOUCHERS
from engine.outside import DEPLOYMENT, FILES, REACHABLE, VAULT_FOLDER, VAULT_KEY

_COMMON = (CODE_FOLDER, FILES, REACHABLE, VAULT_FOLDER, VAULT_KEY, VOUCHERS)
"""What the manager writes, and tasks of any host read."""


def link_common(root: Path, common: Path) -> None:
    """Have a root find what lies in a folder that all machines reach, whether it is there yet or not."""
    make_folder(root)
    for name in _COMMON:
        if root != common and not (root / name).exists() and not (root / name).is_symlink():
            (root / name).symlink_to(common / name)


def keep_deployment(root: Path, host: str) -> None:
    """Have a host name its effects outside alike on every machine: the id is among the files that are copied."""
    kept = root / "hosts" / quote(host, safe="") / DEPLOYMENT
    make_folder(kept.parent)
    link_whole(kept, uuid.uuid4().hex[:12].encode())
    link_whole(root / DEPLOYMENT, kept.read_bytes())
