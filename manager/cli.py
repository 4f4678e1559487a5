"""The frame of commands: common options, the client, what is shown, errors and exit codes.

A command that asks the service is a function from a client and its own parameters to its result. `client_command` adds
the common options, prints the result, and turns errors into a message on standard error and an exit code.
"""

import functools
import inspect
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from braid_client.client import Client
from braid_client.errors import NotDone, NotUnderstood, Refused, Unreachable
from dags.json_text import describe_error
from manager.exit_codes import ExitCode
from manager.settings import WrongSettings, read_client_settings

_WIDTH = 100
"""The width of tables that are not printed on a screen."""
_WIDE = 10_000
"""The width of tables with all columns, whose rows are one line each."""
_SMALLEST = 0.0005
_FROM_HERE_WHOLE = 999.5
WAIT_SECONDS = 120.0
"""Seconds for which a command waits for what it began."""
_LOOK_EVERY = 0.2
P = ParamSpec("P")
A = TypeVar("A")
F = TypeVar("F", bound=BaseModel)
M = TypeVar("M", bound=BaseModel)


class Notation(StrEnum):
    """How a command writes its result: as tables and sentences for people, or as a document for programs."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The result of a command, for programs and for people."""

    data: BaseModel | Sequence[BaseModel] | dict[str, Any]
    text: RenderableType

    def print(self, notation: Notation = Notation.TABLE, *, wide: bool = False) -> None:
        """Print it on standard output; a wide one has every column, and no cell is folded."""
        if notation is Notation.TABLE:
            self.print_text(wide=wide)
        else:
            sys.stdout.write(_document(_plain(self.data), notation))
            sys.stdout.flush()

    def print_text(self, *, wide: bool) -> None:
        """Print it for people."""
        width = _WIDE if wide else None if sys.stdout.isatty() else _WIDTH
        Console(highlight=False, width=width).print(self.text, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine(Shown):
    """A result whose text is for other programs, so that nothing in it is wrapped, escaped or styled."""

    text: str

    def print_text(self, *, wide: bool) -> None:  # noqa: ARG002 - a line is as wide as it is
        """Print it as it is; a half of a character, which no file can hold, is escaped."""
        sys.stdout.write(f"{self.text.encode(errors='backslashreplace').decode()}\n")
        sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class _Cells:
    """The rows of a table, some of whose columns are left out unless it is wide."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    wide: Collection[str]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        at = [at for at, name in enumerate(self.columns) if options.max_width >= _WIDE or name not in self.wide]
        shown = Table(*(self.columns[place] for place in at), box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for column in shown.columns:
            column.overflow = "fold"
        for row in self.rows:
            shown.add_row(*(Text(row[place]) for place in at))
        yield shown


def table(*columns: str, rows: Iterable[Iterable[object]], empty: str, wide: Collection[str] = ()) -> RenderableType:
    """A table; a sentence instead if there are no rows. Columns in `wide` are there only with --wide."""
    cells = [[_cell(value) for value in row] for row in rows]
    return _Cells(columns, cells, wide) if cells else Text(empty)


def listing(
    items: Iterable[M], empty: str, cells: Callable[[M], Mapping[str, object]], *, wide: Collection[str] = ()
) -> Shown:
    """A list as a table with a row for each item, whose cells are by their headings."""
    shown = tuple(items)
    rows = [cells(item) for item in shown]
    columns = rows[0] if rows else ()
    text = table(*columns, rows=(row.values() for row in rows), empty=empty, wide=wide)
    return Shown(data=shown, text=text)


def fields(item: BaseModel, *names: str) -> dict[str, object]:
    """Cells for fields of an item, whose names are their headings."""
    return {name.replace("_", " "): getattr(item, name) for name in names}


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


def waited(seen: A, look: Callable[[A], A], waits_for: Callable[[A], str | None]) -> A:
    """Look again until `waits_for` is None, for two minutes at most, and return what was seen last."""
    deadline = time.monotonic() + WAIT_SECONDS
    with progress() as say:
        while (words := waits_for(seen)) is not None and time.monotonic() < deadline:
            say(words)
            time.sleep(_LOOK_EVERY)
            seen = look(seen)
    return seen


@contextmanager
def progress(words: str = "") -> Iterator[Callable[[str], None]]:
    """A function that says what is waited for: beside a spinner on a terminal, and else in a line for each change.

    It is said on standard error, because programs read one answer on standard output. What is said at first is for
    terminals alone, since it is over soon.
    """
    if sys.stderr.isatty():
        with Console(stderr=True, highlight=False).status(Text(words)) as status:
            yield lambda text: status.update(Text(text))
        return
    said = [""]

    def say(text: str) -> None:
        if text not in {"", said[-1]}:
            complain(text)
            said.append(text)

    yield say


def complain(message: str) -> None:
    """Print an error message on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(message))


