"""Expressions, projections and computation for measurements, checked against their definitions."""

import json
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Catalogue, Dataflow, InvalidDocument, Kind, Schema, Source
from dags.canonical import canonicalise
from dags.task_type import MOST_PORTS
from engine.catalogue import installed_catalogue
from engine.implementations.compute import noop, opmw, opmw_join, pi_viete
from engine.implementations.projection import project, unnest, where
from engine.plan import Slot
from engine.tasks import TYPES
from engine.tasks.expressions import Node, read, written
from engine.tasks.filters import WHERE, WhereConfig
from engine.tasks.projection import PROJECT, ProjectConfig
from engine.trial import At, Parked, Trial, try_out
from tests.notation import document
from tests.tasks.agreeing import agrees, few
from tests.tasks.expressions import EVENTS, FIELDS, NUMBERS, SCHEMA, TEXTS, TRUTHS, computed, names_of


@few
@given(expression=TRUTHS, events=EVENTS)
def test_true_events_pass(expression: Node, events: list[dict[str, Any]]) -> None:
    """False and null ones do not. The expression survives being written and read."""
    text = written(expression)
    again = read(text)
    assert again == read(written(again))

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            if computed(expression, event) is True:
                yield "out", event

    poisonous = [{"a": math.inf}] if any(name == "a" for name in names_of(again)) else []
    agrees(where, {"expression": text}, events, reference, SCHEMA, poisonous=poisonous, exact=True)


@few
@given(expression=TRUTHS)
def test_an_expression_is_parsed_once(expression: Node) -> None:
    """The canonical config keeps what its own text was parsed to, and its canonical text is parsed to the same."""
    sent = WhereConfig(expression=written(expression))
    assert WHERE.normalise is not None
    canonical = WHERE.normalise(sent)
    assert canonical.parsed is sent.parsed
    assert WhereConfig(expression=canonical.expression) == canonical
    assert read(canonical.expression) == canonical.parsed


def refused(expression: str) -> tuple[str, str, str, str]:
    """The one problem of a document with this expression."""
    form = document("s:source > t:where > k:output")
    form["tasks"][0]["config"] = {"source": "city"}
    form["tasks"][1]["config"] = {"expression": expression}
    sources = {"city": Source(name="city", owner="ann", schema=SCHEMA)}
    with pytest.raises(InvalidDocument) as found:
        canonicalise(json.dumps(form), dataflow="d", tenant="ann", catalogue=Catalogue.of(TYPES), sources=sources)
    (problem,) = found.value.problems
    return problem.pointer, problem.code, problem.message, problem.remedy


@pytest.mark.parametrize(
    ("expression", "code", "message", "remedy"),
    [
        ("c > 1", "unknown-field-upstream", "have no field 'c'", "they have"),
        (
            'a > "is"',
            "wrong-kind-upstream",
            "'>' cannot compare a of kind float and \"is\" of kind string",
            "the same kind",
        ),
        ("a + b", "wrong-kind-upstream", "the expression is of kind float", "make it true or false"),
        ("not a", "wrong-kind-upstream", "a is of kind float, which 'not' cannot take", "an operand of kind boolean"),
        ("f < true", "wrong-kind-upstream", "'<' cannot compare f of kind boolean", "the same kind"),
        ("j = 'x'", "wrong-kind-upstream", "'=' cannot compare j of kind json", "the same kind"),
        ("-f = 1", "wrong-kind-upstream", "f is of kind boolean, which 'minus' cannot take", "float or integer"),
        ("\"at noon\" > 'noon'", "wrong-kind-upstream", "'noon' is not a time", "ISO 8601"),
        ("a in (1, 'x')", "wrong-kind-upstream", "'in' cannot compare a of kind float", "the same kind"),
    ],
)
def test_an_expression_that_does_not_suit_its_events_is_refused(
    expression: str, code: str, message: str, remedy: str
) -> None:
    """When it is submitted, at its place, with a remedy."""
    place, found, reported, advice = refused(expression)
    assert ("/tasks/1/config/expression", code) == (place, found)
    assert message in reported
    assert remedy in advice


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "the expression ends too early"),
        ("a >", "the expression ends too early"),
        ("a >> 1", "the expression has an error at character 4: '> 1'"),
        ("a = 'x", "the expression has an error at character 5"),
        ("a = 1 and or f", "the expression has an error at character 11"),
        ("a in (b)", "the list after 'in' may contain only"),
        ("a > 1e999", "the number 1e999 is too large"),
        ("b > 9223372036854775808", "the number 9223372036854775808 is too large"),
        ("not " * 60 + "f", "the expression has more than 500 parts"),
        ("not " * 5_000 + "f", "the expression has more than 500 parts"),
        (" and ".join(["f"] * 600), "the expression has more than 500 parts"),
        ("__import__('os')", "the expression has an error at character 11"),
    ],
)
def test_a_text_that_is_not_an_expression_is_refused(expression: str, message: str) -> None:
    """With the place of the error."""
    place, code, reported, _ = refused(expression)
    assert ("/tasks/1/config", "wrong-value") == (place, code)
    assert message in reported


