"""Keys of machines: who signed a report, and that nobody else can."""

import json
import stat
from pathlib import Path

import pytest

from engine.machines.reports import MachineKey, public_key, signed_content

REPORT = {"machine": "m", "alive": True, "cores": 1.5, "hosts": {"m": {"version": 2, "in_sync": ["n"]}}}


def test_a_root_has_one_key(tmp_path: Path) -> None:
    """Machines that share it share the key, and another root has another one."""
    assert public_key(tmp_path / "a") == ""
    key = MachineKey(tmp_path / "a")
    assert {MachineKey(tmp_path / "a").public, public_key(tmp_path / "a")} == {key.public}
    assert MachineKey(tmp_path / "b").public != key.public


def test_nobody_else_reads_the_key(tmp_path: Path) -> None:
    """From its first moment on."""
    MachineKey(tmp_path)
    assert stat.S_IMODE((tmp_path / "machine.key").stat().st_mode) == 0o600


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    (tmp_path / "machine.key").write_bytes(b"?")
    with pytest.raises(OSError, match=r"machine\.key holds no key of a machine; remove it"):
        MachineKey(tmp_path)


def test_what_is_signed_is_the_report(tmp_path: Path) -> None:
    """A message holds all of it, and the public key."""
    message = MachineKey(tmp_path).signed(REPORT)
    found = signed_content(message)
    assert {name: found[name] for name in REPORT} == REPORT


@pytest.mark.parametrize(
    "forged",
    [
        {"alive": False},
        {"machine": "n"},
        {"later": 1},
        {"signature": ""},
        {"signature": "A" * 86},
        {"signature": None},
        {"key": "A" * 43},
        {"key": "?"},
        {"key": 1},
    ],
)
def test_a_changed_message_is_refused(tmp_path: Path, forged: dict[str, object]) -> None:
    """Whatever is changed, left out or added."""
    message = {**json.loads(MachineKey(tmp_path).signed(REPORT)), **forged}
    with pytest.raises(ValueError, match="not signed with the key"):
        signed_content(json.dumps(message).encode())
