"""Completion: of commands, options and values, and of names from the service."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager.completion import Shell, offered
from tests import needs
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


_TYPING = r"""
    zmodload zsh/zpty
    zpty inner zsh -i
    # Not before it reads keys by itself.
    zpty -rm inner shown '*ready*'
    for typed in "$@"; do zpty -wn inner "$typed"$'\t\x14'; done
    zpty -wn inner $'exit\r'
    while zpty -r inner shown; do :; done
"""
_SHELL = r"""
    autoload -Uz compinit && compinit -D -u
    source <(braid completion zsh)
    note() { print -r -- $BUFFER >>lines; BUFFER=; }
    zle -N note && bindkey '^T' note
    PS1=ready
"""
"""It notes a line that was completed, and begins a new one."""


def test_zsh_completes_what_is_typed(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal: commands, one's own names, escaped or within quotes, and files where there is nothing else."""
    needs.zsh()
    (tmp_path / ".zshrc").write_text(_SHELL)
    (tmp_path / "events.json").touch()
    for name, value in (
        ("BRAID_KEY", served.service.ann),
        ("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin"),
        ("ZDOTDIR", str(tmp_path)),
        ("LC_ALL", "C.UTF-8"),
        ("TERM", "vt100"),
    ):
        monkeypatch.setenv(name, value)
    lines = {
        "braid stat": "braid status ",
        "braid logs ": r"braid logs warm\ streets:\ 5\ °C ",
        "braid show wa": r"braid show warm\ streets:\ 5\ °C ",
        "braid show 'wa": "braid show 'warm streets: 5 °C' ",
        "braid show bob": "braid show bob",
        "braid submit --wait ev": "braid submit --wait events.json ",
    }
    subprocess.run(["zsh", "-fc", _TYPING, "zsh", *lines], cwd=tmp_path, check=True, timeout=60)  # noqa: S603, S607 - ours
    assert [*lines.values()] == (tmp_path / "lines").read_text().splitlines()


@pytest.mark.parametrize("shell", [Shell.ZSH, Shell.FISH])
def test_other_shells_get_one_word_in_a_line(braid: Braid, shell: Shell) -> None:
    """For fish with what it means; they escape it themselves. Where there is nothing, nothing is printed."""
    offer = braid("completion", shell, "--", "tenants", "ad").stdout
    assert ("admit\n" if shell is Shell.ZSH else "admit\tAdmit tenants.\n") == offer
    assert "" == braid("completion", shell, "--", "submit", "").output
    assert "braid completion" in braid("completion", shell).stdout
