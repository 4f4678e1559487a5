"""The frame of commands: common options, the client, what is shown, errors and exit codes.

The frame of a command that asks the service: common options, the client, errors and exit codes. A command is a
function from a client and its own parameters to its result. `client_command` adds the common options, prints the
result, and turns errors into a message on standard error and an exit code.
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dags.json_text import describe_error
from manager.client.client import Client
from manager.client.errors import NotDone, Refused, Unreachable
from manager.exit_codes import ExitCode
from manager.settings import ClientSettings, WrongSettings, read_client_settings

_WIDE = 10_000
"""The width of tables that are not printed on a screen, so that no cell is cut."""
_SMALLEST = 0.0005
_FROM_HERE_WHOLE = 999.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The result of a command, for programs and for people."""

    data: BaseModel | Sequence[BaseModel] | dict[str, Any]
    text: RenderableType

    def print(self, *, as_json: bool) -> None:
        """Print it on standard output."""
        if as_json:
            sys.stdout.write(f"{json.dumps(_plain(self.data), ensure_ascii=False)}\n")
            sys.stdout.flush()
        else:
            _console().print(self.text, soft_wrap=isinstance(self.text, str | Text))


def table(*columns: str, rows: Iterable[Sequence[object]], empty: str) -> RenderableType:
    """A table; a sentence instead if there are no rows."""
    shown = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns:
        column.overflow = "fold"
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    return shown if shown.row_count else Text(empty)


def lines(*parts: RenderableType | None) -> RenderableType:
    """Parts below each other, without the empty ones."""
    return Group(*(Text(part) if isinstance(part, str) else part for part in parts if part))


def moment(at: datetime | None) -> str:
    """A time in the reader's time zone."""
    return "" if at is None else f"{(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone():%Y-%m-%d %H:%M:%S}"


def number(value: float) -> str:
    """A number to three digits; 0 if it is too small to matter.

    >>> number(0.12345), number(1234567.0), number(-0.00001)
    ('0.123', '1,234,567', '0')
    """
    if abs(value) < _SMALLEST:
        return "0"
    return f"{value:,.0f}" if abs(value) >= _FROM_HERE_WHOLE else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is one.

    >>> counted(1, "task"), counted(2, "task")
    ('1 task', '2 tasks')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def slashed(*values: float | None) -> str:
    """Values of one kind, without the unknown ones."""
    return "/".join(str(round(value, 3)) for value in values if value is not None)


