"""The command `braid send`: sends the events of a file, each exactly once, and continues after an interruption.

A caller numbers its events under a producer's name, and the receiver takes each number once. So a file can be sent
again from any place, as long as the name is known. While a file is being sent, a note beside it holds that name, how
many events were acknowledged, and which file it was. It is written before anything is sent, and removed at the end.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, Self, TextIO, cast

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from braid_client.answers.base import FieldProblem
from braid_client.client import Client
from braid_client.errors import NotDone, Refused
from braid_client.sources import one_time_producer
from manager.cli import Shown, WrongUsage, client_command, complain
from manager.sources.event_files import (
    TYPED,
    EventChunk,
    FileFormat,
    OpenedFile,
    UnfitFile,
    chunks,
    format_of,
    read_events,
)

NOTE_ENDING = ".sending"
"""What the name of a note adds to that of its file."""
_SERVER = 500


class SendingNote(BaseModel):
    """How much of a file was sent to where, for `--resume`."""

    model_config = ConfigDict(frozen=True)

    service: str
    source: str
    producer: str
    acknowledged: int
    """The events that the source surely has."""
    size: int
    """The bytes of the file."""
    modified: int
    """When the file was changed last, in nanoseconds since 1970."""

    @classmethod
    def begun(cls, client: Client, source: str, file: Path, producer: str) -> Self:
        """Make the note of a file of which nothing was sent."""
        there = file.stat()
        return cls(
            service=client.url,
            source=source,
            producer=producer,
            acknowledged=0,
            size=there.st_size,
            modified=there.st_mtime_ns,
        )

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read the note of a file; None if it has none."""
        path = note_of(file)
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            raise WrongUsage(
                f"{path}: it cannot be read as the note of a file that is being sent; remove it to send all of {file}"
            ) from None

    def write(self, file: Path) -> None:
        """Write the note beside its file, whole or not at all."""
        path = note_of(file)
        written = path.with_name(f"{path.name}.new")
        with written.open("w", encoding="utf-8") as stream:
            stream.write(f"{self.model_dump_json()}\n")
            stream.flush()
            os.fsync(stream.fileno())
        written.replace(path)


def note_of(file: Path) -> Path:
    """Return the path of a file's note.

    >>> note_of(Path("data/street.csv")).as_posix()
    'data/street.csv.sending'
    """
    return file.with_name(f"{file.name}{NOTE_ENDING}")


@client_command
def send(  # noqa: PLR0913 - each is an argument or option of the command
    client: Client,
    source: Annotated[str, typer.Argument(help="The name of a source.")],
    file: Annotated[
        Path, typer.Argument(help="Its events: .jsonl, .json, .csv or .parquet; - is standard input.")
    ] = Path("-"),
    *,
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="The format. Default: by the file's ending, else jsonl.")
    ] = None,
    separator: Annotated[str, typer.Option(help="What stands between the cells of a CSV file.")] = ",",
    resume: Annotated[bool, typer.Option("--resume", help="Continue with a file that was interrupted.")] = False,
    producer: Annotated[
        str | None,
        typer.Option(help="A name under which events are numbered; with it, an interrupted file can be sent again."),
    ] = None,
) -> Shown:
    """Send events to a source, each exactly once; when the command ends, they are in its spool."""
    if len(separator) != 1:
        raise WrongUsage(f"--separator: {separator!r} is not one character; choose one, such as ';'")
    read_as = file_format or format_of(file)
    with _opened(file) as opened:
        note = _note(client, source, file, producer, resume=resume)
        name = producer or (note.producer if note else one_time_producer())
        there = client.producer(source, name).next if producer or resume else 0
        if note is not None and there < note.acknowledged:
            raise WrongUsage(
                f"{source} took {note.acknowledged:,} events of {file} or some more, and has forgotten how many, as "
                f"many other files were sent meanwhile; send the rest as a file of its own, and remove {note_of(file)}"
            )
        kinds = client.source(source).fields if read_as in TYPED else {}
        sender = _Sender(client, source, file, name, there, note)
        with sender.explaining(), _progress(source, opened) as show:
            for chunk in chunks(read_events(opened, read_as, kinds, separator=separator), skipped=there):
                sender.send(chunk)
                show(chunk.done, sender.sent)
    _remove_note(file, name)
    skipped = f"; the first {there:,} were there already" if there else ""
    data = {"source": source, "producer": name, "sent": sender.sent, "there": there, "next": sender.next}
    return Shown(data=data, text=Text(f"sent {sender.sent:,} events to {source}{skipped}"))


@contextmanager
def _opened(path: Path) -> Iterator[OpenedFile]:
    if str(path) == "-":
        # A stream of bytes with a buffer, which its type does not say.
        yield OpenedFile(stream=cast("BufferedIOBase", sys.stdin.buffer), size=None)
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}; name a readable file") from None
    with stream:
        yield OpenedFile(stream=stream, size=path.stat().st_size)


