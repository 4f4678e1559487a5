"""Every shell block of the documentation, typed as it stands there, a page at a time, beside one service for all."""

import doctest
import os
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path

import pytest

from tests.documentation.pages import Example, Page, every_page, page
from tests.integration.serving import BRAID, Served

pytestmark = [pytest.mark.full, pytest.mark.spark]
BOUND = 600.0
FIRST = ("README.md", "docs/tutorial.md")
"""What everybody types who is new."""
MARK = "typed what stands at line"
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
"""In the text that a page shows, `...` stands for what differs each time."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """What `braid serve` starts in the first terminal of every page; it is ready."""
    made = Served(tmp_path, pace=0.2)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_the_blocks_for_beginners_do_what_they_say(tmp_path: Path, served: Served) -> None:
    """Each line ends well, and prints what the page shows after it; Ctrl-C then ends the service."""
    hold(tmp_path, served, [page(name) for name in FIRST])


@pytest.mark.slow
def test_every_block_does_what_it_says(tmp_path: Path, served: Served) -> None:
    """The same of all pages, typed in the order in which they stand."""
    hold(tmp_path, served, every_page())


def hold(folder: Path, served: Served, pages: Iterable[Page]) -> None:
    """Type the blocks of pages; among them are those for beginners."""
    programs = second_terminal(folder)
    settings = {"BRAID_ROOT": str(served.root), "BRAID_PORT": str(served.port)}
    wrong = {str(shown): trouble for shown in pages if (trouble := typed(shown, folder, programs, settings))}
    assert not wrong, "\n\n".join(f"{name}: {trouble}" for name, trouble in wrong.items())
    with served.client() as operator:
        # The README's is there still, and of the tutorial's two the one that stays.
        assert {"averages of plausible temperatures", "levels so far"} == {each.name for each in operator.dataflows()}
    assert served.process is not None
    served.look()
    served.process.send_signal(signal.SIGINT)
    assert 0 == served.process.wait(BOUND)


def test_there_is_something_to_type() -> None:
    """The pages that promise blocks have them."""
    promised = ["README.md", "docs/tutorial.md", "docs/how-to/read-dead-letters.md", "docs/how-to/defragment.md"]
    assert all(blocks(page(name)) for name in promised)


def blocks(shown: Page) -> list[Example]:
    """What is typed of a page."""
    return [each for each in shown.examples if each.language == "sh" and each.not_run is None]


def second_terminal(folder: Path, installed: Path = BRAID.parent) -> Path:
    """The programs of a terminal in which `braid serve` is what runs in the first one already.

    They are those of an environment. A service without a host of its own is one beside that, and is started.
    """
    programs = folder / "bin"
    programs.mkdir()
    serving = 'case "$*" in serve*--host*none*) ;; serve*) exit 0 ;; esac\n'
    for name, before in (("braid", serving), ("python", "")):
        script = f'#!/bin/sh\n{before}exec {shlex.quote(str(installed / name))} "$@"\n'
        (programs / name).write_text(script, encoding="utf-8")
        (programs / name).chmod(0o755)
    return programs


def typed(shown: Page, folder: Path, programs: Path, settings: Mapping[str, str]) -> str:
    """Type a page's blocks into one shell; what went wrong, if anything did."""
    lines = blocks(shown)
    if not lines:
        return ""
    place = folder / str(shown).removesuffix(".md").replace("/", "-")
    (place / ".venv").mkdir(parents=True)
    (place / ".venv" / "bin").symlink_to(programs)
    shown.save_files(place)
    with chdir(place):
        # A page's programs write what its blocks use.
        shown.run()
    script = "".join(f"printf '\\n{MARK} {each.line}\\n'\n{each.text}" for each in lines)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "XDG_"))}
    environment = {
        **kept,
        "PATH": f"{programs}:{kept['PATH']}",
        "HOME": str(folder),
        **settings,
    }
    done = subprocess.run(  # noqa: S603 - our own documentation
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    printed = [each.partition("\n") for each in done.stdout.split(f"\n{MARK} ")[1:]]
    if done.returncode != 0:
        return f"the block at line {printed[-1][0]} ends with {done.returncode}: {done.stderr}{printed[-1][2]}"
    wrong = [
        f"the block at line {each.line} prints\n{output}and not\n{each.output}"
        for each, (_, _, output) in zip(lines, printed, strict=True)
        if each.output is not None and not doctest.OutputChecker().check_output(each.output, output, ALIKE)
    ]
    return "\n".join(wrong)
