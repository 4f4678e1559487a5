"""Names, commands, shell blocks and links in the documentation lead to something."""

import pkgutil
import re
from pathlib import Path

import pytest
import typer.main

import dags
import merge
from manager.command import app
from tests.deploy.calls import wrong_with
from tests.documentation.pages import ROOT, Page, every_page, page

PAGES = pytest.mark.parametrize("shown", every_page(), ids=str)
PACKAGES = "adaptation|braid_client|bridge|dags|engine|manager|merge|planning|provisioning|tests|workloads"


@PAGES
def test_every_name_of_code_can_be_imported(shown: Page) -> None:
    """A dotted name that begins with one of the packages is one that the package has."""
    unknown: list[str] = []
    for code in shown.code:
        if re.fullmatch(rf"({PACKAGES})(\.\w+)+", code):
            try:
                pkgutil.resolve_name(code)
            except (AttributeError, ImportError):
                unknown.append(code)
    assert not unknown


@PAGES
def test_every_path_is_there(shown: Page) -> None:
    """A path that begins with one of the packages or folders is one of a file or folder."""
    paths = [code for code in shown.code if re.fullmatch(rf"({PACKAGES}|benchmarks|docs)/[\w./-]*", code)]
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_glossary_explains_every_public_class_of_the_core() -> None:
    """What `dags` and `merge` offer, but for errors, has a word; errors explain themselves."""
    offered = {
        f"{package.__name__}.{name}"
        for package in (dags, merge)
        for name, thing in vars(package).items()
        if isinstance(thing, type) and not issubclass(thing, Exception)
    }
    assert not offered - set(page("docs/glossary.md").code)


def test_the_glossary_has_one_row_for_each_word() -> None:
    """One word, one thing."""
    words = [row[0] for table in page("docs/glossary.md").tables for row in table.rows[1:]]
    assert not {word for word in words if words.count(word) > 1}


def test_names_and_paths_are_found_in_the_pages() -> None:
    """The tests above have something to hold."""
    assert "merge.RunningGraph" in set(page("docs/architecture.md").code)
    assert "dags/canonical/signatures.py" in set(page("docs/signatures.md").code)


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
COMMANDS = set(getattr(typer.main.get_command(app), "commands"))  # noqa: B009 - the type of a group is not stable


def named(shown: Page, program: str) -> set[str]:
    """What the page calls the program with."""
    return {word for line in shown.commands for word in re.findall(rf"\b{program} ([a-z][a-z0-9-]*)\b", line)}


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
    recipe = MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0].splitlines()[1:]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe] == re.findall(r"entry: (.+)", hooks)


@PAGES
def test_every_link_within_the_repository_leads_to_a_file_and_a_heading(shown: Page) -> None:
    """A relative link names a file that is there, and a heading that this file has."""
    broken: list[str] = []
    for link in shown.links:
        if link.startswith(("https://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (shown.path.parent / place).resolve() if place else shown.path
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and anchor not in Page(target).anchors):
            broken.append(link)
    assert not broken


def test_a_broken_link_would_be_found() -> None:
    """The pages give their links and headings, so that the test above has something to hold."""
    readme = page("README.md")
    assert "docs/documents.md" in set(readme.links)
    assert {"braid", "in-30-seconds", "what-there-is-today"} <= readme.anchors


def test_headings_that_are_alike_have_anchors_of_their_own(tmp_path: Path) -> None:
    """Anchors are written as on the web: lower case, no punctuation, numbers for repetitions."""
    path = tmp_path / "alike.md"
    path.write_text("# One `two`, three!\n\n# Same\n\n# Same\n", encoding="utf-8")
    assert {"one-two-three", "same", "same-1"} == Page(path).anchors


def test_every_document_is_listed_in_the_readme() -> None:
    """A reader who begins at the README finds every page, those of the site by its first one."""
    begin, site = page("README.md"), page("docs/index.md")
    linked = {(each.path.parent / link.partition("#")[0]).resolve() for each in (begin, site) for link in each.links}
    assert {begin.path, site.path} <= linked | {begin.path}
    assert not {str(shown) for shown in every_page() if shown.path not in linked | {begin.path}}


WHY_NOT = {
    "another machine": "it reaches for machines that are not there",
    "changes this machine": "it installs packages, or starts services of the system",
    "takes minutes": "a test of what it calls is somewhere else, or runs on its own",
    "until Ctrl-C": "it ends when somebody ends it",
    "your own files": "it reads files that readers bring",
}
"""What `not_run` may give as the reason."""


@PAGES
def test_a_block_that_is_not_run_gives_a_reason_that_is_known(shown: Page) -> None:
    """Nothing is left out in silence."""
    assert not {example.not_run for example in shown.examples} - {None, *WHY_NOT}


@PAGES
def test_every_call_of_braid_in_a_block_can_be_made(shown: Page) -> None:
    """Commands, arguments and options are known, in the blocks that are not run too."""
    wrong = {
        " ".join(call): problem
        for example in shown.examples
        if example.language == "sh"
        for call in calls(example.text)
        if (problem := wrong_with(call))
    }
    assert not wrong


def calls(text: str) -> list[list[str]]:
    """The words that `braid` is called with in a block, each time."""
    # What stands between these words is a file, and not typed.
    typed = re.sub(r"<<-?'?(\w+)'?\n.*?^\1$", "", text.replace("\\\n", " "), flags=re.DOTALL | re.MULTILINE)
    found: list[list[str]] = []
    for command in re.split(r"\n|[|;&)]|\$\(", re.sub(r"\d?>+ *[^\s;|&)]+|\s#.*", "", typed)):
        words = [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", command)]
        # As the user of another program it is no call.
        places = [
            place
            for place, word in enumerate(words[:-1])
            if (word == "braid" or word.endswith("/bin/braid")) and words[max(place - 1, 0)] not in {"-o", "-u"}
        ]
        found += [words[place + 1 :] for place in places]
    return found


def test_calls_are_found_wherever_a_line_has_them() -> None:
    """Substitutions, pipes, redirections and other words before it hide no call; files hold none."""
    text = """\
sudo -u braid .venv/bin/braid serve --port 1 &  # braid serves
id="$(braid submit a.json --json | tail)"
cat > file <<'END'
braid nonsense
END
until braid list --name "two words" > /dev/null; do sleep 1; done
"""
    called = [["serve", "--port", "1"], ["submit", "a.json", "--json"], ["list", "--name", "two words"]]
    assert called == calls(text)
