"""`braid send`: every event of a file reaches its source once, however often sending is interrupted."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from braid_client import Client
from manager import cli
from manager.command import app
from manager.exit_codes import ExitCode
from manager.sources import event_files, file_sender
from manager.sources.file_sender import SendingNote
from tests.braid_client.samples import SOURCE
from tests.braid_client.scripted_service import KEY, URL, refusal

FILE = Path("street.csv")
NOTE = Path("street.csv.sending")
LINES = 40


class Intake:
    """A source that numbers what it takes, and can be made to fail."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.next: dict[str, int] = {}
        self.asked: list[httpx.Request] = []
        self.fail: Callable[[int, str], object] = lambda _request, _when: None
        """Called before and after a request with events, with its number."""
        self.requests = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if request.method == "GET" and "/producers/" not in request.url.path:
            return httpx.Response(200, json=SOURCE | {"schema": {"n": "integer"}})
        producer = request.url.params.get("producer") or request.url.path.rpartition("/")[2]
        if request.method == "POST":
            self.requests += 1
            self.fail(self.requests, "before")
            self.take(producer, int(request.url.params["first"]), [*map(json.loads, request.content.splitlines())])
            self.fail(self.requests, "after")
        known = self.next.get(producer, 0)
        return httpx.Response(200, json={"source": "city", "producer": producer, "next": known})

    def take(self, producer: str, first: int, events: list[Any]) -> None:
        known = self.next.get(producer, 0)
        assert first <= known
        self.events += events[known - first :]
        self.next[producer] = max(known, first + len(events))


