"""The output of commands with --json: a document, or an object for each line of a log."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from manager.command import app
from tests.manager.commands.test_documentation import GROUPS

BRAID = (sys.executable, "-c", "from manager.command import app; app()")
PATIENCE = 120.0


def calls() -> Iterator[str]:
    """The words of each command."""
    for name in getattr(typer.main.get_command(app), "commands"):  # noqa: B009 - the type of a group is not stable
        group = getattr(typer.main.get_command(GROUPS[name]), "commands") if name in GROUPS else [""]  # noqa: B009
        yield from (f"{name} {nested}".strip() for nested in group)


def braid(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [*BRAID, *words],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _environment(folder: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("BRAID_")},
        "HOME": str(folder),
        "COLUMNS": "200",
    }


def test_every_command_takes_json(tmp_path: Path) -> None:
    """Except the one that always prints JSON."""
    program = "\n".join(
        (
            "from typer.testing import CliRunner",
            "from manager.command import app",
            f"for call in {list(calls())!r}:",
            "    if '--json' not in CliRunner().invoke(app, [*call.split(), '--help']).stdout:",
            "        print(call)",
        )
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env=_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert ["schema"] == done.stdout.split()


def test_serve_logs_objects_and_protects_its_files(tmp_path: Path) -> None:
    """Each line is an object, and lifecycle events have names. Only the owner can read secret files."""
    root = tmp_path / "root"
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*BRAID, "serve", "--json", "--root", str(root), "--host", "none", "--port", str(_free_port())],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        umask=0,
    )
    try:
        assert process.stdout is not None
        logged: list[dict[str, Any]] = []
        for line in process.stdout:
            logged.append(json.loads(line))
            if logged[-1].get("event") == "ready":
                secret = {path for path in root.rglob("*") if path.is_file() and _is_secret(path)}
                assert {"braid.db", "key", "broker.url"} <= {path.name for path in secret}
                assert [] == [path for path in [root, *secret] if stat.S_IMODE(path.stat().st_mode) & 0o077]
                process.terminate()
        assert 0 == process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in logged)
    events = [line["event"] for line in logged if "event" in line]
    assert ["serves", "leads", "key", "ready", "ends", "ended"] == events
    assert not any((root / "key").read_text().strip() in line["message"] for line in logged)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_secret(path: Path) -> bool:
    """The file holds a secret, by its name."""
    return any(word in path.name for word in ("braid.db", "key", "password", "broker.url", "acl"))


@pytest.mark.parametrize(
    ("words", "event", "code"),
    [
        (("serve", "--json", "--root", "root", "--listen", "192.0.2.1", "--host", "none"), "failed", "cannot-serve"),
        (("serve", "--json", "--port", "0"), None, "wrong-settings"),
        (("host", "north", "--root", "root", "--broker", "http://here", "--json"), "failed", "no-broker"),
    ],
)
def test_a_failed_start_is_reported_as_json(
    tmp_path: Path, words: tuple[str, ...], event: str | None, code: str
) -> None:
    """The last line holds the problem; the exit code is that of a wrong setting."""
    done = braid(*words, folder=tmp_path)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (1, event, code) == (done.returncode, last.get("event"), last["problem"]["code"])
    assert last["problem"]["detail"]
