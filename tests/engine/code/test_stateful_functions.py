"""Published functions that keep something: where batches are cut, what they may keep, and what becomes of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.spools.log import packed
from dags import Kind, Schema
from engine.behaviour import AnyImplementation, NoBehaviour, implementation_of, installed_behaviours
from engine.code.function import stateful_code
from engine.code.store import CodeStore, digest_of
from engine.outside import HostOutside
from engine.plan import FormerTask, Forward, Plan, StateChange
from engine.records.job_folder import spool_folder
from engine.tasks.code import StatefulCodeConfig
from engine.trial import At, Event
from tests.engine.code.publication import Publication, result
from tests.engine.kernels import enters, entry, slot
from tests.engine.kernels import events as arrow_events
from tests.tasks.agreeing import agrees, few
from tests.twins.twin_job import TwinJob

COUNT = """
import os

def entry(event, kept, config):
    kept = kept or {"seen": 0}
    # Whatever an event that is refused does to its copy.
    kept["seen"] += config.setdefault("step", 1)
    if event["n"] is None:
        raise ValueError("no number")
    if event["n"] == 99:
        os._exit(3)
    return ({"m": kept["seen"]} if event["n"] % 5 else None), (kept if event["n"] != 7 else None)

def migrate(old_config, new_config, key, kept):
    if new_config.get("fails") == key[0]:
        raise ValueError("not this one")
    return None if new_config.get("drops") == key[0] else {"seen": kept["seen"] * new_config["times"]}
"""
NEEDED = {"n": "integer", "k": "string"}


def counting(text: str = COUNT, *, vouched: bool = False, **keeps: Any) -> Publication:
    """A function that counts the events of each key."""
    return Publication(text, needed=NEEDED, vouched=vouched, keeps={"by": ["k"], **keeps})


def events(*numbers: int, key: str = "a") -> list[At]:
    return [("in", {"n": n, "k": key}) for n in numbers]


def hosted(publication: Publication, root: Path) -> AnyImplementation:
    """The implementation, whose configs know a root with the source."""
    CodeStore(root).put(digest_of(publication.text), publication.text)
    publication.vouch(root, vouched=publication.vouched)
    outside = HostOutside(root)

    def make(config: StatefulCodeConfig) -> Any:
        text = config.model_dump_json(by_alias=True)
        return stateful_code.make(StatefulCodeConfig.model_validate_json(text, context={"outside": outside}))

    return replace(stateful_code, make=make)


def counted(seen: Iterator[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a loop over the function gives."""
    kept: dict[str, int] = {}
    for event in seen:
        count = kept.get(event["k"], 0) + 1
        if event["n"] % 5:
            yield "out", {**event, "m": count}
        kept[event["k"]] = count
        if event["n"] == 7:
            del kept[event["k"]]


@pytest.mark.parametrize("vouched", [False, True])
@few
@given(drawn=st.lists(st.fixed_dictionaries({"n": st.integers(0, 9), "k": st.sampled_from("abc")}), max_size=12))
def test_it_agrees_with_a_loop_wherever_batches_are_cut(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Event], *, vouched: bool
) -> None:
    """In cells and in the worker; an event at which it raises is parked, and leaves no trace in what is kept."""
    publication = counting(vouched=vouched)
    implementation = hosted(publication, tmp_path_factory.getbasetemp() / "keeping")
    schema = Schema.of(n=Kind.INTEGER, k=Kind.STRING)
    poison: list[Event] = [{"n": None, "k": "a"}]
    agrees(implementation, publication.config(), drawn, counted, schema, poisonous=poison, exact=True)


def test_an_event_that_ends_its_cell_leaves_no_trace(tmp_path: Path) -> None:
    """The events after it go on from those before it, in another cell."""
    rows, reasons = result(counting().trial(tmp_path).take(events(1, 2, 99, 3, 99, 4)))
    assert [1, 2, 3, 4] == [row["m"] for row in rows]
    assert ["CodeEnded: it ended its process with code 3"] * 2 == reasons


