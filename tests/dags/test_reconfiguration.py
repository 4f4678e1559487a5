"""The fate of a state in a reconfiguration: by its types, their configs, and the events that reach it."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from pydantic import ConfigDict

from dags import (
    ANY,
    Config,
    Continuation,
    FieldFates,
    Key,
    Kind,
    Place,
    Read,
    Resized,
    Schema,
    State,
    StateFate,
    Task,
    TaskType,
    fate,
    fits,
)

KEPT, TRANSFORMED, FRESH = StateFate.KEPT, StateFate.TRANSFORMED, StateFate.FRESH


class SizedConfig(Config):
    model_config = ConfigDict(extra="allow")

    size: int = 5
    fields: tuple[str, ...] = ("a",)
    noise: float = 0.5
    sketch: int = 16
    by: str = "room"


RESIZED = Resized(grown=KEPT, shrunk=TRANSFORMED)
BY_FIELD = FieldFates(size=RESIZED, fields=RESIZED, noise=KEPT, sketch=FRESH)
SIZED = TaskType(name="sized", version=3, config=SizedConfig, state=State.STREAM, state_change=BY_FIELD)
PLAIN = replace(SIZED, state=State.NONE)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, KEPT),
        ({"noise": 0.1}, KEPT),
        ({"size": 6}, KEPT),
        ({"size": 4}, TRANSFORMED),
        ({"fields": ("b", "a")}, KEPT),
        ({"fields": ("b",)}, TRANSFORMED),
        ({"sketch": 32}, FRESH),
        ({"by": "roof"}, None),
        ({"more": 1}, None),
        ({"noise": 0.1, "size": 4}, TRANSFORMED),
        ({"size": 4, "sketch": 32}, FRESH),
        ({"sketch": 32, "by": "roof"}, None),
    ],
)
def test_the_least_favourable_fate_of_the_changed_fields_counts(
    changed: dict[str, Any], expected: StateFate | None
) -> None:
    """A field without a fate makes the whole change undeclared."""
    assert expected is BY_FIELD(SizedConfig(), SizedConfig(**changed))


def test_all_other_fields_may_have_a_fate_in_common() -> None:
    """It does not apply to a field that is named."""
    fates = FieldFates(KEPT, by=None)
    assert KEPT is fates(SizedConfig(), SizedConfig(more=1, size=9))
    assert fates(SizedConfig(), SizedConfig(by="roof")) is None


def test_fates_know_whether_they_can_transform() -> None:
    """For a field of its own, one that is resized, and all others."""
    assert (True, True, True) == (
        BY_FIELD.transforms,
        FieldFates(by=TRANSFORMED).transforms,
        FieldFates(TRANSFORMED).transforms,
    )
    assert not FieldFates(FRESH, by=KEPT, size=Resized(grown=None, shrunk=KEPT)).transforms


def test_a_type_declares_nothing_by_default() -> None:
    """So a changed config is undeclared, and the same config keeps the state."""
    kind = TaskType(name="t", config=SizedConfig, state=State.KEY)
    assert fate(kind, {"size": 5}, kind, {"size": 6}) is None
    assert KEPT is fate(kind, {"size": 5}, kind, {"size": 5})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (PLAIN, PLAIN, KEPT),
        (SIZED, PLAIN, FRESH),
        (PLAIN, replace(PLAIN, name="other"), KEPT),
        (SIZED, replace(PLAIN, name="other"), FRESH),
        (PLAIN, replace(SIZED, name="other"), None),
        (SIZED, replace(SIZED, name="other"), None),
        (replace(SIZED, version=2), SIZED, None),
        (replace(SIZED, version=2), replace(SIZED, keeps_state_of=frozenset({1})), None),
        (replace(SIZED, version=2), replace(SIZED, keeps_state_of=frozenset({2})), TRANSFORMED),
    ],
)
def test_types_decide_before_configs(old: TaskType[Any], new: TaskType[Any], expected: StateFate | None) -> None:
    """State is never read by another type, or by a version that does not know it."""
    assert expected is fate(old, {"size": 5}, new, {"size": 4})


OTHER = replace(SIZED, name="other", version=2)


@pytest.mark.parametrize(
    ("continuation", "size", "expected"),
    [
        (Continuation("other", versions=frozenset({2})), 4, TRANSFORMED),
        (Continuation("other", same=("by",), versions=frozenset({1, 2})), 4, TRANSFORMED),
        (Continuation("other", same=("size",), versions=frozenset({2})), 4, None),
        (Continuation("other", same=("size",), versions=frozenset({2})), 5, TRANSFORMED),
        (Continuation("other"), 4, None),
        (Continuation("another"), 4, None),
    ],
)
def test_a_type_goes_on_from_another_ones_state_if_it_says_so(
    continuation: Continuation, size: int, expected: StateFate | None
) -> None:
    """For the versions that it knows, and where the fields that it names are the same."""
    new = replace(SIZED, continues=(continuation,))
    assert expected is fate(OTHER, {"size": 5}, new, {"size": size})


def test_a_state_is_continued_only_by_the_same_key() -> None:
    """A state per key means nothing under another key, or for a whole stream."""
    old = replace(OTHER, state=State.KEY, key_fields=lambda config: (config.by,))
    new = replace(old, name="sized", continues=(Continuation("other", versions=frozenset({2})),))
    assert TRANSFORMED is fate(old, {"by": "room"}, new, {"by": "room", "size": 9})
    assert fate(old, {"by": "room"}, new, {"by": "roof"}) is None
    assert fate(old, {"by": "room"}, replace(new, state=State.STREAM), {"by": "room"}) is None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ((Continuation("sized"),), "itself or named twice"),
        ((Continuation("other"), Continuation("other", same=("by",))), "itself or named twice"),
        ((Continuation("other", same=("missing",)),), "its config has no such field"),
    ],
)
def test_continuations_that_cannot_be_meant_are_refused(wrong: tuple[Continuation, ...], why: str) -> None:
    """When the type is made, with what to do."""
    with pytest.raises(ValueError, match=why):
        replace(SIZED, continues=wrong)


def test_an_equal_config_of_a_known_version_is_asked_for_too() -> None:
    """The type may transform the state of its earlier version."""
    new = replace(SIZED, keeps_state_of=frozenset({2}), state_change=lambda _old, _new: TRANSFORMED)
    assert TRANSFORMED is fate(replace(SIZED, version=2), {"size": 5}, new, {"size": 5})


class LabelledConfig(SizedConfig):
    to: Place


@pytest.mark.parametrize(
    ("size", "place", "owner", "expected"),
    [(5, "a", "ann", KEPT), (4, "a", "ann", TRANSFORMED), (4, "b", "ann", None), (4, "a", "bob", None)],
)
def test_places_and_secrets_are_compared_with_their_owners(
    size: int, place: str, owner: str, expected: StateFate | None
) -> None:
    """As canonical configs name them."""
    kind = replace(SIZED, config=LabelledConfig)
    old, new = (
        {"size": 5, "to": {"place": "a", "owner": "ann"}},
        {"size": size, "to": {"place": place, "owner": owner}},
    )
    assert expected is fate(kind, old, kind, new)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_type_keeps_the_state_of_earlier_versions_only(version: int) -> None:
    """Its own state is kept anyway."""
    with pytest.raises(ValueError, match=f"keeps the state of version {version}, which is not before its version 3"):
        replace(SIZED, keeps_state_of=frozenset({version}))


def test_every_pair_of_fates_has_a_least_favourable_one() -> None:
    """Undeclared, then fresh, then transformed, then kept, whatever the order of fields."""
    order = (None, FRESH, TRANSFORMED, KEPT)
    for first, second in product(order, repeat=2):
        found = FieldFates(size=first, by=second)(SizedConfig(), SizedConfig(size=9, by="roof"))
        assert found is order[min(order.index(first), order.index(second))]


READER = replace(
    SIZED,
    reads=lambda config: tuple(Read(at="fields", field=name, kinds=ANY) for name in config.fields),
    state=State.KEY,
    key_fields=lambda config: (config.by,),
)
ROOMS = Schema.of(room=Kind.STRING, a=Kind.FLOAT, more=Kind.STRING)


def reading(kind: TaskType[Any], schema: Schema, fields: str = '["a"]') -> Task:
    text = f'["s","sized",3,{{"fields":{fields}}},[]]'.encode()
    return Task(key=Key(b"", None), text=text, type=kind, inputs=(), schemas={"in": schema})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (ROOMS, True),
        (ROOMS.without("more"), True),
        (ROOMS.plus("more", Kind.FLOAT), True),
        (ROOMS.plus("a", Kind.INTEGER), False),
        (ROOMS.plus("room", Kind.INTEGER), False),
    ],
)
def test_state_goes_with_events_whose_read_fields_are_as_before(schema: Schema, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    """Other fields may come, go or change; keys count as read."""
    assert expected is fits(reading(READER, ROOMS), reading(READER, schema))


@pytest.mark.parametrize("kind", [replace(READER, keeps_events=True), TaskType(name="u", config=SizedConfig)])
def test_state_that_holds_events_or_of_which_nothing_is_known_needs_the_same_schema(kind: TaskType[Any]) -> None:
    """A task without state takes any."""
    kind = replace(kind, state=State.STREAM)
    assert fits(reading(kind, ROOMS), reading(kind, ROOMS))
    assert not fits(reading(kind, ROOMS), reading(kind, ROOMS.without("more")))
    stateless = replace(kind, state=State.NONE)
    assert fits(reading(stateless, ROOMS), reading(stateless, ROOMS.without("more")))


def test_a_field_that_only_the_new_config_reads_is_the_config_s_affair() -> None:
    """Its fate is declared for the change of the config."""
    assert fits(reading(READER, ROOMS.without("a"), fields='["more"]'), reading(READER, ROOMS, fields='["more","a"]'))


def test_a_port_that_no_stream_enters_any_more_is_not_compared() -> None:
    """What was read there is gone, or is new, and the events at other ports are as before."""
    kind = replace(
        READER,
        inputs=("in", "side"),
        optional=frozenset({"side"}),
        reads=lambda _: (Read(at="", field="a"), Read(at="", field="a", port="side")),
    )
    one = reading(kind, ROOMS)
    both = replace(one, schemas={"in": ROOMS, "side": ROOMS})
    assert [True, True, True] == [fits(one, both), fits(both, one), fits(both, both)]
    assert not fits(both, replace(both, schemas={"in": ROOMS, "side": ROOMS.without("a")}))
