"""The warm-up: when it is worth it, and that no failure of it hurts."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.machines import warm_up as module
from engine.machines.warm_up import keep_warm

SCRIPT = """
import json
import tempfile
from pathlib import Path

from engine.machines.warm_up import warm_up
from engine.spark.session import start_session

session = start_session("warm", master="local[1]")
before = set(Path(tempfile.gettempdir()).glob("braid-*"))
warm_up(session, lambda: False)
left = set(Path(tempfile.gettempdir()).glob("braid-*")) - before
print(json.dumps([len(session.streams.active), len(left)]))
session.stop()
"""


def warmed(patch: pytest.MonkeyPatch, cold: list[bool], *, fails: bool = False) -> list[bool]:
    """Keep warm for as many looks as there are answers; for each whether the machine was warmed up."""
    stopping, done = threading.Event(), list[bool]()
    session: Any = object()
    patch.setattr(module, "_WARM_SECONDS", 0.0)

    def warm_up(_session: object, _is_over: object) -> None:
        done[-1] = True
        if fails:
            raise OSError("no JVM")

    def is_cold(*, begins: bool) -> bool:
        assert begins is (not done)
        done.append(False)
        if len(done) == len(cold):
            stopping.set()
        return cold[len(done) - 1]

    patch.setattr(module, "warm_up", warm_up)
    keep_warm(session, stopping, is_cold)
    return done


def test_a_machine_is_warmed_up_whenever_it_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only at its start, since idle workers go."""
    assert [True, False, True] == warmed(monkeypatch, [True, False, True])


def test_a_warm_up_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again when it is due."""
    assert [True, True] == warmed(monkeypatch, [True, True], fails=True)


@pytest.mark.spark
def test_a_warm_up_leaves_neither_a_query_nor_files(tmp_path: Path) -> None:
    """Its job has come to its end, on real Spark, before it returns."""
    command = [sys.executable, "-c", SCRIPT]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)  # noqa: S603 - our own command
    assert [0, 0] == json.loads(done.stdout)
    assert "aborted" not in done.stderr
