"""The built-in task types, as far as documents are checked against them."""

import json
from typing import Any

import pytest

from dags import (
    Catalogue,
    Config,
    Dataflow,
    InvalidDocument,
    Kind,
    Problem,
    Read,
    Schema,
    Source,
    State,
    TaskType,
    canonicalise,
)
from engine.tasks import TYPES
from tests.notation import document

SOURCES = {
    "city": Source(
        name="city",
        owner="ann",
        schema=Schema.of(
            sensor=Kind.STRING, time=Kind.TIMESTAMP, temperature=Kind.FLOAT, dust=Kind.INTEGER, raw=Kind.JSON
        ),
    )
}


class NeedConfig(Config):
    field: str


def seen(kind: Kind) -> TaskType[NeedConfig]:
    """A sink that takes a field of one kind only, to see what leaves a task."""
    return TaskType(
        name=f"see_{kind}",
        config=NeedConfig,
        outputs=(),
        reads=lambda config: (Read(at="field", field=config.field, kinds=frozenset({kind})),),
    )


CATALOGUE = Catalogue.of([*TYPES, *map(seen, Kind)])


def check(kind: str, config: dict[str, Any], below: str = "output", see: str = "") -> Dataflow:
    """A document in which a task of this type stands between a source and a sink."""
    written = document(f"s:source > t:{kind} > k:{below}")
    written["tasks"][0]["config"] = {"source": "city"}
    written["tasks"][1]["config"] = config
    written["tasks"][2]["config"] = {"field": see} if see else {}
    return canonicalise(json.dumps(written), dataflow="d", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)


def problems_with(
    kind: str, config: dict[str, Any], below: str = "output", see: str = ""
) -> list[tuple[str, str, str, str]]:
    with pytest.raises(InvalidDocument) as refused:
        check(kind, config, below, see)
    return [_fields_of(problem) for problem in refused.value.problems]


def _fields_of(problem: Problem) -> tuple[str, str, str, str]:
    return problem.pointer, problem.code, problem.message, problem.remedy


def leaving(kind: str, config: dict[str, Any]) -> dict[str, str]:
    """The fields of what leaves a task, with their kinds."""
    found = TYPES_BY_NAME[kind]
    outputs = found.output_schema(found.config.model_validate(config, strict=False), {"in": SOURCES["city"].schema})
    return {name: str(value) for name, value in outputs["out"].fields.items()}


TYPES_BY_NAME = {kind.name: kind for kind in TYPES}


def test_the_library_is_sorted() -> None:
    """One description per name, each with a summary."""
    names = [kind.name for kind in TYPES]
    assert sorted(set(names)) == names
    assert [] == [kind.name for kind in TYPES if not kind.summary.endswith(".")]


def test_the_state_of_types() -> None:
    """Averages and counts keep state per key."""
    assert ("sensor",) == TYPES_BY_NAME["count"].key_fields(TYPES_BY_NAME["count"].config(by=("sensor",)))
    average = TYPES_BY_NAME["block_window_average"]
    assert ("a", "b") == average.key_fields(average.config(field="x", by=("a", "b")))
    assert [State.KEY, State.KEY] == [TYPES_BY_NAME["count"].state, average.state]


def test_the_ends() -> None:
    """Sources are named, outputs have no settings."""
    assert ["source"] == [kind.name for kind in TYPES if kind.is_source]
    assert "output" in [kind.name for kind in TYPES if kind.is_sink]
    flow = check("count", {})
    assert ({"source": "city"}, {}) == (flow.tasks[0].config, flow.tasks[2].config)


def test_a_range_filter_passes_events_on() -> None:
    """With all their fields, whatever its effect outside the range."""
    flow = check("range_filter", {"field": "temperature", "min": -5, "max": 40})
    assert {"field": "temperature", "max": 40, "min": -5, "outside": "null"} == flow.tasks[1].config
    assert {name: str(kind) for name, kind in SOURCES["city"].schema.fields.items()} == leaving(
        "range_filter", {"field": "dust", "min": 0, "max": 0, "outside": "drop"}
    )


def test_a_range_has_its_bounds_in_order() -> None:
    """They may be equal."""
    check("range_filter", {"field": "dust", "min": 7.5, "max": 7.5})
    message = "the value is not valid: min 8 is greater than max 7.5"
    remedy = "change it"
    assert [("/tasks/1/config", "wrong-value", message, remedy)] == problems_with(
        "range_filter", {"field": "dust", "min": 8, "max": 7.5}
    )


