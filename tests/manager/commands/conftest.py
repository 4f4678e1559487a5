"""Fixtures of the tests of commands."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.commands.braid_runner import Braid


@pytest.fixture
def braid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Braid]:
    """The command line, in an empty folder, in the time zone UTC."""
    made = Braid(monkeypatch, tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield made
    monkeypatch.undo()
    time.tzset()