class Sends:
    """The command, with a source that takes what it sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("BRAID_URL", URL)
        monkeypatch.setenv("BRAID_KEY", KEY)
        monkeypatch.setattr(cli, "Client", self._client)
        monkeypatch.setattr(event_files, "MOST_CHUNK_EVENTS", 3)
        self.intake = Intake()

    def __call__(self, *words: str, typed: bytes | None = None) -> Result:
        return CliRunner().invoke(app, ["send", *words], input=typed)

    def _client(self, url: str, key: Any, **_trust: Any) -> Client:
        transport = httpx.MockTransport(self.intake.answer)
        return Client(url, key, transport=transport, sleep=lambda _seconds: None)


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sends:
    content = "n\n" + "".join(f"{number}\n" for number in range(LINES))
    made = Sends(monkeypatch, tmp_path)
    FILE.write_text(content)
    return made


def crash(at: int, when: str, kind: type[BaseException] = KeyboardInterrupt) -> Callable[[int, str], None]:
    """A failure of one request: `before` the source has its events, or `after`."""

    def fail(request: int, now: str) -> None:
        if (request, now) == (at, when):
            raise kind("crashed")

    return fail


def numbers(sends: Sends) -> list[int]:
    return [event["n"] for event in sends.intake.events]


def test_a_csv_file_is_sent_by_the_schema_of_its_source(sends: Sends) -> None:
    """In chunks; nothing stays beside the file."""
    result = sends("city", "street.csv")
    assert (0, f"sent {LINES} events to city\n", "") == (result.exit_code, result.stdout, result.stderr)
    assert ([*range(LINES)], False) == (numbers(sends), NOTE.exists())
    assert sends.intake.requests == -(-LINES // 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["before", "after"])), max_size=4))
def test_each_event_is_taken_once_wherever_sending_is_interrupted(sends: Sends, crashes: list[tuple[int, str]]) -> None:
    """Whether or not the source had the events of the request that was interrupted."""
    sends.intake = Intake()
    NOTE.unlink(missing_ok=True)
    words: list[str] = []
    for at, when in crashes:
        sends.intake.requests, sends.intake.fail = 0, crash(at, when)
        result = sends("city", "street.csv", *words)
        if result.exit_code == 0:
            break
        assert "continue with --resume" in result.stderr
        words = ["--resume"]
    else:
        sends.intake.fail = lambda _request, _when: None
        assert sends("city", "street.csv", *words).exit_code == 0
    assert ([*range(LINES)], False) == (numbers(sends), NOTE.exists())


def interrupted(sends: Sends, at: int = 4, when: str = "after") -> SendingNote:
    """A file whose sending was interrupted; its note."""
    sends.intake.fail = crash(at, when)
    assert sends("city", "street.csv").exit_code != 0
    sends.intake.fail = lambda _request, _when: None
    note = SendingNote.read(FILE)
    assert note is not None
    return note


def test_an_interrupted_file_is_not_sent_again_by_mistake(sends: Sends) -> None:
    """The message says how to continue, and how to begin again."""
    interrupted(sends)
    result = sends("city", "street.csv")
    assert result.exit_code == 1
    assert (
        "sending street.csv to city was interrupted after 9 events; continue with --resume, or remove "
        "street.csv.sending to send all of it again\n"
    ) == result.stderr
    result = sends("city", "street.csv", "--resume")
    assert f"sent {LINES - 12} events to city; the first 12 were there already\n" == result.stdout


def test_a_changed_file_is_not_resumed(sends: Sends) -> None:
    """Its events may have other numbers; who knows that they do not can continue by name, which removes the note."""
    note = interrupted(sends)
    FILE.write_text(FILE.read_text() + "40\n")
    result = sends("city", "street.csv", "--resume")
    assert result.exit_code == 1
    assert (
        "street.csv has changed since it was interrupted; if its first 9 events are still the same, continue with "
        f"--producer '{note.producer}'\n"
    ) == result.stderr
    assert 0 == sends("city", "street.csv", "--producer", note.producer).exit_code
    assert ([*range(LINES + 1)], False) == (numbers(sends), NOTE.exists())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("city street.csv --resume", "street.csv: there is nothing to resume, as street.csv.sending is missing"),
        ("city - --resume", "-: there is nothing to resume"),
        ("city street.csv --resume --producer day", "leave --producer out"),
        ("city street.csv --separator ,,", "--separator: ',,' is not one character; choose one, such as ';'"),
        ("city none.csv", "none.csv: No such file or directory; name a readable file"),
    ],
)
def test_wrong_usage_sends_nothing(sends: Sends, words: str, problem: str) -> None:
    """The message says what to do."""
    result = sends(*words.split())
    assert (1, 0) == (result.exit_code, sends.intake.requests)
    assert problem in result.stderr


def test_another_source_or_a_broken_note_is_not_resumed(sends: Sends) -> None:
    """Nothing is sent to the wrong place."""
    interrupted(sends)
    result = sends("village", "street.csv", "--resume")
    assert (1, True) == (result.exit_code, f"was being sent to city at {URL}; resume with these" in result.stderr)
    NOTE.write_text("{}")
    for words in ((), ("--resume",)):
        result = sends("city", "street.csv", *words)
        assert (1, True) == (result.exit_code, "cannot be read as the note of a file" in result.stderr)


def test_a_source_that_has_forgotten_the_file_is_not_sent_events_twice(sends: Sends) -> None:
    """It remembers the newest producers only."""
    interrupted(sends)
    sends.intake.next.clear()
    result = sends("city", "street.csv", "--resume")
    assert (1, True) == (result.exit_code, "city took 9 events of street.csv or some more" in result.stderr)
    assert 12 == len(sends.intake.events)


def test_what_was_surely_refused_leaves_no_note(sends: Sends) -> None:
    """So the corrected command is a new one."""
    answer = sends.intake.answer
    problem = {"pointer": "/1/n", "code": "wrong-kind", "message": "line 2: n is no integer", "remedy": "send one"}
    sends.intake.answer = lambda request: (  # type: ignore[method-assign]  # this source refuses
        refusal(400, "invalid-request", errors=[problem]) if request.method == "POST" else answer(request)
    )
    result = sends("city", "street.csv")
    assert [
        "0 events were sent before this",
        "street.csv, line 3: n is no integer; send one",
    ] == result.stderr.splitlines()
    assert (1, False) == (result.exit_code, NOTE.exists())


def test_a_wrong_line_is_named_with_how_much_was_sent(sends: Sends) -> None:
    """By its place in the file."""
    FILE.write_text("n,m\n" + "1,\n" * 7 + "1\n")
    result = sends("city", "street.csv")
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert "0 events were sent before this" == first
    assert "street.csv, line 9: it has 1 cells, and the header has 2" == second


def test_a_folder_without_room_for_a_note_is_no_obstacle(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's name is said instead."""

    def refuse(_note: SendingNote, _file: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(SendingNote, "write", refuse)
    sends.intake.fail = crash(2, "before")
    result = sends("city", "street.csv")
    assert (True, False) == (
        "3 events were sent before this; continue with --producer '~" in result.stderr,
        NOTE.exists(),
    )


def test_standard_input_can_be_csv(sends: Sends) -> None:
    """If the format is given."""
    assert sends("city", "-", "--format", "csv", "--separator", ";", typed=b"n;s\n1;a\n2;b\n").exit_code == 0
    assert [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}] == sends.intake.events


class Terminal(io.StringIO):
    """A terminal that keeps what is shown."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_much_was_sent(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number of events; nothing of it stays, and standard output has the line alone."""
    terminal = Terminal()
    monkeypatch.setattr(file_sender, "_terminal", lambda: terminal)
    result = sends("city", "street.csv")
    assert f"sent {LINES} events to city\n" == result.stdout
    assert "100%" in terminal.getvalue()
    assert f"{LINES} events to city" in terminal.getvalue()


def test_ctrl_c_ends_with_its_exit_code(sends: Sends) -> None:
    """After it was said how to continue."""
    sends.intake.fail = crash(4, "before")
    result = sends("city", "street.csv")
    assert ExitCode.INTERRUPTED == result.exit_code
    assert "9 events were sent before this; continue with --resume" in result.stderr
