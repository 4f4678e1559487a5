"""Whatever is submitted is either understood or refused with problems that can be read."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from adaptation.document_reader import read_dynamic, read_policy
from adaptation.documents import choices_in, resolve
from adaptation.flow import flow_of
from dags import Catalogue, Config, Dataflow, InvalidDocument, Kind, Problem, Read, Secret, TaskType
from dags.canonical import canonicalise
from tests.adaptation.drawn import canonical, conditions, dynamic_documents, module
from tests.adaptation.test_documents import DOCUMENT
from tests.catalogue import CATALOGUE, SOURCES
from tests.strategies import documents


class InnerConfig(Config):
    low: float = 0.0
    high: float
    key: Secret | None = None


class ManyConfig(Config):
    flag: bool = False
    whole: Annotated[int, Field(ge=0)] = 0
    number: float = 0.0
    text: Annotated[str, Field(min_length=2, max_length=3, pattern="^[a-z]*$")] = "ab"
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    pair: tuple[float, float] = (0.0, 1.0)
    table: dict[str, list[int]] = Field(default_factory=dict)
    inner: InnerConfig | tuple[InnerConfig, ...] | None = None
    origin: str = Field(default="", alias="from")
    anything: Any = None


FUZZED = Catalogue.of(
    [
        *CATALOGUE.types.values(),
        *CATALOGUE.namespaces,
        TaskType(
            name="many",
            config=ManyConfig,
            reads=lambda config: tuple(Read(at=f"names/{i}", field=name) for i, name in enumerate(config.names[1:], 1)),
            output_schema=lambda config, inputs: {"out": inputs["in"].plus(config.origin, Kind.JSON)},
        ),
    ]
)
NAMES = """
    version name tasks streams id type config fresh from from_port to to_port source map many sink lab:x fetch weather
    diary out in left even owner secret password add factor names pair table inner anything value place a b x
"""
ODD = (
    "",
    "0",
    "1",
    "~",
    "/",
    "a/b~c",
    "\u00e9",
    "e\u0301",
    "\ud800",
    "\udc00x",
    "\0",
    "i" * 129,
    "9" * 999,
    "k" * 1_001,
)
NUMBERS = (0, -1, 1, 2, 2**53, 2**53 + 1, -(2**53) - 1, 10**400, 0.5, -0.0, 5.0, 1e300, float("nan"), float("-inf"))
TEXTS = st.sampled_from([*NAMES.split(), *ODD]) | st.text(st.characters(exclude_categories=()), max_size=6)
SCALARS = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
Place = tuple[Any, Any]
"""A list or an object, and the number or key of something in it."""
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")


def outcome(raw: str | bytes) -> Dataflow | tuple[Problem, ...]:
    """What becomes of a text: a dataflow, or problems, each of which is held against what was submitted."""
    try:
        return canonicalise(raw, dataflow="flow", tenant="ann", catalogue=FUZZED, sources=SOURCES)
    except InvalidDocument as error:
        refused = error
    str(refused).encode()
    assert refused.problems
    value = parsed(raw)
    for problem in refused.problems:
        assert CODE.fullmatch(problem.code)
        assert problem.message.strip()
        assert problem.remedy.strip()
        assert leads_somewhere(value, problem.pointer), problem
    return refused.problems


def parsed(raw: str | bytes) -> Any:
    """The JSON value of a text, None where it has none; numbers do not matter here."""
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        return json.loads(text, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return None


def leads_somewhere(value: Any, pointer: str) -> bool:
    """Whether a JSON pointer leads to a value, or to where one that is missing would stand."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    for i, token in enumerate(tokens):
        if isinstance(value, list):
            if not token.isdecimal():
                return False
            found = value[int(token) : int(token) + 1]
        elif isinstance(value, dict):
            # Half a character cannot be written; pointers have it escaped.
            found = [item for key, item in value.items() if key.encode("utf-8", "backslashreplace").decode() == token]
        else:
            return False
        if not found:
            # A config that is left out is an empty one.
            return i == len(tokens) - 1 or (token == "config" and i == len(tokens) - 2)  # noqa: S105 - no password
        value = found[-1]
    return True


def submitted_again(written: dict[str, Any], dataflow: Dataflow) -> dict[str, Any]:
    """The document with its canonical configs, written as a tenant would."""
    again = copy.deepcopy(written)
    for task in again["tasks"]:
        task["config"] = as_submitted(dataflow.tasks[dataflow.places[task["id"]]].config)
    return again


