"""Whether the command line would take a call, without doing what it asks for."""

from importlib import import_module
from typing import Any

import typer
import typer.main

from manager.command import Command, every_command

# Typer keeps click inside; every error of a call has this base.
_WRONG: Any = typer.BadParameter.__base__
_KNOWN = {command.name: command for command in every_command()}


def wrong_with(words: list[str]) -> str:
    """What is wrong with the words after `braid`; nothing if they would be taken."""
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name in {"", "--help"}:
        return "" if words else "no command"
    if name not in _KNOWN:
        return f"no command {name}"
    command, context = _loaded(_KNOWN[name]), None
    try:
        while nested := getattr(command, "commands", None):
            context = command.make_context(name, list(rest), parent=context)
            # What a group leaves for its command.
            left = [*context._protected_args, *context.args]
            if not left or left[0] not in nested:
                return f"no command {name} {' '.join(left[:1])}".rstrip()
            name, rest, command = left[0], left[1:], nested[left[0]]
        command.make_context(name, list(rest), parent=context)
    except typer.Exit:
        # As --help does.
        return ""
    except _WRONG as error:
        return str(error.format_message())
    return ""


def _loaded(command: Command) -> Any:
    module, _, name = command.target.partition(":")
    loaded = getattr(import_module(module), name)
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(function)
    return typer.main.get_command(loaded)
