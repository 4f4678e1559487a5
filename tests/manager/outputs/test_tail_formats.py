"""`braid tail --format`: lines that other programs read, and that `braid send` takes again."""

import csv
import io
import json
from collections.abc import Iterator
from threading import Timer
from threading import enumerate as enumerate_threads
from time import sleep
from typing import Any

import pytest
from hypothesis import given

from braid_client.answers.dataflows import OutputEvent
from manager.exit_codes import ExitCode
from manager.outputs import commands
from manager.outputs.commands import CsvLines
from manager.sources.event_files import FileFormat, OpenedFile, read_events
from tests.braid_client.samples import DETAIL
from tests.braid_client.scripted_service import lines, ok
from tests.manager.braid_runner import Braid
from tests.manager.sources.test_event_files import EVENTS, KINDS, taken

OUTPUT: dict[str, Any] = {"sink": "out", "topic": "braid/1/out/school/d1/out"}
ONE = DETAIL | {"outputs": [OUTPUT]}
TWO = DETAIL | {"outputs": [OUTPUT, OUTPUT | {"sink": "second"}]}


def tail(*events: Any, missed: int = 0) -> list[Any]:
    """A dataflow, and what leaves it."""
    numbered = enumerate(events, missed)
    shown = [json.dumps({"sink": "out", "epoch": 1, "number": n, "event": event}) for n, event in numbered]
    gap = [json.dumps({"sink": "out", "epoch": 1, "number": 0, "missed": missed})] if missed else []
    return [ok(ONE), lines(*gap, *shown)]


def test_json_lines_are_the_events_alone(braid: Braid) -> None:
    """Each on one line, as wide as it is, and with nothing that terminals would read."""
    events = [{"text": "[bold]\t" + "x" * 500}, {"half": "\ud800"}, [1]]
    result = braid("tail", "d1", "--format", "jsonl", "--count", "3", answers=tail(*events))
    assert (0, events) == (result.exit_code, [json.loads(line) for line in result.stdout.splitlines()])


def test_csv_has_a_header_and_a_row_for_each_event(braid: Braid) -> None:
    """By the fields of the first; another field is reported once, and so is what was missed."""
    events = [{"t": 21.5, "on": True, "s": "a,\n\t[b]"}, {"t": None, "x": 1, "s": "\ud800"}, {"x": 2, "on": {"a": [1]}}]
    result = braid("tail", "d1", "--format", "csv", "--count", "3", answers=tail(*events, missed=2))
    assert [
        ["on", "s", "t"],
        ["true", "a,\n\t[b]", "21.5"],
        ["", "\\ud800", ""],
        ['{"a": [1]}', "", ""],
    ] == list(csv.reader(io.StringIO(result.stdout)))
    assert [
        "missed 2 events of out: they came faster than they were read",
        "the field 'x' has no column, and is left out; name all columns with --column",
    ] == result.stderr.splitlines()


def test_a_quiet_output_is_said_to_be_quiet(
    braid: Braid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, once; an output with events says nothing."""
    assert "" == braid("tail", "d1", "--count", "1", answers=tail({"t": 1})).stderr
    monkeypatch.setattr(commands, "_QUIET_SECONDS", 0.0)

    def late() -> Iterator[OutputEvent]:
        while any(isinstance(thread, Timer) for thread in enumerate_threads()):
            sleep(0.01)
        yield OutputEvent(sink="out", epoch=1, number=0, event={"t": 1})

    assert [{"t": 1}] == [event.event for event in commands.announced(late(), "Schools")]
    assert "no event has left Schools so far; this waits for the next, until Ctrl-C\n" == capsys.readouterr().err


def test_columns_can_be_named(braid: Braid) -> None:
    """In any order, also fields that the first event does not have."""
    words = ["--format", "csv", "--column", "x", "--column", "t", "--count", "2"]
    result = braid("tail", "d1", *words, answers=tail({"t": 1}, {"x": 2, "t": 3}))
    assert "x,t\n,1\n2,3\n" == result.stdout


def test_for_programs_that_want_numbers_json_says_more(braid: Braid) -> None:
    """The records are the same as without a format."""
    result = braid("tail", "d1", "--format", "csv", "--json", "--count", "1", answers=tail({"t": 1}))
    assert {"sink": "out", "epoch": 1, "number": 0, "event": {"t": 1}} == json.loads(result.stdout)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--format csv", "one file has the events of one output; name one of out, second"),
        ("--column t", "--column is for CSV only; add --format csv"),
        ("--column t --format jsonl", "--column is for CSV only; add --format csv"),
    ],
)
def test_wrong_usage_is_reported(braid: Braid, words: str, problem: str) -> None:
    """Before anything is read."""
    result = braid("tail", "d1", *words.split(), answers=[ok(TWO)])
    assert (ExitCode.PROBLEMS, f"{problem}\n") == (result.exit_code, result.stderr)


@given(EVENTS)
def test_what_a_tail_writes_as_csv_can_be_sent_again(events: list[dict[str, Any]]) -> None:
    """As the same events, to a source with their schema."""
    plain = [event | ({"at": event["at"].isoformat()} if "at" in event else {}) for event in events]
    writer = CsvLines([*KINDS])
    content = "".join(f"{writer.line(event)}\n" for event in plain).encode()
    opened = OpenedFile(stream=io.BytesIO(content), size=None)
    texts = [event.text for part in read_events(opened, FileFormat.CSV, KINDS) for event in part.events]
    assert events == taken(texts)