def test_expressions_that_read_as_the_same_are_shared() -> None:
    """With any spaces, and words in any case."""
    found = {
        written(read(text))
        for text in ("a>1 AND (b <> 2 and f)", "((a > 1)) and b != 2 And f", "a > 1 and b != 2 and f")
    }
    assert {"(a > 1) and (b != 2) and f"} == found


def test_integers_that_grow_too_large_park_their_event() -> None:
    """The reason contains the values."""
    events = [{"b": 2**62}]
    with pytest.raises(Parked, match=r"the expression cannot be computed for \{'b': 4611686018427387904\}: overflow"):
        try_out(where, {"expression": "b * 4 > 0"}, events)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 1 or " * 400_000 + "a = 1",
        "(" * 40_000 + "a = 1" + ")" * 40_000,
        "a in (" + ", ".join(["1"] * 10_000) + ")",
        "not " * 60 + "a = 1",
        "a = '" + "x" * 60_000 + "'",
    ],
)
def test_expressions_have_bounds(expression: str) -> None:
    """In characters, parts and levels; so none takes long to read, or for an event. There are no patterns in them."""
    with pytest.raises(ValueError, match="simplify it"):
        read(expression)


KINDS = st.sampled_from(
    [(Kind.FLOAT, st.floats(-5, 5)), (Kind.STRING, st.text(max_size=3)), (Kind.BOOLEAN, st.booleans())]
)
LISTS = Schema.of(line=Kind.INTEGER, items=Kind.JSON)


@few
@given(
    keep=st.sets(st.sampled_from(sorted(FIELDS)), max_size=3),
    expressions=st.lists(NUMBERS | TEXTS | TRUTHS, min_size=1, max_size=3),
    events=EVENTS,
)
def test_computed_fields_join_those_that_are_kept(
    keep: set[str], expressions: list[Node], events: list[dict[str, Any]]
) -> None:
    """Each is what the expression is for the event, and no other field leaves."""
    parts = {f"new {at}": each for at, each in enumerate(expressions)}
    values = [computed(each, event) for each in parts.values() for event in events]
    assume(all(math.isfinite(each) and abs(each) < 2**63 for each in values if isinstance(each, int | float)))

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            kept = {name: event[name] for name in keep}
            yield "out", {**kept, **{name: computed(each, event) for name, each in parts.items()}}

    config = {"fields": sorted(keep), "computed": {name: written(each) for name, each in parts.items()}}
    needs = any("a" in names_of(each) for each in expressions)
    agrees(project, config, events, reference, SCHEMA, poisonous=[{"a": math.inf}] if needs else [], exact=True)


@few
@given(expressions=st.lists(NUMBERS | TEXTS | TRUTHS, min_size=1, max_size=3))
def test_expressions_of_fields_are_parsed_once(expressions: list[Node]) -> None:
    """The canonical config keeps what its own texts were parsed to, and its canonical texts are parsed to the same."""
    sent = ProjectConfig(computed={f"new {at}": written(each) for at, each in enumerate(expressions)})
    assert PROJECT.normalise is not None
    canonical = PROJECT.normalise(sent)
    assert canonical.parsed is sent.parsed
    assert ProjectConfig(fields=canonical.fields, computed=canonical.computed) == canonical
    assert {name: read(text) for name, text in canonical.computed.items()} == canonical.parsed


def checked(kind: str, config: dict[str, Any]) -> Dataflow:
    """A document in which a task of this type stands between a source and a sink."""
    form = document(f"s:source > t:{kind} > k:output")
    form["tasks"][0]["config"] = {"source": "city"}
    form["tasks"][1]["config"] = config
    sources = {"city": Source(name="city", owner="ann", schema=SCHEMA)}
    return canonicalise(json.dumps(form), dataflow="d", tenant="ann", catalogue=Catalogue.of(TYPES), sources=sources)


