"""What happened: the log files below a root, and of one dataflow its journal: `braid logs`."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from braid_client.answers.overview import EventAnswer, OperationAnswer
from braid_client.client import Client
from manager.cli import SettingsFile, Shown, ShownLine, Url, WrongUsage, moment, printed, service
from manager.settings import read_client_settings

_LOOK_EVERY = 0.5
"""Seconds between two looks at files that are followed."""
_MOST_READ = 4_000_000
"""Bytes from the end of a file in which the last lines are looked for."""
_TEXT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ")
_OBJECT = re.compile(r'\{"at": "([^"]+)"')
_OLDEST = datetime.min  # noqa: DTZ901 - before the first line with a time


@dataclass(slots=True, kw_only=True)
class ReadLog:
    """A log that is read from its end on, and then as it grows."""

    name: str
    path: Path
    at: int = 0
    """Where reading goes on."""
    begun: datetime = _OLDEST
    """The local time of the latest entry; the lines of a traceback, or of Spark, have none of their own."""
    shown: bool = True
    """Whether the latest entry is about what was asked for."""

    def lines(self, about: re.Pattern[str] | None) -> Iterator["LogLine"]:
        """The lines since the last call, of which the last is complete; a file that was begun anew is read anew."""
        try:
            size = self.path.stat().st_size
            start = max(size - _MOST_READ, 0) if self.at == 0 or size < self.at else self.at
            with self.path.open("rb") as file:
                file.seek(start)
                read = file.read(size - start)
        except FileNotFoundError:
            return
        whole = read[: read.rfind(b"\n") + 1]
        self.at = start + len(whole)
        for text in whole.decode(errors="replace").splitlines():
            if (began := _began(text)) is not None:
                self.begun, self.shown = began, about is None or about.search(text) is not None
            if self.shown and (about is None or self.begun is not _OLDEST):
                yield LogLine(at=self.begun, log=self.name, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log."""

    at: datetime
    log: str
    text: str


def log_files(root: Path) -> tuple[ReadLog, ...]:
    """The logs below a root: of the service, of hosts, of the broker and of what keeps these."""
    paths = (path for pattern in ("*.log", "*/log", "*/*.log") for path in sorted(root.glob(pattern)) if path.is_file())
    return tuple(ReadLog(name=path.parent.name if path.name == "log" else path.stem, path=path) for path in paths)


@printed
def logs(  # noqa: PLR0913 - each is an option
    dataflow: Annotated[
        str | None, typer.Argument(help="What happened to this dataflow, from the service's journal.")
    ] = None,
    *,
    only: Annotated[
        str | None, typer.Option("--host", help="Only the log of this host; also service, keeper or broker.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only what is about this job.")] = None,
    last: Annotated[int, typer.Option(min=0, help="Begin with so many past lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    root: Annotated[Path | None, typer.Option(help="The root of the service. Default: from the settings.")] = None,
    url: Url = None,
    settings: SettingsFile = None,
) -> Iterator[Shown]:
    """Show the logs of the service, its hosts and broker on this machine; or what happened to a dataflow."""
    if dataflow is not None:
        if only is not None or job is not None:
            raise WrongUsage("--host and --job are for the logs of this machine; leave them out, or the dataflow")
        with service(url, settings) as client:
            yield from _journal(client, dataflow, last, follow=follow)
        return
    folder = read_client_settings({"root": root}, settings).root
    files = [file for file in log_files(folder) if only in {None, file.name}]
    if not files:
        named = f" of {only}" if only is not None else ""
        raise WrongUsage(
            f"there is no log{named} in {folder}; say --root on the machine of the service, or name a dataflow: "
            "braid logs DATAFLOW"
        )
    about = None if job is None else re.compile(rf'[\[ ]job={re.escape(job)}[ \]]|"job": "{re.escape(job)}"')
    yield from _shown(_last(files, about, last))
    while follow:
        time.sleep(_LOOK_EVERY)
        known = {file.path for file in files}
        files += [file for file in log_files(folder) if file.path not in known and only in {None, file.name}]
        yield from _shown(line for file in files for line in file.lines(about))


def _last(files: Iterable[ReadLog], about: re.Pattern[str] | None, count: int) -> list[LogLine]:
    """The last lines of all files, by their times."""
    lines = sorted((line for file in files for line in file.lines(about)), key=lambda line: line.at)
    return lines[max(len(lines) - count, 0) :]


def _shown(lines: Iterable[LogLine]) -> Iterator[Shown]:
    for line in lines:
        yield ShownLine(data={"log": line.log, "line": line.text}, text=f"{line.log} | {line.text}")


def _began(text: str) -> datetime | None:
    """The local time of a line that begins an entry."""
    if (match := _TEXT.match(text)) is not None:
        return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007 - it is the local time
    if (match := _OBJECT.match(text)) is not None:
        return datetime.fromisoformat(match[1]).astimezone().replace(tzinfo=None)
    return None


def _journal(client: Client, name: str, last: int, *, follow: bool) -> Iterator[Shown]:
    """The operations on a dataflow, the oldest first, and then its events."""
    dataflow = client.dataflow(name)
    past = list(islice(client.operations(subject=dataflow.id), last))
    for operation in reversed(past):
        yield Shown(data=operation, text=Text(f"{moment(operation.at)} {_operation(operation)}"))
    now = {"dataflow": dataflow.id, "state": dataflow.state, "reason": dataflow.reason}
    state = _state(dataflow.state, dataflow.reason)
    yield Shown(data=now, text=Text(f"{moment(datetime.now(UTC))} {dataflow.name} {state}"))
    for event in client.events() if follow else ():
        if (text := _event(event, dataflow.id)) is not None:
            yield Shown(data=event, text=Text(f"{moment(datetime.now(UTC))} {text}"))


def _operation(operation: OperationAnswer) -> str:
    counts = ((operation.started, "started"), (operation.reused, "reused"), (operation.paused, "paused"))
    tasks = ", ".join(f"{count} {verb}" for count, verb in counts if count)
    why = "; ".join(part for part in (f"tasks: {tasks}" if tasks else "", operation.note) if part)
    return f"{operation.kind} by {operation.who}{why and f': {why}'}"


def _state(state: str, reason: str) -> str:
    return f"is {state}: {reason}" if reason else f"is {state}"


def _event(event: EventAnswer, dataflow: str) -> str | None:
    """What an event says of a dataflow; None if it is about something else."""
    content = event.told
    if event.kind == "operation" and content.get("subject") == dataflow:
        return _operation(OperationAnswer.model_validate(content))
    if event.kind == "dataflow" and content.get("dataflow") == dataflow:
        return _state(content["state"], content["reason"])
    return None