def _document(plain: Any, notation: Notation) -> str:
    """One document, in a line of JSON, or in YAML, where `---` parts those of a command that prints several."""
    text = json.dumps(plain, ensure_ascii=False)
    if notation is Notation.JSON:
        return f"{text}\n"
    import yaml  # noqa: PLC0415 - few need it

    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True, explicit_start=True)


def _plain(data: BaseModel | Sequence[BaseModel] | dict[str, Any]) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json", by_alias=True)
    return data if isinstance(data, dict) else list(map(_plain, data))


def _cell(value: object) -> str:
    match value:
        case None | datetime():
            return moment(value)
        case bool():
            return "yes" if value else "no"
        case float():
            return number(value)
        case Iterable() if not isinstance(value, str):
            return ", ".join(map(_cell, value))
        case _:
            return str(value)


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
_Output = Annotated[Notation, typer.Option("--output", "-o", help="Print a table, or one document for programs.")]
_Json = Annotated[bool, typer.Option("--json", help="As --output json.")]
_Wide = Annotated[bool, typer.Option("--wide", "-w", help="Print all columns of tables, and each row on one line.")]
SettingsFile = Annotated[
    Path | None, typer.Option(help="The settings file. Default: BRAID_SETTINGS, else braid.toml in this folder.")
]
Url = Annotated[str | None, typer.Option(help="The URL of the service. Default: BRAID_URL, else this machine.")]
Id = Annotated[str, typer.Argument(help="The id of a dataflow, or its name; operators may write TENANT/NAME.")]
File = Annotated[Path, typer.Argument(help="A JSON file; - is standard input.")]
Tenant = Annotated[str | None, typer.Option(help="The tenant to act for; for operators.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids alone.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]

_REFUSALS = {
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    429: ExitCode.LATER,
    503: ExitCode.LATER,
}
_SERVER = 500


_PRINTING: Mapping[str, tuple[Any, Any]] = {
    "output": (_Output, Notation.TABLE),
    "as_json": (_Json, False),
    "wide": (_Wide, False),
}
CLIENT_OPTIONS: Mapping[str, tuple[Any, Any]] = {"url": (Url, None), "settings": (SettingsFile, None), **_PRINTING}
"""The options of every command that asks the service."""


class WrongUsage(Exception):
    """An argument or a file is wrong; the message has a line for each problem."""


class MissingKey(Exception):
    """There is no API key to ask the service with."""


_FAILURES: Mapping[type[Exception], tuple[str, ExitCode]] = {
    Unreachable: ("unreachable", ExitCode.UNREACHABLE),
    NotUnderstood: ("not-understood", ExitCode.FAILED),
    MissingKey: ("no-key", ExitCode.NOT_ALLOWED),
    WrongSettings: ("wrong-settings", ExitCode.PROBLEMS),
    WrongUsage: ("no-use", ExitCode.PROBLEMS),
}
"""The code that programs get for each error, and the exit code; a refusal has a code and a status of its own."""


def printed(command: Callable[P, Shown | Iterator[Shown]]) -> Callable[..., None]:
    """Make a command of a function that returns what is shown."""

    @functools.wraps(command)
    def run(*args: Any, output: Notation, as_json: bool, wide: bool, **options: Any) -> None:
        notation = Notation.JSON if as_json else output
        with exit_on_error(notation):
            result = command(*args, **options)
            for shown in (result,) if isinstance(result, Shown) else result:
                shown.print(notation, wide=wide)

    return with_options(run, _PRINTING)


def client_command(command: Callable[Concatenate[Client, P], Shown | Iterator[Shown]]) -> Callable[..., None]:
    """Make a command of a function that takes a client."""

    @functools.wraps(command)
    def run(*args: Any, url: str | None, settings: Path | None, **options: Any) -> Iterator[Shown]:
        with service(url, settings) as client:
            result = command(client, *args, **options)
            yield from (result,) if isinstance(result, Shown) else result

    return with_options(printed(run), CLIENT_OPTIONS, instead_of=list(inspect.signature(command).parameters)[:1])


def with_options(
    run: Callable[..., Any], options: Mapping[str, tuple[Any, Any]], *, instead_of: Collection[str] = ()
) -> Callable[..., Any]:
    """Give a command options of these types and defaults, instead of parameters that it gets in another way."""
    signature = inspect.signature(run)
    own = [
        parameter
        for name, parameter in signature.parameters.items()
        if name not in instead_of and name not in options and parameter.kind is not parameter.VAR_KEYWORD
    ]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    described = signature.replace(parameters=[*own, *added], return_annotation=None)
    setattr(run, "__signature__", described)  # noqa: B010 - functions have it, and their type does not
    return run


def group(*, help: str) -> typer.Typer:  # noqa: A002 - `summary` reads it, as an argument of typer
    """A group of commands."""
    return typer.Typer(no_args_is_help=True, add_completion=False, help=help)


@contextmanager
def exit_on_error(notation: Notation = Notation.TABLE) -> Iterator[None]:
    """Report an error inside, and end the command with its exit code."""
    try:
        yield
    except (NotDone, MissingKey, WrongSettings, WrongUsage) as error:
        if isinstance(error, Refused) and error.errors:
            for problem in error.errors:
                complain(f"{_place(problem.pointer)}: {problem.message}; {problem.remedy}")
        else:
            complain(str(error))
        if notation is not Notation.TABLE:
            Shown(data={"problem": _problem(error)}, text="").print(notation)
        raise typer.Exit(_exit_code(error)) from None


def _place(pointer: str) -> str:
    """Where a problem is, in the words of the command line: an option, an argument, or a place in a document.

    >>> [_place(pointer) for pointer in ("/query/tenant", "/header/if-match", "/path/id", "/tasks/0/type", "")]
    ['--tenant', '--if-match', 'ID', '/tasks/0/type', '(document)']
    """
    _, _, rest = pointer.partition("/")
    part, _, name = rest.partition("/")
    if part == "path" and name:
        return name.upper()
    return f"--{name.replace('_', '-')}" if part in {"query", "header"} and name else pointer or "(document)"


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


def read_json(path: Path, what: str) -> Any:
    """Read what a file holds in JSON; `what` is what it should hold."""
    try:
        return json.loads(read_file(path))
    except ValueError as error:
        raise WrongUsage(f"{path}: it is not JSON: {error}; name a file {what}") from None


def _exit_code(error: Exception) -> ExitCode:
    if not isinstance(error, Refused):
        return _FAILURES[type(error)][1]
    return _REFUSALS.get(error.status, ExitCode.PROBLEMS if error.status < _SERVER else ExitCode.FAILED)


def _problem(error: Exception) -> dict[str, Any]:
    """An error for programs."""
    if not isinstance(error, Refused):
        return {"code": _FAILURES[type(error)][0], "detail": str(error)}
    errors = [wrong.model_dump(mode="json") for wrong in error.errors]
    return {"code": error.code, "detail": str(error), "status": error.status, "title": error.title, "errors": errors}


def _wrong(form: type[BaseModel], error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        _, message, remedy = describe_error(detail, tuple(form.model_fields))
        yield f"{'/'.join(map(str, detail['loc']))}: {message}; {remedy}"


def service(url: str | None, file: Path | None) -> Client:
    """A client of the service that the settings name."""
    settings = read_client_settings({"url": url}, file)
    if settings.key is None:
        raise MissingKey(
            f"no API key for {settings.service}: set BRAID_KEY, or key in braid.toml; without either, the key file in "
            f"{settings.root} is used, which exists where the service runs on this machine"
        )
    ca, by_name = settings.trusted or (None, True)
    return Client(settings.service, settings.key, ca=ca, by_name=by_name)
