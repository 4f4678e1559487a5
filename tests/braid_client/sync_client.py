"""The generator of the sync connection from the async one; `python -m tests.braid_client.sync_client` writes it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

FOLDER = Path(__file__).parents[2] / "braid_client"
GENERATED = {"async_connection": "connection"}
"""The modules that are generated, by the module that each is generated from."""
_WORDS = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncOutputTail": "OutputTail",
    "AsyncServiceConnection": "ServiceConnection",
    "AsyncSleep": "Sleep",
    "AsyncSubmittedDataflow": "SubmittedDataflow",
    "aclose": "close",
    "aiter_lines": "iter_lines",
    "anext": "next",
    "aread": "read",
    "asyncio": "time",
    **GENERATED,
}
_RULES = [
    unasync.Rule(f"/braid_client/{source}.py", f"/braid_client/{target}.py", additional_replacements=_WORDS)
    for source, target in GENERATED.items()
]


def generated() -> dict[str, str]:
    """The text of each generated module, by its name."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "braid_client"
        folder.mkdir()
        for source in GENERATED:
            shutil.copy(FOLDER / f"{source}.py", folder)
        unasync.unasync_files([str(folder / f"{source}.py") for source in GENERATED], _RULES)
        return {target: _formatted(source, folder / f"{target}.py") for source, target in GENERATED.items()}


def _formatted(source: str, path: Path) -> str:
    text = f"# Generated from {source}.py by `make client`: edit that file.\n{path.read_text(encoding='utf-8')}"
    # `for ... yield` becomes `yield from`, which async generators do not have; imports are sorted by their new names.
    for call in (["check", "--fix", "--unsafe-fixes", "--select=I,UP028"], ["format"]):
        command = [sys.executable, "-m", "ruff", *call, "--quiet", f"--stdin-filename={FOLDER / path.name}", "-"]
        text = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout  # noqa: S603 - no input from outside
    return text


def main() -> None:
    """Write the generated modules."""
    for target, text in generated().items():
        (FOLDER / f"{target}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
