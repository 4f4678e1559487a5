"""Every shell block of the documentation is one that a test runs, or says why none does; and its calls are calls."""

import re

import pytest

from tests.deploy.calls import wrong_with
from tests.documentation.pages import Page, every_page

PAGES = pytest.mark.parametrize("shown", every_page(), ids=str)
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
