"""What a published function gives: in cells, in the worker, and in a plain loop the same."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dags import Kind, Schema
from engine.code.cell.calls import taken
from engine.code.store import MOST_SOURCE_BYTES, CodeStore, NoCode, digest_of
from tests.engine.code.publication import Publication, numbers, result

MILLI = timedelta(milliseconds=1)
KINDS = {"b": "boolean", "i": "integer", "f": "float", "s": "string", "t": "timestamp", "j": "json"}
SCHEMA = Schema.of({name: Kind(kind) for name, kind in KINDS.items()})
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "b": st.none() | st.booleans(),
            "i": st.none() | st.integers(-(2**62), 2**62),
            "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "s": st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
            "t": st.none()
            | st.integers(-(10**12), 10**12).map(lambda at: datetime(1970, 1, 1, tzinfo=UTC) + at * MILLI),
            "j": st.none() | st.dictionaries(st.text("ab"), st.integers() | st.lists(st.booleans()), max_size=2),
        }
    ),
    max_size=20,
)
TEXTS = (
    "def entry(event): return event",
    "def entry(event): return {**event, 'i': event['i'] + 1, 's': str(event['j']), 'f': -event['f']}",
    "def entry(event): return event if event['b'] else None",
    "def entry(event): return {**event, 'f': 1 / event['i'], 't': event['t'].replace(year=2000)}",
    "def entry(event): return {**event, 'j': {'all': [event['s'], event['f']]}, 'b': event['s'] > 'm'}",
    "def entry(event):\n    event['j']['more'] = event.pop('i')\n    return {'i': 2**63, **event}",
    "def entry(event): return {**event, 'i': 1.5} if event['b'] else [event]",
)


def plain(text: str, events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """What a loop over the function gives, and the number of events at which it fails."""
    module: dict[str, Any] = {}
    exec(text, module)  # noqa: S102 - it is the oracle
    entry: Callable[[dict[str, Any]], Any] = module["entry"]
    rows, failed = [], 0
    for event in events:
        try:
            found = entry({**event, "j": json.loads(json.dumps(event["j"]))})
            if found is not None:
                rows.append({name: _checked(kind, found[name]) for name, kind in KINDS.items()})
        except Exception:  # noqa: BLE001 - the function may raise anything
            failed += 1
    return rows, failed


def _checked(kind: str, value: Any) -> Any:
    types: Mapping[str, tuple[type, ...]] = {
        "boolean": (bool,), "integer": (int,), "float": (float, int), "string": (str,), "timestamp": (datetime,),
    }  # fmt: skip
    if value is None:
        return None
    if kind == "json":
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if type(value) not in types[kind] or (kind == "integer" and not -(2**63) <= value < 2**63):
        raise TypeError
    if kind == "float" and not math.isfinite(value):
        raise ValueError
    return value


@settings(max_examples=40)
@given(events=EVENTS, text=st.sampled_from(TEXTS))
def test_cells_the_worker_and_a_plain_loop_agree(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], text: str
) -> None:
    """On what leaves, in order, and on the number of events that are parked."""
    root = tmp_path_factory.getbasetemp() / "agreeing"
    in_cells, in_worker = (
        result(Publication(text, KINDS, KINDS, vouched=vouched).trial(root, SCHEMA).take([("in", e) for e in events]))
        for vouched in (False, True)
    )
    assert in_cells == in_worker
    rows, failed = plain(text, events)
    assert (rows, failed) == (in_cells[0], len(in_cells[1]))


BATCH = """
import pyarrow as pa
import pyarrow.compute as pc

def entry(batch):
    n = batch["n"]
    if pc.any(pc.equal(n, 13)).as_py():
        raise ValueError("13 is here")
    return pa.record_batch({"n": n, "m": pc.multiply(n, 2)}), pc.not_equal(pc.bit_wise_and(n, 3), 3)
