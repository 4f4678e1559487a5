"""The suite itself: what tests need of the platform, and the line before pytest's last one."""

import os
import subprocess
import sys
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


TESTS = """\
import pytest


@pytest.mark.parametrize("number", range(3))
def test_needing_something(number):
    pytest.skip("for want of mosquitto: apt-get install mosquitto")


@pytest.mark.skipif(True, reason="nothing is there")
def test_of_nothing(): ...


@pytest.mark.slow
@pytest.mark.full
def test_taking_long(): ...


@pytest.mark.full
def test_of_everything(): ...


def test_passing(): ...
"""


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["alone", "shared"])
def test_a_run_ends_with_what_it_left_out_and_how_to_get_it(tmp_path: Path, workers: list[str]) -> None:
    """Each reason and each target once, in one line; pytest's own line follows."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    full\n    slow\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    # Other plugins take seconds to load.
    words = ["-m", "pytest", "-p", "tests.closing_line", "-m", "not slow and not full", "-ra", *workers]
    ran = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    line, last = ran.stdout.splitlines()[-2:]
    assert (
        "1 test was skipped because nothing is there; "
        "3 tests were skipped for want of mosquitto: apt-get install mosquitto; "
        "1 test is left to make slow; 1 test is left to make test-all"
    ) == line
    assert "1 passed, 4 skipped" in last
