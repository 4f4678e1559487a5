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

import typer
import typer.main

from manager.commands.exit_codes import ExitCode

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
    _command("Dataflows", "submit", "manager.commands.dataflows:submit"),
    _command("Dataflows", "replace", "manager.commands.dataflows:replace"),
    _command("Dataflows", "remove", "manager.commands.dataflows:remove"),
    _command("Dataflows", "reconfigure", "manager.commands.reconfigurations:reconfigure"),
    _command("Dataflows", "replan", "manager.commands.pipelines:replan"),
    _command("Dataflows", "adapt", "manager.commands.adaptations:app"),
    _command("Dataflows", "list", "manager.commands.dataflows:list_dataflows"),
    _command("Dataflows", "show", "manager.commands.dataflows:show"),
    _command("Dataflows", "explain", "manager.commands.dataflows:explain"),
    _command("Dataflows", "send", "manager.commands.event_flow:send"),
    _command("Dataflows", "tail", "manager.commands.event_flow:tail"),
    _command("Dataflows", "dead-letters", "manager.commands.dead_letters:app"),
    _command("Dataflows", "sources", "manager.commands.sources:app"),
    _command("Dataflows", "modules", "manager.commands.modules:app"),
    _command("Dataflows", "secrets", "manager.commands.tenant_secrets:app"),
    _command("Jobs and reports", "watch", "manager.commands.jobs:watch"),
    _command("Jobs and reports", "jobs", "manager.commands.jobs:jobs"),
    _command("Jobs and reports", "hosts", "manager.commands.jobs:hosts"),
    _command("Jobs and reports", "machines", "manager.commands.placed.machines:app"),
    _command("Jobs and reports", "images", "manager.commands.placed.images:app"),
    _command("Jobs and reports", "placement", "manager.commands.placed.placement:app"),
    _command("Jobs and reports", "operations", "manager.commands.jobs:operations"),
    _command("Jobs and reports", "defragment", "manager.commands.defragmentation:defragment"),
    _command("Jobs and reports", "savings", "manager.commands.savings:savings"),
    _command("Jobs and reports", "bill", "manager.commands.bills:bill"),
    _command("Administration", "tenants", "manager.commands.tenants:app"),
    _command("Administration", "keys", "manager.commands.keys:app"),
    _command("On this machine", "serve", "manager.commands.local.serve:serve"),
    _command("On this machine", "entrance", "manager.commands.local.entrance:entrance"),
    _command("On this machine", "backup", "manager.commands.local.backup:backup"),
    _command("On this machine", "restore", "manager.commands.local.backup:restore"),
    _command("On this machine", "doctor", "manager.commands.local.doctor:doctor"),
    _command("On this machine", "check", "manager.commands.local.check:check"),
    _command("On this machine", "schema", "manager.commands.local.check:schema"),
    _command("On this machine", "version", "manager.commands.local.check:show_version"),
)


def _installed() -> tuple[Command, ...]:
    """The commands that installed packages add, including Braid's own package."""
    found = sorted(entry_points(group=_ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return tuple(_command("On this machine", entry.name, entry.value) for entry in found)


def summary(target: str) -> str:
    """The first paragraph of a target's docstring, read from its source; for a group, of its module's docstring."""
    module, _, name = target.partition(":")
    try:
        found = find_spec(module)
        tree = ast.parse(Path(found.origin).read_bytes()) if found is not None and found.origin else None
    except (ImportError, OSError, SyntaxError):
        # Calling the command reports what is wrong with it.
        tree = None
    if tree is None:
        return ""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    documented: ast.FunctionDef | ast.Module = functions[0] if functions else tree
    return (ast.get_docstring(documented) or "").partition("\n\n")[0]


def _epilog() -> str:
    codes = "\n\n".join(f"{code.value}: {code.meaning}" for code in ExitCode)
    return f"Exit codes\n\n{codes}"


def lazy(command: Command) -> Callable[[typer.Context], None]:
    """A function that imports a command and calls it with the same arguments."""

    def run(context: typer.Context) -> None:
        module, _, name = command.target.partition(":")
        try:
            loaded = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            sys.stderr.write(
                f"braid {command.name} cannot be loaded: {error}; reinstall the package that provides it\n"
            )
            raise typer.Exit(ExitCode.FAILED) from None
        if not isinstance(loaded, typer.Typer):
            function, loaded = loaded, typer.Typer(add_completion=False)
            loaded.command()(function)
        code = typer.main.get_command(loaded).main(
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