@pytest.mark.parametrize("vouched", [False, True])
def test_keys_are_bounded(tmp_path: Path, *, vouched: bool) -> None:
    """Known keys go on, and one that is forgotten makes room for another, also within a batch."""
    trial = counting(vouched=vouched, most_keys=2).trial(tmp_path)
    full = "KeptTooMuch: it would keep something under more than 2 keys"
    assert [full] == result(trial.take([*events(1), *events(1, key="b"), *events(1, key="c"), *events(2)]))[1]
    rows, reasons = result(trial.take([*events(1, key="c"), *events(7), *events(1, key="c"), *events(1, key="b")]))
    assert ([3, 1, 2], [full]) == ([row["m"] for row in rows], reasons)
    assert 2 == trial.state.growth.key_count()


@pytest.mark.parametrize("vouched", [False, True])
def test_bytes_are_bounded(tmp_path: Path, *, vouched: bool) -> None:
    """What would let the state grow beyond its bound is refused, and what lets it shrink is not."""
    text = "def entry(event, kept, config): return {'m': len(kept or '')}, 'x' * event['n']"
    trial = counting(text, vouched=vouched, most_bytes=100).trial(tmp_path)
    rows, reasons = result(trial.take(events(80, 200, 90, 10)))
    assert ([0, 80, 90], ["KeptTooMuch: it would keep more than 100 bytes"]) == ([row["m"] for row in rows], reasons)


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("{'m': 1}", "it returns a dict, not a pair of what leaves and what it keeps"),
        ("({'m': 1}, object())", "what it keeps cannot be kept: Encoding objects of type object is unsupported"),
        ("({'m': 1}, 2**80)", "what it keeps cannot be kept: can't serialize ints < -2**63 or > 2**64 - 1"),
        ("({'x': 1}, 5)", "it returns the field 'x', which it does not declare"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, returned: str, reason: str, *, vouched: bool) -> None:
    """With its event, and the key keeps what it kept."""
    text = f"def entry(event, kept, config):\n    return {returned} if event['n'] else ({{'m': kept}}, 7)"
    rows, reasons = result(counting(text, vouched=vouched).trial(tmp_path).take(events(0, 1, 0)))
    assert ([None, 7], [f"WrongOutput: {reason}"]) == ([row["m"] for row in rows], reasons)


@pytest.mark.parametrize("kept_at", ["{9: b'\\x01'}", "{0: b'\\xc1'}", "{0: b'\\xda\\xff\\xff' + b'x' * 65535}"])
def test_a_cell_that_pretends_to_have_kept_something_is_not_believed(tmp_path: Path, kept_at: str) -> None:
    """Neither under another key, nor what nobody can read, nor more than is allowed."""
    text = f"""
import msgspec, os, struct

def entry(event, kept, config):
    if event["n"]:
        sent = msgspec.msgpack.encode({{"outcomes": [[1]], "kept_at": {kept_at}}})
        os.write(3, struct.pack(">Q", len(sent)) + sent)
        os._exit(0)
    return {{"m": kept}}, 7
"""
    trial = counting(text, most_bytes=1_000).trial(tmp_path)
    trial.take(events(0))
    assert [True] == ["its process sends something" in reason for reason in result(trial.take(events(1)))[1]]
    assert (1, 7) == (trial.state.growth.key_count(), trial.state.get(("a",)))


def config_of(publication: Publication, root: Path) -> StatefulCodeConfig:
    text = json.dumps(publication.config())
    return StatefulCodeConfig.model_validate_json(text, context={"outside": HostOutside(root)})


KEPT: Sequence[tuple[tuple[Any, ...], Any]] = [(("a",), {"seen": 2}), (("b",), {"seen": 3})]


@pytest.mark.parametrize("vouched", [False, True])
def test_its_own_function_migrates_what_is_kept(tmp_path: Path, *, vouched: bool) -> None:
    """Key by key, from one config to another; a key may be dropped."""
    old = counting(vouched=vouched, migrate="migrate")
    new = counting(vouched=vouched, migrate="migrate", config={"times": 10, "drops": "b"})
    new.trial(tmp_path)
    found = stateful_code.transformed(config_of(old, tmp_path), config_of(new, tmp_path), KEPT)
    assert [{"seen": 20}, None] == found