@pytest.mark.parametrize(
    ("config", "place", "message"),
    [
        ({}, "", "its events would have no fields; keep or compute some"),
        ({"fields": ["a"], "computed": {"a": "b"}}, "", "the field 'a' is both kept and computed; choose one"),
        ({"computed": {"x": "c + 1"}}, "/computed/x", "the events that reach port 'in' have no field 'c'"),
        ({"computed": {"x": "f + 1"}}, "/computed/x", "f is of kind boolean, which '+' cannot take"),
        ({"fields": ["z"]}, "/fields/0", "the events that reach port 'in' have no field 'z'"),
    ],
)
def test_a_projection_that_fits_nothing_is_refused(config: dict[str, Any], place: str, message: str) -> None:
    """At the field or expression that is at fault."""
    with pytest.raises(InvalidDocument) as refused:
        checked("project", config)
    (problem,) = refused.value.problems
    assert ("/tasks/1/config" + place, True) == (problem.pointer, problem.message.endswith(message))


def test_projections_that_mean_the_same_are_one() -> None:
    """Whatever the order of fields, and the spaces and brackets of expressions."""
    one = checked("project", {"fields": ["a", "b"], "computed": {"more": "a+1 >2"}})
    other = checked("project", {"fields": ["b", "a", "b"], "computed": {"more": "((a + 1) > 2)"}})
    assert one.tasks == other.tasks


def test_a_result_that_is_no_number_is_parked() -> None:
    """Beyond the largest float, and beyond the largest integer."""
    with pytest.raises(Parked, match="the field 'x' is inf"):
        try_out(project, {"computed": {"x": "a * 1e300"}}, [{"a": 1e300}])
    with pytest.raises(Parked, match="the field 'x' cannot be computed"):
        try_out(project, {"computed": {"x": "a * 1000"}}, [{"a": 2**62}])


@few
@given(kind=KINDS, data=st.data())
def test_lists_are_taken_apart(kind: tuple[Kind, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    """An event for each item, in order, with what is kept; what is no list of the kind is parked alone."""
    name, items = kind
    drawn = data.draw(st.lists(st.lists(st.none() | items, max_size=4), max_size=6))
    events = [{"line": at, "items": each} for at, each in enumerate(drawn)]

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            yield from (("out", {"line": event["line"], "items": item}) for item in event["items"])

    config = {"field": "items", "kind": name.value, "keep": ["line"]}
    poisonous: list[dict[str, Any]] = [
        {"line": 1},
        {"line": 1, "items": {"no": "list"}},
        {"line": 1, "items": [["nested"]]},
    ]
    agrees(unnest, config, events, reference, LISTS, poisonous=poisonous, exact=True)


@few
@given(values=st.lists(st.none() | st.integers(-9, 9), min_size=3, max_size=12), window=st.integers(1, 3))
def test_taking_apart_reverses_putting_together(values: list[int | None], window: int) -> None:
    """What `accumulate` collected leaves `unnest` as it came, but for a window that is not full."""
    events = [{"v": value} for value in values]
    schema = Schema.of(v=Kind.INTEGER)
    collected = try_out("accumulate", {"fields": ["v"], "window": window}, events, schema)["out"]
    found = try_out(unnest, {"field": "v", "kind": "integer"}, collected, Schema.of(v=Kind.JSON))["out"]
    assert events[: len(values) // window * window] == found


MEASUREMENTS = st.lists(st.fixed_dictionaries({"a": st.none() | st.floats(allow_nan=False)}), max_size=12)


def viete(events: Iterator[Any], iterations: int) -> Iterator[At]:
    """The product as the benchmark has it: each factor nested anew, the deepest first."""
    for _ in events:
        pi = 1.0
        for factor in range(iterations, 1, -1):
            root = 2.0
            for _ in range(1, factor):
                root = 2 + math.sqrt(root)
            pi = pi * math.sqrt(root) / 2
        yield "out", {"pi": 2 / (pi * math.sqrt(2) / 2)}


@few
@given(events=MEASUREMENTS, iterations=st.integers(1, 30))
def test_pi_is_the_product_of_nested_roots(events: list[dict[str, Any]], iterations: int) -> None:
    """To the last bit, for any number of events at once."""
    agrees(pi_viete, {"iterations": iterations}, events, lambda seen: viete(seen, iterations), exact=True)


def test_with_the_steps_of_the_benchmark_it_is_pi() -> None:
    """Within the rounding of its factors. Many events at once give the same as one."""
    (one,) = try_out(pi_viete, {}, [{"a": 1}])["out"]
    assert math.isclose(math.pi, one["pi"], rel_tol=1e-12)
    assert [{"pi": 2.0 / (math.sqrt(2.0) / 2.0)}] * 5_000 == try_out(pi_viete, {"iterations": 1}, [{"a": 1}] * 5_000)[
        "out"
    ]


@few
@given(events=MEASUREMENTS)
def test_a_noop_passes_everything_on(events: list[dict[str, Any]]) -> None:
    """Including nulls and infinities."""
    agrees(noop, {}, events, lambda seen: (("out", event) for event in seen), exact=True)


def test_a_step_of_any_name_computes_pi() -> None:
    """With parameters of any name, whose values affect sharing. A step needs a name."""
    catalogue = installed_catalogue()
    found = catalogue.find("opmw:Stemmer")
    assert found is not None
    config = found.config.model_validate({"language": "en", "iterations": 3})
    assert {"iterations": 3, "language": "en"} == config.model_dump()
    assert {"pi": Kind.FLOAT} == dict(found.output_schema(config, {})["out"].fields)
    assert catalogue.find("opmw:") is None
    assert try_out(pi_viete, {"iterations": 3}, [{}, {}]) == try_out(
        opmw, {"iterations": 3, "language": "en"}, [{}, {}]
    )


def sets(events: Iterator[At], ports: int, iterations: int) -> Iterator[At]:
    """Each complete set as it becomes so: one event of each port, taken in the order in which they came there."""
    waiting: dict[str, deque[Any]] = {f"in{number + 1}": deque() for number in range(ports)}
    for port, event in events:
        waiting[port].append(event)
        if all(waiting.values()):
            yield from viete(iter([[each.popleft() for each in waiting.values()]]), iterations)


@few
@given(data=st.data(), ports=st.integers(2, 4), iterations=st.integers(1, 5))
def test_a_joining_step_fires_once_per_complete_set(data: st.DataObject, ports: int, iterations: int) -> None:
    """At the event that completes it, even if many events of one input come first."""
    port = st.integers(1, ports).map("in{}".format)
    events = data.draw(
        st.lists(st.tuples(port, st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)})), max_size=24)
    )
    agrees(
        opmw_join,
        {"inputs": ports, "iterations": iterations},
        events,
        lambda seen: sets(seen, ports, iterations),
        {f"in{number + 1}": Schema.of(a=Kind.INTEGER) for number in range(ports)},
        exact=True,
    )


