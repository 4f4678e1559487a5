"""The command line, `braid`. Other packages add commands through the entry point group `braid.commands`.

A command is imported when it is called, so that `braid --help` and small commands start fast. The help shows the first
paragraph of its docstring, which is read without importing the module.
"""

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
import typer.main

from manager.exit_codes import ExitCode

_ENTRY_POINT_GROUP = "braid.commands"
"""Each entry point names a function that becomes a command."""

PASS_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
"""The settings that pass all words after a command's name to the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, or a group of commands, that is not imported yet."""

    name: str
    target: str
    """`module:function`, or `module:app` for a group of commands."""
    panel: str
    """The heading above it in the help."""


def _command(panel: str, name: str, target: str) -> Command:
    return Command(name=name, target=target, panel=panel)


COMMANDS = (
    _command("Dataflows", "submit", "manager.dataflows.commands:submit"),
    _command("Dataflows", "replace", "manager.dataflows.commands:replace"),
    _command("Dataflows", "remove", "manager.dataflows.commands:remove"),
    _command("Dataflows", "reconfigure", "manager.reconfigurations.commands:reconfigure"),
    _command("Dataflows", "replan", "manager.pipelines.commands:replan"),
    _command("Dataflows", "adapt", "manager.adaptation.commands:app"),
    _command("Dataflows", "list", "manager.dataflows.commands:list_dataflows"),
    _command("Dataflows", "show", "manager.dataflows.commands:show"),
    _command("Dataflows", "explain", "manager.dataflows.commands:explain"),
    _command("Dataflows", "send", "manager.outputs.commands:send"),
    _command("Dataflows", "tail", "manager.outputs.commands:tail"),
    _command("Dataflows", "dead-letters", "manager.outputs.commands:app"),
    _command("Dataflows", "sources", "manager.sources.commands:app"),
    _command("Dataflows", "modules", "manager.pipelines.commands:app"),
    _command("Dataflows", "secrets", "manager.tenants.commands:secrets_app"),
    _command("Jobs and reports", "watch", "manager.jobs.commands:watch"),
    _command("Jobs and reports", "jobs", "manager.jobs.commands:jobs"),
    _command("Jobs and reports", "hosts", "manager.jobs.commands:hosts"),
    _command("Jobs and reports", "machines", "manager.machines.commands:machines_app"),
    _command("Jobs and reports", "images", "manager.machines.commands:images_app"),
    _command("Jobs and reports", "placement", "manager.jobs.commands:app"),
    _command("Jobs and reports", "operations", "manager.jobs.commands:operations"),
    _command("Jobs and reports", "defragment", "manager.moves.commands:defragment"),
    _command("Jobs and reports", "savings", "manager.savings.commands:savings"),
    _command("Jobs and reports", "bill", "manager.savings.commands:bill"),
    _command("Administration", "tenants", "manager.tenants.commands:tenants_app"),
    _command("Administration", "keys", "manager.tenants.commands:keys_app"),
    _command("On this machine", "serve", "manager.process.commands:serve"),
    _command("On this machine", "entrance", "manager.process.commands:entrance"),
    _command("On this machine", "backup", "manager.process.commands:backup"),
    _command("On this machine", "restore", "manager.process.commands:restore"),
    _command("On this machine", "doctor", "manager.process.commands:doctor"),
    _command("On this machine", "check", "manager.documents.commands:check"),
    _command("On this machine", "schema", "manager.documents.commands:schema"),
    _command("On this machine", "version", "manager.documents.commands:show_version"),
)


def _installed() -> tuple[Command, ...]:
    """The commands that installed packages add, including Braid's own package."""
    found = sorted(entry_points(group=_ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return tuple(_command("On this machine", entry.name, entry.value) for entry in found)


def summary(target: str) -> str:
    """What a target says of itself, read from its source: a function's first paragraph, or the help of a group."""
    module, _, name = target.partition(":")
    try:
        source = find_spec(module)
        tree = ast.parse(Path(source.origin).read_bytes()) if source is not None and source.origin else None
    except (ImportError, OSError, SyntaxError):
        # Calling the command reports what is wrong with it.
        tree = None
    if tree is None:
        return ""
    for node in tree.body:
        match node:
            case ast.FunctionDef() if node.name == name:
                return (ast.get_docstring(node) or "").partition("\n\n")[0]
            case ast.Assign(targets=[ast.Name(id=known)], value=ast.Call(keywords=options)) if known == name:
                texts = [option.value for option in options if option.arg == "help"]
                if texts and isinstance(texts[0], ast.Constant):
                    return str(texts[0].value)
    return (ast.get_docstring(tree) or "").partition("\n\n")[0]


def _epilog() -> str:
    codes = "\n\n".join(f"{code.value}: {code.meaning}" for code in ExitCode)
    return f"Exit codes\n\n{codes}"


def loaded(command: Command) -> Any:
    """The function of a command, or the group that it is; imports its module."""
    module, _, name = command.target.partition(":")
    return getattr(import_module(module), name)


def lazy(command: Command) -> Callable[[typer.Context], None]:
    """A function that imports a command and calls it with the same arguments."""

    def run(context: typer.Context) -> None:
        try:
            group = loaded(command)
        except (ImportError, AttributeError) as error:
            sys.stderr.write(
                f"braid {command.name} cannot be loaded: {error}; reinstall the package that provides it\n"
            )
            raise typer.Exit(ExitCode.FAILED) from None
        if not isinstance(group, typer.Typer):
            function, group = group, typer.Typer(add_completion=False)
            group.command()(function)
        code = typer.main.get_command(group).main(
            args=context.args, prog_name=context.command_path, standalone_mode=False
        )
        raise typer.Exit(code or ExitCode.WELL)

    return run


app = typer.Typer(
    help="Run the streaming dataflows of many tenants as few jobs.",
    epilog=_epilog(),
    no_args_is_help=True,
    add_completion=False,
    # Local variables in a traceback could show secrets.
    pretty_exceptions_show_locals=False,
)
for _each in (*COMMANDS, *_installed()):
    app.command(
        _each.name,
        help=summary(_each.target),
        rich_help_panel=_each.panel,
        # The command has its own options, including --help.
        add_help_option=False,
        context_settings=PASS_ARGUMENTS,
    )(lazy(_each))
