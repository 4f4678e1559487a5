"""The commands that the documentation names exist, and commits are checked as by hand."""

import re

import pytest
import typer.main

from manager.command import app
from tests.documentation.pages import ROOT, Page, every_page, page

PAGES = pytest.mark.parametrize("shown", every_page(), ids=str)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
COMMANDS = set(getattr(typer.main.get_command(app), "commands"))  # noqa: B009 - the type of a group is not stable


def named(shown: Page, program: str) -> set[str]:
    """What the page calls the program with."""
    return {word for line in shown.commands for word in re.findall(rf"\b{program} ([a-z][a-z-]*)\b", line)}


@PAGES
def test_every_target_named_is_in_the_makefile(shown: Page) -> None:
    """`make something` in a page is something that can be made."""
    assert not named(shown, "make") - TARGETS


@PAGES
def test_every_command_named_is_there(shown: Page) -> None:
    """`braid something` in a page is a command."""
    assert not named(shown, "braid") - COMMANDS


def test_contributing_lists_every_target() -> None:
    """No target is known to insiders only."""
    assert [f"make {target}" for target in sorted(TARGETS)] == sorted(page("CONTRIBUTING.md").table("Set-up").column())


def test_the_readme_names_the_commands_to_begin_with() -> None:
    """The README has the two targets and the first commands."""
    assert {"demo", "test"} <= named(page("README.md"), "make")
    assert {"check", "serve", "submit"} <= named(page("README.md"), "braid")


def test_commits_are_checked_as_by_make_check() -> None:
    """The hooks run the same commands as `make check`, in the same order."""
    # What it needs comes first.
    recipe = [
        line
        for target in ("lint", "check")
        for line in MAKEFILE.partition(f"\n{target}:")[2].partition("\n\n")[0].splitlines()[1:]
    ]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe] == re.findall(r"entry: (.+)", hooks)
