"""Completion: of commands, options and values, and of names from the service."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager.completion import Shell, offered
from tests.braid_client.test_against_rest import DOCUMENT, SOURCE, Served, rest
from tests.manager.braid_runner import Braid


@pytest.fixture
def served(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:  # noqa: ARG001 - no other settings
    """A service in which ann and bob have a dataflow each."""
    with rest() as made:
        monkeypatch.setenv("BRAID_URL", made.url)
        for key, name in ((made.service.ann, "warm streets: 5 °C"), (made.service.bob, "bob's own")):
            with made.client(key) as client:
                client.submit(DOCUMENT | {"name": name})
        with made.client(made.service.ann) as ann:
            ann.register_source(SOURCE)
        yield made


def values(*words: str) -> list[str]:
    return [value for value, _ in offered(words[:-1], words[-1])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["stat"], ["status"]),
        (["tenants", "a"], ["admit"]),
        (["submit", "--st"], ["--start"]),
        (["submit", "--start", ""], ["latest", "earliest"]),
        (["sources", "visibility", "city", "n"], ["named"]),
        (["nothing", ""], []),
        (["tenants", "nothing", ""], []),
        (["submit", ""], []),
        (["submit", "--wait", "--qu"], ["--quiet"]),
    ],
)
def test_words_are_those_of_the_commands(words: list[str], expected: list[str]) -> None:
    """Commands, those of groups, options, and values of which there are few; the shell offers files else."""
    assert expected == values(*words)


def test_names_are_those_that_the_caller_sees(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another tenant's dataflows there are none."""
    for key, names in ((served.service.ann, ["warm streets: 5 °C"]), (served.service.bob, ["bob's own"])):
        monkeypatch.setenv("BRAID_KEY", key)
        assert (names, names) == (values("show", ""), values("logs", "--last", "5", ""))
    monkeypatch.setenv("BRAID_KEY", served.service.ann)
    with served.client(served.service.ann) as ann:
        assert [source.name for source in ann.sources()] == values("sources", "show", "") != []


def test_names_are_silent_without_a_service(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - as above
    """Nor is anything said where the settings are wrong, or there is no key."""
    for name, value in (("BRAID_URL", "http://127.0.0.1:1"), ("BRAID_URL", "wrong"), ("BRAID_KEY", "")):
        monkeypatch.setenv(name, value)
        assert [] == values("show", "")


def test_bash_gets_words_that_it_takes_as_they_stand(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escaped, unless within quotes; and after a colon, where a word begins anew for it, the rest."""
    program = """
        source <(braid completion bash)
        complete -p braid
        answer() {
            COMP_LINE="$1" COMP_POINT=${#1} COMP_CWORD=0 COMP_WORDS=("$2"); _braid; printf '%s\\n' "${COMPREPLY[@]}"
        }
        answer 'braid show wa' wa
        answer "braid show 'wa" "'wa"
        answer 'braid show warm\\ streets:' ''
        answer 'braid stat' stat
    """
    monkeypatch.setenv("BRAID_KEY", served.service.ann)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)  # noqa: S603, S607 - ours
    assert [
        "complete -o default -F _braid braid",
        r"warm\ streets:\ 5\ °C",
        "warm streets: 5 °C",
        r"\ 5\ °C",
        "status",
    ] == done.stdout.splitlines()


@pytest.mark.parametrize("shell", [Shell.ZSH, Shell.FISH])
def test_other_shells_get_one_word_in_a_line(braid: Braid, shell: Shell) -> None:
    """For fish with what it means; they escape it themselves. Where there is nothing, nothing is printed."""
    offer = braid("completion", shell, "--", "tenants", "ad").stdout
    assert ("admit\n" if shell is Shell.ZSH else "admit\tAdmit tenants.\n") == offer
    assert "" == braid("completion", shell, "--", "submit", "").output
    assert "braid completion" in braid("completion", shell).stdout