def as_submitted(value: Any) -> Any:
    """A canonical value as a document may hold it: secrets without their owner, and large numbers with an exponent."""
    if isinstance(value, dict):
        is_secret = set(value) == {"owner", "secret"} and value["owner"] == "ann"
        return {key: as_submitted(item) for key, item in value.items() if not (is_secret and key == "owner")}
    if isinstance(value, list):
        return [as_submitted(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value


def holds(raw: str | bytes) -> None:
    """Hold every promise against what becomes of a text."""
    found = outcome(raw)
    assert found == outcome(raw)
    if isinstance(found, Dataflow):
        written = json.loads(raw)
        assert found == outcome(json.dumps(submitted_again(written, found)))


def nodes(value: Any) -> Iterator[Place]:
    """Every place in a value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from nodes(value[key])


@st.composite
def tampered(draw: st.DrawFn) -> dict[str, Any]:
    """A valid document to which a few things happened."""
    value = copy.deepcopy(draw(documents(confined=True, most=5)))
    for task in value["tasks"]:
        if task["type"] not in {"source", "sink"} and draw(st.integers(0, 3)) == 0:
            task |= {"type": "many", "config": {}}
    for _ in range(draw(st.integers(1, 4))):
        if places := list(nodes(value)):
            happen = draw(st.sampled_from([replace, replace, add, delete, double, nest, splice, rename]))
            happen(draw, places, *places[draw(st.integers(0, len(places) - 1))])
    return value


def replace(draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    inside[key] = draw(VALUES)


def add(draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    target = inside[key]
    if isinstance(target, dict):
        target[draw(TEXTS)] = draw(VALUES)
    elif isinstance(target, list):
        target.append(draw(VALUES))


def delete(_draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    del inside[key]


def double(draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    if isinstance(inside, list):
        inside.insert(draw(st.integers(0, len(inside))), copy.deepcopy(inside[key]))


def nest(draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    for _ in range(draw(st.sampled_from([1, 2, 15, 16, 17, 40]))):
        inside[key] = [inside[key]] if draw(st.booleans()) else {"a": inside[key]}


def splice(draw: st.DrawFn, places: list[Place], inside: Any, key: Any) -> None:
    other, place = places[draw(st.integers(0, len(places) - 1))]
    inside[key] = copy.deepcopy(other[place])


def rename(draw: st.DrawFn, _places: list[Place], inside: Any, key: Any) -> None:
    if isinstance(inside, dict):
        inside[draw(TEXTS)] = inside.pop(key)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """The bytes of a document, a few of which are lost, added, changed or repeated."""
    text = json.dumps(draw(documents(confined=True, most=5)), ensure_ascii=draw(st.booleans())).encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        match draw(st.sampled_from(["cut", "insert", "flip", "repeat", "key", "number"])):
            case "cut":
                text = text[:start] + text[end:]
            case "insert":
                text = text[:start] + draw(st.binary(max_size=4)) + text[start:]
            case "flip":
                text = text[:start] + bytes(255 - byte for byte in text[start : start + 1]) + text[start + 1 :]
            case "repeat":
                text = text[:end] + text[start:end] + text[end:]
            case "key":
                text = text.replace(b'"id":', draw(st.sampled_from([b'"id": 0, "id":', b'"config": {}, "id":'])), 1)
            case "number":
                number = draw(st.sampled_from([b"1e999", b"-NaN", b"NaN", b"-0.0", b"9" * 30, b"0x1", b"01", b"1E5"]))
                text = re.sub(rb"\d+", number, text, count=1)
    return text


@given(st.binary())
def test_any_bytes(raw: bytes) -> None:
    """Mostly not UTF-8."""
    holds(raw)


@given(st.text(st.characters(exclude_categories=())) | st.text('{}[]":,\\ue0123456789tfn-+. \n'))
def test_any_text(raw: str) -> None:
    """Mostly not JSON."""
    holds(raw)


@given(VALUES)
def test_any_json_value(value: Any) -> None:
    """Mostly not an object."""
    holds(json.dumps(value))


@given(
    st.fixed_dictionaries(
        {"version": st.just(1), "name": st.just("n")},
        optional={
            "tasks": st.lists(
                st.fixed_dictionaries({}, optional={"id": TEXTS, "type": TEXTS, "config": VALUES, "fresh": SCALARS})
                | VALUES,
                max_size=4,
            ),
            "streams": st.lists(
                st.fixed_dictionaries(
                    {}, optional={"from": TEXTS, "from_port": TEXTS | st.none(), "to": TEXTS, "to_port": SCALARS}
                )
                | VALUES,
                max_size=4,
            ),
            "extra": VALUES,
        },
    )
)
def test_anything_with_the_outline_of_a_document(value: dict[str, Any]) -> None:
    """Mostly not a dataflow."""
    holds(json.dumps(value))


@given(st.dictionaries(st.sampled_from([*ManyConfig.model_fields, "from"]) | TEXTS, VALUES, max_size=5))
def test_any_config(config: dict[str, Any]) -> None:
    """Of a type that has a field of every sort."""
    tasks = [
        {"id": "s", "type": "source", "config": {"source": "weather"}},
        {"id": "m", "type": "many", "config": config},
        {"id": "k", "type": "sink"},
    ]
    streams = [{"from": "s", "to": "m"}, {"from": "m", "to": "k"}]
    holds(json.dumps({"version": 1, "name": "n", "tasks": tasks, "streams": streams}))


@given(tampered())
def test_documents_that_something_happened_to(value: dict[str, Any]) -> None:
    """Mostly almost right."""
    holds(json.dumps(value))


@given(spoilt())
def test_texts_that_something_happened_to(raw: bytes) -> None:
    """Mostly broken in one place."""
    holds(raw)


@given(documents(confined=True))
def test_documents_that_nothing_happened_to(value: dict[str, Any]) -> None:
    """Accepted, as text and as bytes, also when submitted again in canonical form."""
    text = json.dumps(value)
    holds(text)
    assert isinstance(outcome(text), Dataflow)
    assert outcome(text) == outcome(text.encode())


@given(tampered())
def test_problems_are_the_same_in_any_order_of_keys(value: dict[str, Any]) -> None:
    """The problems of a document do not depend on how its objects are written down."""

    def turned(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: turned(item[key]) for key in reversed(item)}
        return [turned(each) for each in item] if isinstance(item, list) else item

    def judged(written: Any) -> Any:
        found = outcome(json.dumps(written))
        return found if isinstance(found, Dataflow) else sorted(found, key=repr)

    assert judged(value) == judged(turned(value))


@st.composite
def tampered_dynamic(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A sound value to which a few things happened."""
    value = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(1, 4))):
        if places := list(nodes(value)):
            inside, key = places[draw(st.integers(0, len(places) - 1))]
            if draw(st.integers(0, 3)):
                happen = draw(st.sampled_from([replace, add, delete, double, nest, splice, rename]))
                happen(draw, places, inside, key)
            else:
                inside[key] = draw(conditions() | conditions().map(lambda each: {"activate": each}))
    return value