def test_the_fields_of_a_key_are_migrated_as_events_have_them(tmp_path: Path) -> None:
    """A time is a time, and JSON a value."""
    text = (
        "def entry(event, kept, config): return {}, 1\ndef migrate(old, new, key, kept): return [str(p) for p in key]"
    )
    needed = {"t": "timestamp", "j": "json"}
    publication = Publication(text, {"m": "string"}, needed, keeps={"by": ["t", "j"], "migrate": "migrate"})
    publication.trial(tmp_path)
    config = config_of(publication, tmp_path)
    key = (int(datetime(2026, 5, 4, tzinfo=UTC).timestamp() * 1_000), '{"a":1}')
    assert [["2026-05-04 00:00:00+00:00", "{'a': 1}"]] == stateful_code.transformed(config, config, [(key, 1)])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("return kept['unseen']", "fails at the key ('a',): KeyError: 'unseen'"),
        ("return kept if key[0] == 'a' else object()", "fails at the key ('b',): WrongOutput: what it keeps cannot"),
        ("return open('/etc/passwd').read()", "fails at the key ('a',): PermissionError"),
        ("__import__('os')._exit(0)", "fails at the key ('a',): CodeEnded: it ended its process"),
        ("while key[0] == 'b': pass\n    return 1", "fails at the key ('b',): CodeEnded: it took over "),
        ("return 'x' * 600", "would keep 1,212 bytes, and the most are 1,000"),
    ],
)
def test_a_migration_that_fails_for_a_key_says_so(tmp_path: Path, text: str, reason: str) -> None:
    """It is confined as the function itself is, and refused as a whole."""
    text = f"def entry(event, kept, config): return {{}}, 1\ndef migrate(old, new, key, kept):\n    {text}"
    publication = counting(text, migrate="migrate", most_bytes=1_000)
    publication.trial(tmp_path)
    config = config_of(publication, tmp_path)
    with pytest.raises(NoBehaviour) as raised:
        stateful_code.transformed(config, config, KEPT)
    assert reason in str(raised.value)


def code_plan(version: int, publication: Publication, former: Publication | None = None, shards: int = 1) -> Plan:
    """A job with one task of published code, which continues from another one."""
    made = entry([slot(2, "stateful_code", 1, **publication.config())], [enters("s", 1)], [Forward(instance=2)])
    changes = () if former is None else (StateChange(instance=2, former=as_former(former)),)
    return replace(made.plan, job="j", version=version, changes=changes, shards=shards)


def as_former(publication: Publication) -> FormerTask:
    return FormerTask(type="stateful_code", config=json.dumps(publication.config()))


OF_ROWS = Publication(
    COUNT.replace('event["n"]', 'event["b"]'),
    needed={"b": "integer", "k": "string"},
    keeps={"by": ["k"], "migrate": "migrate"},
)


def configured(**config: Any) -> Publication:
    """The same code with another config."""
    return OF_ROWS._replace(keeps={**(OF_ROWS.keeps or {}), "config": config})


@pytest.mark.parametrize("shards", [1, 3])
def test_a_job_that_is_begun_again_and_changed_loses_and_doubles_nothing(tmp_path: Path, shards: int) -> None:
    """What is kept is kept with the records; a migration that fails parks events until the config is back."""
    OF_ROWS.trial(tmp_path)
    times, fails = configured(times=10), configured(times=1, fails="a")
    spool = Spool(spool_folder(tmp_path, "s"), most_bytes=1_000_000)

    def run(plan: Plan) -> Mapping[str, int]:
        """Begin the job again with a plan, and give it an event of each key; the counts that leave."""
        twin = TwinJob(tmp_path, "j", installed_behaviours())
        before = twin.store.batches().stop
        twin.log(plan)
        rows = arrow_events([{"a": 0.0, "b": 1, "k": key} for key in "abcd"])
        spool.append([Item(count=4, stamp=plan.version, payload=packed(rows))])
        twin.settle()
        emitted = [each for at in range(before, twin.store.batches().stop) for each in twin.store.file(at).emitted()]
        return {event["k"]: event["m"] for each in emitted if each.events for event in each.events.to_pylist()}

    assert dict.fromkeys("abcd", 1) == run(code_plan(1, OF_ROWS, shards=shards))
    assert dict.fromkeys("abcd", 2) == run(code_plan(2, OF_ROWS, shards=5 - shards))
    assert dict.fromkeys("abcd", 21) == run(code_plan(3, times, OF_ROWS, shards))
    assert dict.fromkeys("abcd", 22) == run(code_plan(4, times, shards=shards))
    assert "a" not in run(code_plan(5, fails, times, shards))
    assert 23 == run(code_plan(6, times, fails, shards))["a"]
    spool.close()


def test_the_type_is_installed() -> None:
    """Workers find it by its name."""
    assert implementation_of("stateful_code", installed_behaviours()) is stateful_code
