"""The root of a machine, and where in it the files of each host are that the machine carries or has copies of."""

import uuid
from pathlib import Path
from urllib.parse import quote

from bridge.files import link_whole
from engine.machines.host_files import keep_deployment, link_common


class MachineRoot:
    """One machine's root."""

    def __init__(self, path: Path, machine: str, *, common: Path | None, is_shared: bool) -> None:
        """`is_shared` says that other machines work in it too, so that hosts lie where they always lay.

        `common` is a folder that all machines reach, with published code and secrets; the root if none is given.
        """
        self.path = path
        self._machine = machine
        self._common = common or path
        self.is_shared = is_shared
        path.mkdir(parents=True, exist_ok=True)
        link_whole(path / "identity", uuid.uuid4().hex.encode())
        self.identity = (path / "identity").read_text()

    def of(self, host: str) -> Path:
        """The folder with the files of a host."""
        if host == self._machine or self.is_shared:
            return self.path
        return self.path / "copies" / quote(host, safe="")

    def prepare(self, folder: Path, host: str) -> None:
        """Prepare the folder of a host that is to be carried."""
        link_common(folder, self._common)
        if not self.is_shared:
            keep_deployment(folder, host)

    def outside_name(self, host: str) -> str:
        """What tells the host's files outside from others: it belongs to one host, or to all in a shared root."""
        return self.identity if self.is_shared else f"host {host}"