"""


@settings(max_examples=25)
@given(values=st.lists(st.integers(0, 20), max_size=40))
def test_functions_of_a_batch_agree_too(tmp_path_factory: pytest.TempPathFactory, values: list[int]) -> None:
    """Events that the function fails at are found by halving, and the others are as if these had not been there."""
    root = tmp_path_factory.getbasetemp() / "agreeing"
    events = [{"n": n} for n in values]
    found = [Publication(BATCH, per="batch", vouched=vouched).run(root, events) for vouched in (False, True)]
    rows = [{"n": n, "m": 2 * n} for n in values if n != 13 and n & 3 != 3]
    assert [(rows, ["ValueError: 13 is here"] * values.count(13))] * 2 == found


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("7", "it returns a int, not a dictionary or None"),
        ("{}", "it does not return the field 'm', which it declares"),
        ("{'m': 1, 'x': 2}", "it returns the field 'x', which it does not declare"),
        ("{'m': 1, 'n': 5}", "it changes the field 'n', which it does not declare as output"),
        ("{'m': 'one'}", "the field 'm' should be of kind integer, and is a str"),
        ("{'m': True}", "the field 'm' should be of kind integer, and is a bool"),
        ("{'m': 2**63}", "the field 'm' should be of kind integer, and is a int"),
        ("{'m': 1.0}", "the field 'm' should be of kind integer, and is a float"),
    ],
)
def test_what_does_not_fit_the_declaration_is_parked(tmp_path: Path, code: str, reason: str, *, vouched: bool) -> None:
    """With a reason that names the field."""
    publication = Publication(f"def entry(event): return {code}", vouched=vouched)
    assert ([], [f"WrongOutput: {reason}"]) == publication.run(tmp_path, numbers(1))


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("7", "it returns a int, not a RecordBatch, or a pair of one and what it keeps"),
        ("batch.slice(1)", "it returns 0 rows for 1"),
        ("batch", "it does not return the field 'm', which it declares"),
        ("pa.record_batch({'m': ['x']})", "the field 'm' should be of kind integer, and is string"),
        ("pa.record_batch({'n': [9], 'm': [1]})", "it changes the field 'n', which it does not declare as output"),
        ("pa.record_batch({'x': [9], 'm': [1]})", "it returns the field 'x', which it does not declare"),
        ("(pa.record_batch({'m': [1]}), pa.array([1]))", "what it keeps is not an array of 1 booleans without nulls"),
    ],
)
def test_what_does_not_fit_is_parked_per_batch_too(tmp_path: Path, code: str, reason: str, *, vouched: bool) -> None:
    """With a reason that names the field."""
    text = f"import pyarrow as pa\ndef entry(batch): return {code}"
    assert ([], [f"WrongOutput: {reason}"]) == Publication(text, per="batch", vouched=vouched).run(tmp_path, numbers(1))


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(
    ("output", "rows"),
    [
        ({}, [{"keep": "k", "n": 1, "x": 0.5, "m": 2}]),
        ({"drop": ["keep", "n"]}, [{"x": 0.5, "m": 2}]),
        ({"rest": False}, [{"m": 2}]),
    ],
)
def test_other_fields_pass_on_as_declared(
    tmp_path: Path, output: dict[str, Any], rows: list[dict[str, Any]], *, vouched: bool
) -> None:
    """The function does not see them."""
    text = "def entry(event):\n    assert event == {'n': 1}\n    return {'m': 2}"
    schema = Schema.of(n=Kind.INTEGER, keep=Kind.STRING, x=Kind.FLOAT)
    trial = Publication(text, output=output, vouched=vouched).trial(tmp_path, schema)
    assert (rows, []) == result(trial.take([("in", {"n": 1, "keep": "k", "x": 0.5})]))


@pytest.mark.parametrize("vouched", [False, True])
def test_a_function_may_need_no_field(tmp_path: Path, *, vouched: bool) -> None:
    """It then gives the same for every event."""
    trial = Publication("def entry(event): return {'m': len(event)}", needed={}, vouched=vouched).trial(
        tmp_path, Schema.of(n=Kind.INTEGER)
    )
    assert [0, 0] == trial.take([("in", each) for each in numbers(2)]).emitted["out"].rows.column("m").to_pylist()


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def entry(event)", "SyntaxError: it cannot be loaded: expected ':'"),
        ("import nothing_like_it", "ModuleNotFoundError: it cannot be loaded: No module named 'nothing_like_it'"),
        ("def other(event): pass", "WrongOutput: it cannot be loaded: the source defines no function 'entry'"),
    ],
)
def test_a_source_that_cannot_be_loaded_parks_all_events(
    tmp_path: Path, text: str, reason: str, *, vouched: bool
) -> None:
    """With what is wrong with it."""
    given, reasons = Publication(text, vouched=vouched).run(tmp_path, numbers(2))
    assert [] == given
    assert [True, True] == [each.startswith(reason) for each in reasons]


@pytest.mark.parametrize("vouched", [False, True])
def test_a_traceback_is_the_owners_and_shows_only_the_source(tmp_path: Path, *, vouched: bool) -> None:
    """The reason that all readers see has no line of it."""
    text = "def inner(value):\n    return 1 // value\n\ndef entry(event):\n    return {'m': inner(event['n'])}"
    (dead,) = Publication(text, vouched=vouched).trial(tmp_path).take([("in", {"n": 0})]).dead
    assert "ZeroDivisionError: integer division or modulo by zero" == dead.reason
    assert dead.traceback is not None
    assert "ann" == dead.traceback.owner
    assert ["entry", "inner"] == [line.split()[-1] for line in dead.traceback.text.splitlines() if "File" in line]
    assert "return 1 // value" in dead.traceback.text
    assert str(Path(__file__).parents[3]) not in dead.traceback.text


def test_an_error_cannot_pretend_to_be_a_verdict(tmp_path: Path) -> None:
    """A class may have any name, but a reason begins with an identifier."""
    text = "def entry(event): raise type('killed its worker', (Exception,), {})('x')"
    assert ["Exception: x"] == Publication(text).run(tmp_path, numbers(1))[1]


def test_times_are_those_of_utc() -> None:
    """A time without a zone is in UTC, as in raw events."""
    assert taken("t", "timestamp", datetime(2026, 1, 1)) == taken("t", "timestamp", datetime(2026, 1, 1, tzinfo=UTC))  # noqa: DTZ001 - it is the case


def test_a_source_is_kept_under_its_own_digest_only(tmp_path: Path) -> None:
    """Nothing else gets its name, and none is larger than is allowed."""
    store = CodeStore(tmp_path)
    with pytest.raises(NoCode, match="the digest of the source is"):
        store.put(digest_of("x = 1"), "x = 2")
    large = "#" * (MOST_SOURCE_BYTES + 1)
    with pytest.raises(NoCode, match="65,537 bytes; the most allowed are 65,536"):
        store.put(digest_of(large), large)
    assert not (tmp_path / "code").exists()