def test_a_range_filter_drops_or_nulls() -> None:
    """Nothing else is allowed."""
    check("range_filter", {"field": "dust", "min": 0, "max": 1, "outside": "drop"})
    [(place, code, message, _)] = problems_with(
        "range_filter", {"field": "dust", "min": 0, "max": 1, "outside": "keep"}
    )
    assert ("/tasks/1/config/outside", "wrong-value", "the value should be 'drop' or 'null'") == (place, code, message)


def test_a_range_filter_needs_its_bounds_and_field() -> None:
    """None has a default."""
    assert ["/tasks/1/config/field", "/tasks/1/config/max", "/tasks/1/config/min"] == [
        place for place, *_ in problems_with("range_filter", {})
    ]


@pytest.mark.parametrize(("kind", "more"), [("range_filter", {"min": 0, "max": 1}), ("block_window_average", {})])
def test_a_measured_field_has_to_be_a_number(kind: str, more: dict[str, Any]) -> None:
    """A missing field, or one of another kind, is a problem at its place. Integers and floats are allowed."""
    for field in ("temperature", "dust"):
        check(kind, {"field": field, **more})
    place = "/tasks/1/config/field"
    message = "the events that reach port 'in' have no field 'temprature'"
    assert [(place, "unknown-field-upstream", message, "did you mean 'temperature'?")] == problems_with(
        kind, {"field": "temprature", **more}
    )
    for field, what in (("sensor", "string"), ("time", "timestamp"), ("raw", "json")):
        message = f"the field '{field}' is of kind {what} at port 'in'"
        assert [(place, "wrong-kind-upstream", message, "choose a field of kind float or integer")] == problems_with(
            kind, {"field": field, **more}
        )


def test_a_block_window_average_emits_its_keys_and_the_mean() -> None:
    """The mean is always a float, even of integers and if it is a key. Other fields are dropped."""
    flow = check("block_window_average", {"field": "dust", "by": ["sensor"]})
    assert {"by": ["sensor"], "field": "dust", "window": 10} == flow.tasks[1].config
    config = {"field": "dust", "by": ("sensor", "time")}
    assert {"dust": "float", "sensor": "string", "time": "timestamp"} == leaving("block_window_average", config)
    assert {"dust": "float"} == leaving("block_window_average", {"field": "dust"})
    assert {"dust": "float"} == leaving("block_window_average", {"field": "dust", "by": ("dust",)})
    check("block_window_average", {"field": "dust"}, "see_float", "dust")
    assert (
        "unknown-field-upstream"
        == problems_with("block_window_average", {"field": "dust"}, "see_string", "sensor")[0][1]
    )


def test_a_window_has_at_least_one_event() -> None:
    """And a whole number of events."""
    check("block_window_average", {"field": "dust", "window": 1})
    config: dict[str, Any] = {"field": "dust", "window": 0}
    assert [("/tasks/1/config/window", "wrong-value")] == [
        found[:2] for found in problems_with("block_window_average", config)
    ]
    config["window"] = 1.5
    assert [("/tasks/1/config/window", "wrong-type")] == [
        found[:2] for found in problems_with("block_window_average", config)
    ]


@pytest.mark.parametrize(("kind", "more"), [("count", {}), ("block_window_average", {"field": "dust"})])
def test_keys_have_to_be_there_upstream(kind: str, more: dict[str, Any]) -> None:
    """Each missing key is a problem at its place, once. Keys may be of any kind."""
    check(kind, {"by": ["sensor", "time", "temperature", "dust", "raw"], **more})
    assert [("/tasks/1/config/by/1", "unknown-field-upstream"), ("/tasks/1/config/by/2", "unknown-field-upstream")] == [
        found[:2] for found in problems_with(kind, {"by": ["sensor", "x", "y"], **more})
    ]


def test_a_count_emits_its_keys_and_the_count() -> None:
    """An integer, even if a key has its name."""
    assert {"by": []} == check("count", {}).tasks[1].config
    assert {"count": "integer"} == leaving("count", {})
    assert {"count": "integer", "sensor": "string"} == leaving("count", {"by": ("sensor",)})
    check("count", {"by": ["sensor"]}, "see_integer", "count")


def test_pi_is_computed_anew_for_every_event() -> None:
    """Other fields are dropped. At least one iteration is needed."""
    assert {"iterations": 1_600} == check("pi_viete", {}).tasks[1].config
    assert {"pi": "float"} == leaving("pi_viete", {})
    check("pi_viete", {"iterations": 1})
    assert [("/tasks/1/config/iterations", "wrong-value")] == [
        found[:2] for found in problems_with("pi_viete", {"iterations": 0})
    ]
