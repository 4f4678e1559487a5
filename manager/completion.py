"""Completion for shells: `braid completion bash|zsh|fish` prints what a shell needs, which asks `braid` at each Tab.

Words are completed from the commands themselves, and names from the service, if it answers at once. Where there is
nothing to offer, the shell offers files.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, StrEnum
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import httpx
import typer
import typer.main

from braid_client.errors import NotDone, headers, trusting
from manager.cli import Shown, ShownLine, printed
from manager.command import every_command, loaded, summary
from manager.settings import WrongSettings, read_client_settings


class Shell(StrEnum):
    """The shells that words are completed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS = {
    Shell.BASH: """\
_braid() {
    mapfile -t COMPREPLY < <(
        braid completion bash -- "${COMP_LINE:0:COMP_POINT}" "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null
    )
}
complete -o default -F _braid braid""",
    Shell.ZSH: """\
#compdef braid
_braid() {
    local -a offered
    offered=("${(@f)$(braid completion zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    if [[ -n $offered[1] ]]; then compadd -a offered; else _files; fi
}
if [[ $funcstack[1] == _braid ]]; then _braid "$@"; else compdef _braid braid; fi""",
    Shell.FISH: """\
function _braid
    set -l offered (braid completion fish -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if test (count $offered) -gt 0
        printf '%s\\n' $offered
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c braid -f -a '(_braid)'""",
}
_PATIENCE = 1.0
"""Seconds in which the service has to answer."""
_PLACES = {"dataflow": "dataflows", "source": "sources", "tenant": "tenants", "job": "jobs", "host": "hosts"}
"""Where the names are that a parameter takes, below `/v1`."""
_NAMED = frozenset({"sources", "tenants", "machines", "images", "secrets"})
"""The groups of commands whose parameter `name` takes these."""
_SPECIAL = re.compile(r"([^\w@%+=:,./\x80-\U0010ffff-])")
"""What a shell does not take as it stands."""


@printed
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.")],
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> Iterator[Shown]:
    """Print what a shell needs to complete commands, options, and names of dataflows and sources.

    bash: put `source <(braid completion bash)` in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after compinit.
    fish: braid completion fish > ~/.config/fish/completions/braid.fish
    """
    if not words:
        yield ShownLine(data={"script": _SCRIPTS[shell]}, text=_SCRIPTS[shell])
        return
    if shell is Shell.BASH:
        offers = list(_for_bash(*words))
    else:
        values = offered(words[:-1], words[-1])
        offers = [f"{value}\t{about}" if about and shell is Shell.FISH else value for value, about in values]
    if offers:
        yield ShownLine(data={"offers": offers}, text="\n".join(offers))


def _for_bash(line: str, current: str) -> Iterator[str]:
    """What replaces the current word, which for bash begins anew after a colon."""
    before, begun, quote = split(line)
    whole = begun if quote else _escaped(begun)
    for value, _ in offered(before[1:], begun):
        text = value if quote else _escaped(value)
        yield text[len(whole) - len(current) :] if not quote and len(current) < len(whole) else text


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def split(line: str) -> tuple[list[str], str, str]:
    """The words of a line, the one that is begun at its end, and the quote that it is within.

    >>> split("braid show "), split("braid show 'mean le"), split("braid send harbour:w")
    ((['braid', 'show'], '', ''), (['braid', 'show'], 'mean le', "'"), (['braid', 'send'], 'harbour:w', ''))
    """
    for quote in ("", "'", '"'):
        try:
            # What ends with a space or a backslash has one more word.
            words = shlex.split(f"{line}.{quote}")
        except ValueError:
            continue
        return words[:-1], words[-1][:-1], quote
    return [], "", ""


def offered(words: Sequence[str], begun: str) -> list[tuple[str, str]]:
    """What a word that is begun may become after others, each with what it means."""
    return [(value, about) for value, about in _values(list(words), begun) if value.startswith(begun)]


def _values(words: list[str], begun: str) -> Iterable[tuple[str, str]]:
    if not words:
        return [(command.name, summary(command.target)) for command in every_command()]
    command = next((command for command in every_command() if command.name == words[0]), None)
    if command is None:
        return []
    target = loaded(command)
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False)
        target.command()(function)
    called: Any = typer.main.get_command(target)
    group, rest = "", words[1:]
    while hasattr(called, "commands"):
        if not rest:
            return [(name, one.get_short_help_str()) for name, one in called.commands.items()]
        if rest[0] not in called.commands:
            return []
        group, called, rest = words[0], called.commands[rest[0]], rest[1:]
    return _parameters(called, group, rest, begun)


def _parameters(called: Any, group: str, words: Sequence[str], begun: str) -> Iterable[tuple[str, str]]:
    """What an option or an argument of a command may be."""
    options = {name: one for one in called.params if one.param_type_name == "option" for name in one.opts}
    arguments = [one for one in called.params if one.param_type_name == "argument" and not one.hidden]
    takes: Any = None
    place = 0
    for word in words:
        if takes is not None:
            takes = None
        elif word.startswith("-"):
            one = options.get(word)
            takes = None if one is None or one.is_flag else one
        else:
            place += 1
    if takes is None and begun.startswith("-"):
        return [(name, one.help or "") for name, one in options.items() if name.startswith("--")]
    if takes is None and arguments:
        last = arguments[-1]
        takes = arguments[place] if place < len(arguments) else last if last.nargs == -1 else None
    if takes is None:
        return []
    kind = signature(called.callback).parameters[takes.name].annotation
    return [(choice, "") for choice in _choices(kind)] or [(name, "") for name in _names(takes.name, group, words)]


def _choices(kind: Any) -> list[str]:
    """The values of a type of few, such as an optional enumeration."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [value for part in get_args(kind) for value in _choices(part)]


def _names(parameter: str, group: str, words: Sequence[str]) -> list[str]:
    """The names that the service has for a parameter; none if it does not answer at once."""
    place = group if parameter == "name" and group in _NAMED else _PLACES.get(parameter)
    if place is None:
        return []
    given = dict(pairwise(words))
    try:
        file = Path(given["--settings"]) if "--settings" in given else None
        settings = read_client_settings({"url": given.get("--url")}, file)
        if settings.key is None:
            return []
        url = f"{settings.service}/v1/{place}"
        ca, by_name = settings.trusted or (None, True)
        # A client would send it again, and wait longer than somebody who types.
        answer = httpx.get(
            url,
            params={"limit": 500},
            headers=headers(settings.key),
            timeout=_PATIENCE,
            trust_env=False,
            verify=url.startswith("https:") and trusting(ca, by_name=by_name),
        )
        items = answer.raise_for_status().json()["items"]
    except (httpx.HTTPError, NotDone, WrongSettings, ValueError, KeyError, TypeError):
        return []
    names = [str(item.get("name", item.get("job"))) for item in items]
    counts = Counter(names)
    return sorted(
        {name if counts[name] == 1 else f"{item.get('tenant')}/{name}" for name, item in zip(names, items, strict=True)}
    )