def understood(raw: str, read: Callable[[str], Any]) -> Any:
    """What is read of a text; None if it is refused, with problems that are held against it."""
    try:
        return read(raw)
    except InvalidDocument as error:
        refused = error
    assert refused.problems
    value = parsed(raw)
    for problem in refused.problems:
        assert CODE.fullmatch(problem.code)
        assert problem.message.strip()
        assert problem.remedy.strip()
        assert leads_somewhere(value, problem.pointer), problem
    return None


@settings(max_examples=80)
@given(tampered_dynamic(st.just(DOCUMENT) | dynamic_documents()))
def test_dynamic_documents_that_something_happened_to(value: Any) -> None:
    """Mostly almost right. What is understood resolves."""
    found = understood(json.dumps(value), lambda raw: read_dynamic(raw, module=module, canonical=canonical))
    if found is not None:
        assert found.first == choices_in(resolve(found, found.first), found)
        assert flow_of(found).need(found.first) >= 0


@settings(max_examples=30)
@given(tampered_dynamic(st.just(DOCUMENT)))
def test_documents_that_nobody_checks_again(value: Any) -> None:
    """As they are read once they were accepted; without a check of what they resolve to."""
    understood(json.dumps(value), lambda raw: read_dynamic(raw, module=module))


@settings(max_examples=50)
@given(tampered_dynamic(st.just(DOCUMENT["policy"])) | VALUES)
def test_policies_that_something_happened_to(value: Any) -> None:
    """Mostly almost right."""
    dynamic = read_dynamic(json.dumps(DOCUMENT), module=module)
    understood(json.dumps(value), lambda raw: read_policy(raw, dynamic))
