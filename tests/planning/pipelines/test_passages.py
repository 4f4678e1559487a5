"""Passages: what planning knows of a task's fields is what its type says of whole schemas."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.task_configs import CONFIGS, EVENT_FIELDS
from dags import AnyTaskType, Config, Kind, Schema
from engine import installed_catalogue
from planning.pipelines.passages import Passage, passages_of_type
from tests.catalogue import TYPES

CATALOGUE = installed_catalogue()
KINDS = st.sampled_from(Kind)


def configured(kind: AnyTaskType, config: object) -> tuple[AnyTaskType, Config]:
    """A type with the ports that its config gives it, and the config."""
    made: Config = kind.config.model_validate_json(json.dumps(config))
    return kind.of(made), made


def installed() -> list[tuple[str, AnyTaskType, Config]]:
    """Every installed type with a config, and those of the tests that need none."""
    found = [(name, CATALOGUE.find(name), config) for name, config in CONFIGS.items()]
    plain: list[tuple[str, AnyTaskType, object]] = [
        (each.name, each, {}) for each in TYPES if each.name not in {"source", "fetch", "clock", "connecting_code"}
    ]
    return [
        (name, *configured(kind, _unowned(config))) for name, kind, config in [*found, *plain] if kind and kind.inputs
    ]


def _unowned(config: object) -> object:
    """Without owners of places and secrets, which only plans of jobs name."""
    if isinstance(config, dict):
        named = config.keys() & {"place", "secret"}
        return {key: _unowned(each) for key, each in config.items() if not (named and key == "owner")}
    return config


@pytest.mark.parametrize(
    ("kind", "config"), [pytest.param(kind, config, id=name) for name, kind, config in installed()]
)
@settings(max_examples=10)
@given(data=st.data())
def test_fields_leave_as_predicted(kind: AnyTaskType, config: Config, data: st.DataObject) -> None:
    """Whatever fields of whatever kinds enter: if a case takes them, those leave that the type says."""
    cases = passages_of_type(kind, config, kind.inputs)
    if kind.is_sink:
        assert all(not case.leaves for case in cases)
        return
    case = data.draw(st.sampled_from(cases))
    entering = {port: _drawn(data, case, port) for port in kind.inputs}
    expected = kind.output_schema(config, entering)
    for port, leaving in case.leaves.items():
        rest = entering[leaving.rest].fields if leaving.rest else {}
        base = entering[leaving.rest or kind.inputs[0]].fields
        predicted = {name: each for name, each in rest.items() if name not in leaving.drops}
        predicted |= {name: base[name] for name in leaving.keeps} | dict(leaving.sets)
        assert predicted == dict(expected[port].fields)


def _drawn(data: st.DataObject, case: Passage, port: str) -> Schema:
    """A schema that a case takes: what it needs, and anything else."""
    needs = case.needs.get(port, {})
    known = case.fields() | set(EVENT_FIELDS)
    others = data.draw(
        st.dictionaries(st.text("uvw", min_size=1, max_size=3).filter(lambda name: name not in known), KINDS)
    )
    needed = {name: data.draw(st.sampled_from(sorted(kinds))) for name, kinds in needs.items()}
    return Schema.of({**others, **needed})