def complain(message: str) -> None:
    """Print an error message on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(message))


def _console() -> Console:
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDE)


def _plain(data: BaseModel | Sequence[BaseModel] | dict[str, Any]) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json", by_alias=True)
    return data if isinstance(data, dict) else [_plain(each) for each in data]


def _cell(value: object) -> str:
    match value:
        case None:
            shown = ""
        case datetime():
            shown = moment(value)
        case bool():
            shown = "yes" if value else "no"
        case float():
            shown = number(value)
        case str():
            shown = value
        case Iterable():
            shown = ", ".join(_cell(each) for each in value)
        case _:
            shown = str(value)
    return shown


P = ParamSpec("P")
F = TypeVar("F", bound=BaseModel)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
SettingsFile = Annotated[
    Path | None, typer.Option(help="The settings file. Default: BRAID_SETTINGS, else braid.toml in this folder.")
]
Url = Annotated[str | None, typer.Option(help="The URL of the service. Default: BRAID_URL, else this machine.")]
Id = Annotated[str, typer.Argument(help="The id of a dataflow.")]
File = Annotated[Path, typer.Argument(help="A JSON file; - is standard input.")]
Tenant = Annotated[str | None, typer.Option(help="The tenant to act for; for operators.")]
_OPTIONS = {"url": (Url, None), "settings": (SettingsFile, None), "as_json": (AsJson, False)}

_REFUSALS = {
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    429: ExitCode.LATER,
    503: ExitCode.LATER,
}
_SERVER = 500


class WrongUsage(Exception):
    """An argument or a file is wrong; the message has a line for each problem."""


class MissingKey(Exception):
    """There is no API key to ask the service with."""


def client_command(command: Callable[Concatenate[Client, P], Shown | Iterator[Shown]]) -> Callable[..., None]:
    """Make a command of a function that takes a client."""

    @functools.wraps(command)
    def run(*args: Any, url: str | None, settings: Path | None, as_json: bool, **options: Any) -> None:
        with exit_on_error(as_json=as_json), _client(read_client_settings({"url": url}, settings)) as client:
            found = command(client, *args, **options)
            for shown in (found,) if isinstance(found, Shown) else found:
                shown.print(as_json=as_json)

    signature = inspect.signature(command)
    own = list(signature.parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]
    described = signature.replace(parameters=[*own, *added], return_annotation=None)
    setattr(run, "__signature__", described)  # noqa: B010 - functions have it, and their type does not
    return run


@contextmanager
def exit_on_error(*, as_json: bool) -> Iterator[None]:
    """Report an error inside, and end the command with its exit code."""
    try:
        yield
    except NotDone as error:
        _report(error)
        name = "unreachable" if isinstance(error, Unreachable) else "not-understood"
        code, problem = exit_code(error), _problem(name, error)
    except MissingKey as error:
        complain(str(error))
        code, problem = ExitCode.NOT_ALLOWED, _problem("no-key", error)
    except WrongSettings as error:
        complain(str(error))
        code, problem = ExitCode.PROBLEMS, _problem("wrong-settings", error)
    except WrongUsage as error:
        complain(str(error))
        code, problem = ExitCode.PROBLEMS, _problem("no-use", error)
    else:
        return
    if as_json:
        problem.print(as_json=True)
    raise typer.Exit(code)


def read_file(path: Path) -> bytes:
    """The bytes of a file; `-` is standard input."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}; name a readable file") from None


def fill_form(form: type[F], **given: Any) -> F:
    """Make a form from options; None is an option that was not given."""
    try:
        return form.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise WrongUsage("\n".join(_wrong(form, error))) from None


def exit_code(error: NotDone) -> ExitCode:
    """The exit code for an error of the client."""
    match error:
        case Refused(status=status) if status in _REFUSALS:
            return _REFUSALS[status]
        case Refused(status=status) if status < _SERVER:
            return ExitCode.PROBLEMS
        case Unreachable():
            return ExitCode.UNREACHABLE
        case _:
            return ExitCode.FAILED


def _report(error: NotDone) -> None:
    """Print an error of the client on standard error."""
    if isinstance(error, Refused) and error.errors:
        for problem in error.errors:
            complain(f"{problem.pointer or '(document)'}: {problem.message}; {problem.remedy}")
    else:
        complain(str(error))


def _problem(code: str, error: Exception) -> Shown:
    """The JSON document of an error."""
    problem: dict[str, Any] = {"code": code, "detail": str(error)}
    if isinstance(error, Refused):
        problem |= {
            "code": error.code,
            "status": error.status,
            "title": error.title,
            "errors": [each.model_dump(mode="json") for each in error.errors],
        }
    return Shown(data={"problem": problem}, text="")


def _wrong(form: type[BaseModel], error: ValidationError) -> Iterator[str]:
    for each in error.errors(include_url=False, include_input=False):
        _, message, remedy = describe_error(each, tuple(form.model_fields))
        yield f"{'/'.join(map(str, each['loc']))}: {message}; {remedy}"


def _client(settings: ClientSettings) -> Client:
    if settings.key is None:
        raise MissingKey(
            f"no API key for {settings.service}: set BRAID_KEY, or key in braid.toml; without either, the key file in "
            f"{settings.root} is used, which exists where the service runs on this machine"
        )
    return Client(settings.service, settings.key)