def _note(client: Client, source: str, file: Path, producer: str | None, *, resume: bool) -> SendingNote | None:
    """Return the note to keep of a file: the one that there is, to continue, or a new one; None if it needs none."""
    if resume:
        if producer is not None:
            raise WrongUsage("--resume goes on under the producer of before; leave --producer out")
        return _continued(client, source, file)
    if producer is not None or not file.is_file():
        return None
    if (before := SendingNote.read(file)) is not None:
        raise WrongUsage(
            f"sending {file} to {before.source} was interrupted after {before.acknowledged:,} events; continue with "
            f"--resume, or remove {note_of(file)} to send all of it again"
        )
    return SendingNote.begun(client, source, file, one_time_producer())


def _continued(client: Client, source: str, file: Path) -> SendingNote:
    before = SendingNote.read(file) if file.is_file() else None
    if before is None:
        raise WrongUsage(f"{file}: there is nothing to resume, as {note_of(file)} is missing; leave --resume out")
    now = SendingNote.begun(client, source, file, before.producer)
    if (now.service, now.source) != (before.service, before.source):
        raise WrongUsage(
            f"{file} was being sent to {before.source} at {before.service}; resume with these, or remove "
            f"{note_of(file)} to send all of it again"
        )
    if (now.size, now.modified) != (before.size, before.modified):
        raise WrongUsage(
            f"{file} has changed since it was interrupted; if its first {before.acknowledged:,} events are still the "
            f"same, continue with --producer '{before.producer}'"
        )
    return before


def _remove_note(file: Path, producer: str) -> None:
    """Remove the note of a file that was sent whole under a producer's name."""
    with suppress(WrongUsage):
        if (note := SendingNote.read(file)) is not None and note.producer == producer:
            note_of(file).unlink(missing_ok=True)


class _Sender:
    """Sends the chunks of a file in order."""

    def __init__(  # noqa: PLR0913, PLR0917 - each says what is sent, and to where
        self, client: Client, source: str, file: Path, producer: str, there: int, note: SendingNote | None
    ) -> None:
        self.next = there
        """The number of the next event."""
        self._client = client
        self._source = source
        self._file = file
        self._producer = producer
        self._there = there
        self._note = note
        self._chunk = EventChunk([])

    @property
    def sent(self) -> int:
        """The events that were sent by now."""
        return self.next - self._there

    def send(self, chunk: EventChunk) -> None:
        """Send a chunk, and note that it was acknowledged."""
        self._chunk = chunk
        if not self.sent:
            self._keep_note()
        answer = self._client.send_events(self._source, chunk.body, producer=self._producer, first=self.next)
        self.next = answer.next
        self._keep_note()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say how to continue if sending ends before the file does."""
        try:
            yield
        except UnfitFile as error:
            self._explain(corrects=True)
            raise WrongUsage(f"{self._file}, {error}") from None
        except NotDone as error:
            is_refused = isinstance(error, Refused) and error.status < _SERVER
            if is_refused and not self.next and self._note is not None:
                # The source has nothing of it, so there is nothing to continue.
                _remove_note(self._file, self._producer)
                self._note = None
            self._explain(corrects=isinstance(error, Refused) and bool(error.errors))
            raise _located(error, str(self._file), self._chunk) from error
        except KeyboardInterrupt:
            self._explain(corrects=False)
            raise

    def _explain(self, *, corrects: bool) -> None:
        """Say how many events were sent, and how to continue; a file that is corrected first is another file then."""
        by_name = f"continue with --producer '{self._producer}'"
        if corrects:
            how = f"; correct the file, then {by_name}" if self.next else ""
        else:
            how = f"; {by_name if self._note is None else 'continue with --resume'}"
        complain(f"{self.sent:,} events were sent before this{how}")

    def _keep_note(self) -> None:
        if self._note is None:
            return
        self._note = self._note.model_copy(update={"acknowledged": self.next})
        try:
            self._note.write(self._file)
        except OSError:
            # In a folder where nothing can be written, a producer's name has to do.
            self._note = None


def _terminal() -> TextIO:
    return sys.stderr


@contextmanager
def _progress(source: str, opened: OpenedFile) -> Iterator[Callable[[float, int], None]]:
    """Show on a terminal how much of a file was sent."""
    terminal = _terminal()
    if not terminal.isatty() or opened.size is None:
        yield lambda _done, _sent: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=terminal), transient=True) as progress:
        bar = progress.add_task(f"sending to {source}", total=1.0)

        def show(done: float, sent: int) -> None:
            progress.update(bar, completed=done, description=f"{sent:,} events to {source}")

        yield show


def _located(error: NotDone, file: str, chunk: EventChunk) -> NotDone:
    """Return the error with the places in the file instead of those in the chunk."""
    if not isinstance(error, Refused) or not error.errors:
        return error
    located = copy(error)
    located.errors = tuple(_of_file(problem, file, chunk) for problem in error.errors)
    return located


def _of_file(problem: FieldProblem, file: str, chunk: EventChunk) -> FieldProblem:
    _, place, *_ = [*problem.pointer.split("/"), ""]
    if not place.isdecimal() or int(place) >= len(chunk.events):
        return problem
    line = f"line {int(place) + 1}"
    message = problem.message.replace(f"{line}: ", "", 1).replace(f"{line} ", "it ", 1)
    return problem.model_copy(update={"pointer": f"{file}, {chunk.events[int(place)].place}", "message": message})