@given(st.lists(st.sampled_from(["in1", "in2", "in3"]), max_size=30), st.randoms())
def test_a_joining_step_gives_the_same_however_its_inputs_interleave(came: list[str], random: Any) -> None:
    """As many events as the shortest input has, and the same state."""
    mixed = random.sample(came, len(came))
    found = []
    for ports in (came, mixed):
        schemas = dict.fromkeys(("in1", "in2", "in3"), Schema.of(a=Kind.INTEGER))
        trial = Trial(opmw_join, {"inputs": 3, "iterations": 1}, schemas)
        emitted = trial.take([(port, {"a": 1}) for port in ports]).emitted
        found.append((sum(len(stream.rows) for stream in emitted.values()), trial.state.changes()))
    assert found[0] == found[1]
    assert min(map(came.count, ("in1", "in2", "in3"))) == found[0][0]


def test_the_config_of_a_joining_step_sets_its_inputs() -> None:
    """Each has its own port. One input is refused, and a type needs a name."""
    catalogue = installed_catalogue()
    found = catalogue.find("opmw-join:Merge")
    assert found is not None
    config = found.config.model_validate({"inputs": 3, "language": "en"})
    assert ("in1", "in2", "in3") == found.of(config).inputs
    for inputs in ({"inputs": 1}, {"inputs": MOST_PORTS + 1}, {}):
        with pytest.raises(ValidationError):
            found.config.model_validate(inputs)
    assert catalogue.find("opmw-join:") is None


@pytest.mark.parametrize("type_", ["opmw:Stemmer", "opmw:a b", "noop", "pi_viete"])
def test_its_implementation_is_found_by_name(type_: str) -> None:
    """One entry point implements a namespace, whose steps run under their own names."""
    slot = Slot(instance=1, type=type_, version=2 if type_ == "pi_viete" else 1, config="{}", inputs=())
    assert slot.type == type_
    assert len(try_out(type_, {"iterations": 2} if type_ != "noop" else {}, [{"a": 1}])["out"]) == 1
