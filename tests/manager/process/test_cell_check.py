"""The doctor's check of published code."""

from pathlib import Path

import pytest

from engine.code import cells
from manager.process.doctor import FindingState, published_code
from manager.settings import Settings


def test_a_machine_that_confines_code_is_well(tmp_path: Path) -> None:
    """A cell is started there."""
    assert FindingState.OK == published_code(Settings(root=tmp_path)).state


def test_a_machine_that_cannot_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only a warning, because not everybody publishes code."""
    broken = "import platform; platform.machine = lambda: 'pdp11'; " + cells._PROGRAM
    monkeypatch.setattr(cells, "_PROGRAM", broken)
    found = published_code(Settings(root=tmp_path))
    assert (FindingState.WARN, True) == (found.state, "not pdp11" in found.detail)
    assert "vouch for modules" in found.remedy
