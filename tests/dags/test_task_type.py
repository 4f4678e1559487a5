"""Task types, and the combinations that they refuse."""

from typing import Any

import pytest

from dags import Config, Effect, Emission, NamesSource, Read, Schema, Secret, State, TaskType, passes_on
from dags.task_type import no_keys, reads_nothing
from tests.catalogue import SCHEMA, NoConfig


def test_a_type_is_a_simple_filter_by_default() -> None:
    """One port on each side, no state, no reads, no effect."""
    kind = TaskType(name="t", config=NoConfig)
    assert (1, ("in",), ("out",)) == (kind.version, kind.inputs, kind.outputs)
    assert (State.NONE, Effect.NONE, Emission.AT_MOST_ONE) == (kind.state, kind.effect, kind.emission)
    assert (True, None, frozenset(), None) == (kind.deterministic, kind.unique_by, kind.tags, kind.normalise)
    assert {"out": SCHEMA} == kind.output_schema(NoConfig(), {"in": SCHEMA})
    assert ((), ()) == (kind.reads(NoConfig()), kind.key_fields(NoConfig()))


def test_the_defaults_of_hooks_are_public() -> None:
    """A type may name them."""
    assert {"out": Schema.of()} == passes_on(NoConfig(), {"in": Schema.of()})
    assert ((), ()) == (reads_nothing(NoConfig()), no_keys(NoConfig()))


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ({"inputs": (), "outputs": ()}, "task type 't' has no ports; give it inputs or outputs"),
        ({"inputs": ("a", "a")}, "task type 't' names a port twice; give each port on a side its own name"),
        ({"outputs": ("a", "b", "a")}, "task type 't' names a port twice; give each port on a side its own name"),
        ({"version": 0}, "task type 't' has version 0; versions start at 1"),
        ({"version": -3}, "task type 't' has version -3; versions start at 1"),
    ],
)
def test_a_type_that_contradicts_itself_is_refused(ports: dict[str, Any], message: str) -> None:
    """With a remedy."""
    with pytest.raises(ValueError, match=r"(task|source) type 't'") as refused:
        TaskType(name="t", config=NoConfig, **ports)
    assert message == str(refused.value)


def test_types_that_do_not_contradict_themselves_are_made() -> None:
    """The same port name on both sides, the first version, and a source that names a source."""
    kind = TaskType(
        name="t", config=NoConfig, inputs=("a",), outputs=("a",), version=1, output_schema=lambda _, i: {"a": i["a"]}
    )
    assert (False, False) == (kind.is_source, kind.is_sink)
    source = TaskType(name="s", config=NamesSource, inputs=())
    assert (True, False) == (source.is_source, source.is_sink)
    sink = TaskType(name="k", config=NoConfig, outputs=())
    assert (False, True) == (sink.is_source, sink.is_sink)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("effect", list(Effect))
def test_only_deterministic_types_without_effect_are_shareable(*, deterministic: bool, effect: Effect) -> None:
    """Both conditions are needed."""
    kind = TaskType(name="t", config=NoConfig, deterministic=deterministic, effect=effect)
    assert (deterministic and effect is Effect.NONE) == kind.shareable


def test_a_type_is_frozen_and_known_by_name() -> None:
    """It cannot be changed, and its parts are given by name."""
    kind = TaskType(name="t", config=NoConfig)
    with pytest.raises(AttributeError):
        kind.version = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        TaskType("t", config=NoConfig)  # type: ignore[call-arg]


def test_a_type_gathers_as_many_events_as_its_config_says() -> None:
    """A field that its config does not have is refused by name."""
    with pytest.raises(ValueError, match="config field 'size' says, but its config has no such field"):
        TaskType(name="t", config=NoConfig, gathers="size")


def test_a_type_without_state_cannot_emit_once() -> None:
    """It would not know that it has."""
    with pytest.raises(ValueError, match=r"'t' says that it emits once by some fields, but has no state .* declare"):
        TaskType(name="t", config=NoConfig, unique_by=lambda _config: ("id",))


def test_a_read_takes_any_kind_at_the_default_port() -> None:
    """By default."""
    read = Read(at="field", field="x")
    assert (6, "in") == (len(read.kinds), read.port)


def test_a_secret_has_an_owner_only_if_one_is_given() -> None:
    """Without one, it is as in the document."""

    class LoginConfig(Config):
        password: Secret

    login = LoginConfig(password=Secret(secret="x"))  # noqa: S106 - the name of a secret is none
    assert {"password": {"secret": "x"}} == login.model_dump()
    assert {"password": {"secret": "x", "owner": "ann"}} == login.model_dump(context={"owner": "ann"})
    assert '{"password":{"secret":"x","owner":"ann"}}' == login.model_dump_json(context={"owner": "ann"})


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (State, ["none", "key", "stream"]),
        (Effect, ["none", "reads outside", "writes outside"]),
        (Emission, ["at most one", "one per port", "many"]),
    ],
)
def test_words_for_behaviour_are_stable(enum: Any, values: list[str]) -> None:
    """They are written to files and read by programs."""
    assert values == list(enum)
