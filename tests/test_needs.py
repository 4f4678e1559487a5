"""What tests need of the platform, and what becomes of them where it is missing."""

from pathlib import Path

import pytest

from tests import needs


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("there", "is_enough"),
    [((), False), (("mosquitto",), False), (("mosquitto", "mosquitto_passwd"), True)],
    ids=["nothing", "the broker", "both"],
)
def test_a_test_of_passwords_needs_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: tuple[str, ...], is_enough: bool
) -> None:
    """The broker alone is not enough: the test is skipped with what helps, and fails in continuous integration."""
    for name in there:
        program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    if is_enough:
        needs.mosquitto_passwd()
        return
    with pytest.raises(pytest.skip.Exception, match="for want of mosquitto_passwd: apt-get install mosquitto"):
        needs.mosquitto_passwd()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="mosquitto_passwd is not installed"):
        needs.mosquitto_passwd()
