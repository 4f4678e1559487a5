"""The command line, `braid`. Other packages add commands through the entry point group `braid.commands`.

A command is imported when it is called, and one of Braid's own is all that is, so that it answers soon: `app`, with all
of them, is made only where it is asked for. Its help shows the first paragraph of each docstring, which is read without
importing the module.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from manager.exit_codes import ExitCode

if TYPE_CHECKING:
    import typer

_ENTRY_POINT_GROUP = "braid.commands"
"""Each entry point names a function that becomes a command."""

PASS_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
"""The settings that pass all words after a command's name to the command."""


class Command(NamedTuple):
    """A command, or a group of commands, that is not imported yet."""

    name: str
    target: str
    """`module:function`, or `module:app` for a group of commands."""
    panel: str
    """The heading above it in the help."""


_HERE = "On this machine"
_PANELS = {
    "Dataflows": {
        "status": "manager.overview.commands:status",
        "submit": "manager.dataflows.commands:submit",
        "replace": "manager.dataflows.commands:replace",
        "remove": "manager.dataflows.commands:remove",
        "reconfigure": "manager.reconfigurations.commands:reconfigure",
        "replan": "manager.pipelines.commands:replan",
        "adapt": "manager.adaptation.commands:app",
        "list": "manager.dataflows.commands:list_dataflows",
        "show": "manager.dataflows.commands:show",
        "history": "manager.series.commands:history",
        "explain": "manager.dataflows.commands:explain",
        "diff": "manager.documents.diff:diff",
        "try": "manager.trials.commands:try_document",
        "send": "manager.sources.file_sender:send",
        "tail": "manager.outputs.commands:tail",
        "events": "manager.outputs.commands:events",
        "dead-letters": "manager.outputs.commands:app",
        "sources": "manager.sources.commands:app",
        "modules": "manager.pipelines.commands:app",
        "secrets": "manager.tenants.commands:secrets_app",
    },
    "Jobs and reports": {
        "watch": "manager.jobs.commands:watch",
        "jobs": "manager.jobs.commands:jobs",
        "hosts": "manager.jobs.commands:hosts",
        "machines": "manager.machines.commands:machines_app",
        "images": "manager.machines.commands:images_app",
        "placement": "manager.jobs.commands:app",
        "operations": "manager.jobs.commands:operations",
        "logs": "manager.process.logs:logs",
        "defragment": "manager.moves.commands:defragment",
        "savings": "manager.savings.commands:savings",
        "bill": "manager.savings.commands:bill",
    },
    "Administration": {
        "open": "manager.tenants.commands:open_console",
        "tenants": "manager.tenants.commands:tenants_app",
        "keys": "manager.tenants.commands:keys_app",
        "audit": "manager.overview.commands:audit",
    },
    _HERE: {
        "serve": "manager.process.commands:serve",
        "entrance": "manager.process.commands:entrance",
        "backup": "manager.process.commands:backup",
        "restore": "manager.process.commands:restore",
        "downgrade": "manager.process.commands:downgrade",
        "doctor": "manager.process.commands:doctor",
        "init": "manager.process.first_folder:init",
        "check": "manager.documents.commands:check",
        "schema": "manager.documents.commands:schema",
        "version": "manager.documents.commands:show_version",
        "completion": "manager.completion:completion",
    },
}
COMMANDS = tuple(
    Command(name=name, target=target, panel=panel)
    for panel, targets in _PANELS.items()
    for name, target in targets.items()
)


def summary(target: str) -> str:
    """Read what a target says of itself in its source: a function's first paragraph, or the help of a group."""
    import ast
    from importlib.util import find_spec
    from pathlib import Path

    module, _, name = target.partition(":")
    try:
        source = find_spec(module)
        if source is None or not source.origin:
            return ""
        tree = ast.parse(Path(source.origin).read_bytes())
    except (ImportError, OSError, SyntaxError):
        # Calling the command reports what is wrong with it.
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


def loaded(command: Command) -> Any:
    """The function of a command, or the group that it is; imports its module."""
    module, _, name = command.target.partition(":")
    return getattr(import_module(module), name)


def lazy(command: Command) -> "Callable[[typer.Context], None]":
    """A function that imports a command and calls it with the same arguments."""
    import typer

    def run(context: typer.Context) -> None:
        code = called(command, context.args, context.command_path, standalone=False)
        raise typer.Exit(code or ExitCode.WELL)

    return run


def called(command: Command, words: list[str], path: str, *, standalone: bool) -> Any:
    """Import a command, and call it with words; `path` is what was typed before them."""
    import typer
    import typer.main

    try:
        group = loaded(command)
    except (ImportError, AttributeError) as error:
        sys.stderr.write(f"braid {command.name} cannot be loaded: {error}; reinstall the package that provides it\n")
        if standalone:
            sys.exit(ExitCode.FAILED)
        raise typer.Exit(ExitCode.FAILED) from None
    if not isinstance(group, typer.Typer):
        function, group = group, typer.Typer(add_completion=False)
        group.command()(function)
    return typer.main.get_command(group).main(args=words, prog_name=path, standalone_mode=standalone)


@cache
def every_command() -> tuple[Command, ...]:
    """All commands, in the order of the help."""
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group=_ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return (*COMMANDS, *(Command(name=entry.name, target=entry.value, panel=_HERE) for entry in entries))


@cache
def _application() -> "typer.Typer":
    """The application with all commands."""
    import typer

    made = typer.Typer(
        help="Run the streaming dataflows of many tenants as few jobs.",
        epilog="\n\n".join(["Exit codes", *(f"{code.value}: {code.meaning}" for code in ExitCode)]),
        no_args_is_help=True,
        add_completion=False,
        # Local variables in a traceback could show secrets.
        pretty_exceptions_show_locals=False,
    )

    @made.callback(invoke_without_command=True)
    def _braid(
        *,
        version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version of Braid.")] = False,
    ) -> None:
        if version:
            from importlib.metadata import version as installed_version

            sys.stdout.write(f"{installed_version('braid')}\n")
            raise typer.Exit

    for command in every_command():
        made.command(
            command.name,
            help=summary(command.target),
            rich_help_panel=command.panel,
            # The command has its own options, including --help.
            add_help_option=False,
            context_settings=PASS_ARGUMENTS,
        )(lazy(command))
    return made


def __getattr__(name: str) -> Any:
    if name == "app":
        return _application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Do what was typed."""
    words = sys.argv[1:]
    known = next((command for command in COMMANDS if words and command.name == words[0]), None)
    if known is None:
        _application()(prog_name="braid")
    else:
        if known.panel != _HERE:
            # Its command line, which nobody asked for, loads rich and more.
            sys.modules["httpx._main"] = None  # type: ignore[assignment]
            # Looking for plugins reads the metadata of all packages.
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        called(known, words[1:], f"braid {known.name}", standalone=True)
