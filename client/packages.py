"""The build hook that adds the packages: those beside this folder, or in a source distribution those within it."""  # noqa: INP001 - a part of the build, and no package

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Packages(BuildHookInterface[Any]):
    """Puts the packages into what is built, and the licence into a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, unless they are used where they are."""
        if version == "editable":
            return
        folder = Path(self.root)
        top = folder if (folder / "braid_client").is_dir() else folder.parent
        files = {path: path.relative_to(top) for name in self.config["packages"] for path in (top / name).rglob("*")}
        for path, name in files.items():
            left_out = any(name.is_relative_to(package) for package in self.config["leaves-out"])
            if path.suffix in {".py", ".typed"} and not left_out:
                build_data["force_include"][str(path)] = str(name)
        if self.target_name == "sdist":
            build_data["force_include"][str(top / "LICENSE")] = "LICENSE"
