"""Canonical dataflows: equal and different signatures, the order of tasks, and secrets."""

import json
import random
from hashlib import sha256
from typing import Any

import pytest
from pydantic import Field

from dags import Config, Dataflow, Input, Namespace, NamesSource, Secret, TaskType, config_in
from dags.canonical import SCHEME, signatures
from tests.catalogue import CATALOGUE, AnyOrderConfig, MapConfig, NoConfig
from tests.dags.refusal import FREE, canonicalise, catalogue_with, holding, problem, problems, signature
from tests.notation import document, flow

FULL = (
    "s:source > a:map > p:split..even > j:join.left > c:count > k:sink p.odd > w:window > j.right "
    "t:source{'source': 'traffic'} > x:scale{'factor': 2} > j.right t > y:random > l:file s > z:map > m:sink"
)


def signed(config: str, kind: str = "scale") -> bytes:
    """How a task with a config written in this way is signed."""
    written = document("s:source > a:map > k:sink")
    written["tasks"][1] |= {"type": kind, "config": "HERE"}
    return signature(json.dumps(written).replace('"HERE"', config), "a", catalogue=catalogue_with(FREE))


def free(value: str) -> bytes:
    """How a task with a free-form value written in this way is signed."""
    return signature(holding(value), "f", catalogue=catalogue_with(FREE))


def test_the_text_that_is_hashed() -> None:
    """Scheme, type, version, config and inputs (port, parent, parent's port, count); no ids or names."""
    canonical = flow("s:source > p:split..even > j:join.left > k:sink p.odd > j.left p.even > j.right s > j.right")
    source, split, join, sink = canonical.tasks
    assert (
        b'["braid-1","source",1,{"source":"weather"},[["ann","weather",{"place":"string","value":"integer"}]]]'
        == source.text
    )
    above = source.key.signature.hex()
    assert f'["braid-1","split",1,{{}},[["in","{above}","out",1]]]'.encode() == split.text
    below = split.key.signature.hex()
    inputs = sorted(
        [["left", below, "even", 1], ["left", below, "odd", 1], ["right", below, "even", 1], ["right", above, "out", 1]]
    )
    assert f'["braid-1","join",1,{{}},{json.dumps(inputs, separators=(",", ":"))}]'.encode() == join.text
    assert f'["braid-1","sink",1,{{}},[["in","{join.key.signature.hex()}","out",1]]]'.encode() == sink.text
    assert all(sha256(task.text).digest() == task.key.signature for task in canonical.tasks)


@pytest.mark.parametrize("written", ["5", "5.0", "5e0", "0.5e1", "50E-1"])
def test_equal_numbers_sign_alike(written: str) -> None:
    """Equal numbers give equal signatures in float, integer and free-form fields, at any depth."""
    assert signed('{"factor": 5}') == signed(f'{{"factor": {written}}}')
    assert signed('{"add": 5}', "map") == signed(f'{{"add": {written}}}', "map")
    assert free("5") == free(written)
    assert free('[{"a": [5]}]') == free(f'[{{"a": [{written}]}}]')


@pytest.mark.parametrize("written", ["-0.0", "-0", "0.0", "0e9", "-0e-9", "0.0e-400"])
def test_zero_has_no_sign(written: str) -> None:
    """Zero and minus zero give equal signatures."""
    assert signed('{"factor": 0}') == signed(f'{{"factor": {written}}}')
    assert signed('{"add": 0}', "map") == signed(f'{{"add": {written}}}', "map")
    assert free("0") == free(written)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "5.5"),
        ("5", '"5"'),
        ("0", "null"),
        ("1", "true"),
        ("0", "false"),
        ("[]", "{}"),
        ("[1,2]", "[2,1]"),
        ("0.1", "0.10000000000000002"),
    ],
)
def test_different_values_sign_differently(one: str, other: str) -> None:
    """Different values of any type give different signatures."""
    assert free(one) != free(other)


def test_a_default_signs_like_the_same_value_given() -> None:
    """A default gives the same signature as the same value in the document."""
    assert signed("{}") == signed('{"factor": 1.0, "label": ""}') == signed('{"factor": 1}')
    written = document("s:source > a:scale > k:sink")
    full = signature(written, "a")
    del written["tasks"][1]["config"]
    assert full == signature(written, "a")
    assert signed("{}") != signed('{"label": " "}')


def test_the_order_of_keys_does_not_matter() -> None:
    """At any depth."""
    assert signed('{"factor": 2, "label": "x"}') == signed('{"label": "x", "factor": 2}')
    assert free('{"a": {"b": 1, "c": 2}, "d": 3}') == free('{"d": 3, "a": {"c": 2, "b": 1}}')


def test_strings_are_signed_as_they_are_written() -> None:
    """Composed and decomposed letters differ, and escapes do not matter."""
    composed, decomposed = signed('{"label": "\u00e9"}'), signed('{"label": "e\u0301"}')
    assert composed != decomposed
    assert composed == signed('{"label": "\\u00e9"}')
    assert signed('{"label": "K"}') != signed('{"label": "\u212a"}')
    assert signed('{"label": "x"}') != signed('{"label": "x "}')
    assert signed('{"label": "\U00010000"}') == signed('{"label": "\\ud800\\udc00"}')


def test_a_type_decides_which_configs_mean_the_same() -> None:
    """By its normalise. Without one, the order of an array counts."""
    assert signed('{"names": ["a", "b"]}', "anyorder") == signed('{"names": ["b", "a"]}', "anyorder")
    assert signed('{"names": ["a", "b"]}', "anyorder") != signed('{"names": ["a", "a", "b"]}', "anyorder")
    written = document("s:source > a:anyorder > k:sink")

    def plainly(names: list[str]) -> bytes:
        written["tasks"][1] |= {"type": "plain", "config": {"names": names}}
        plain = TaskType(name="plain", config=AnyOrderConfig)
        return signature(written, "a", catalogue=catalogue_with(plain))

    assert plainly(["a", "b"]) != plainly(["b", "a"])


def test_a_number_is_signed_as_its_field_has_it() -> None:
    """2^53, the largest integer, gives the same signature in every form and place."""
    assert signed(f'{{"add": {2**53}}}', "map") == signed('{"add": 9007199254740992.0}', "map")
    assert free(str(2**53)) == free("9.007199254740992e15") == free("9007199254740992.0")
    assert free(str(2**53)) != free(str(2**53 - 1))
    assert free(str(-(2**53))) != free(str(2**53))
    assert free("1e21") != free("1e22")


def test_type_and_version_and_scheme_are_signed() -> None:
    """A change of any of them changes the task and all tasks after it."""
    written = document("s:source > a:map > b:new > k:sink")

    def new(version: int, name: str = "new") -> Dataflow:
        written["tasks"][2]["type"] = name
        return canonicalise(written, catalogue=catalogue_with(TaskType(name=name, version=version, config=NoConfig)))

    old, newer, other = new(1), new(2), new(1, "newest")
    for task in ("b", "k"):
        assert 3 == len({each.tasks[each.places[task]].key.signature for each in (old, newer, other)})
    assert 1 == len({each.tasks[each.places["a"]].key.signature for each in (old, newer, other)})
    assert b'["braid-1","new",2,' == newer.tasks[newer.places["b"]].text[:19]


def test_the_scheme_version_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures of different schemes are never equal."""
    before = {task.key.signature for task in flow(FULL).tasks}
    monkeypatch.setattr(signatures, "SCHEME", "braid-2")
    after = flow(FULL)
    assert not before & {task.key.signature for task in after.tasks}
    assert all(task.text.startswith(b'["braid-2",') for task in after.tasks)
    assert "braid-1" == SCHEME


def test_types_of_equal_config_differ_by_name() -> None:
    """Even types of one namespace."""
    assert signed('{"add": 1}', "map") != signed('{"add": 1}', "echo")
    assert signed('{"add": 1}', "lab:a") != signed('{"add": 1}', "lab:b")


def test_ports_and_counts_are_signed() -> None:
    """The ports at both ends of a stream, and its multiplicity."""
    texts = [
        "s:source > p:split..even > k:sink",
        "s:source > p:split..odd > k:sink",
        "s:source > p:split..odd > k:sink p.even > k",
        "s:source > a:map > k:sink s > b:map > k",
        "s:source > a:map > k:sink s > b:map > k s > c:map > k",
        "s:source > a:map > k:sink",
    ]
    assert len(texts) == len({signature(document(text), "k") for text in texts})
    ports = [
        "s:source > a:map > j:join.left > k:sink s > j.right",
        "s:source > a:map > j:join.right > k:sink s > j.left",
    ]
    assert 2 == len({signature(document(text), "j") for text in ports})


def test_nothing_but_the_computation_is_signed() -> None:
    """Ids, names, tenant, order and `fresh` have no effect."""
    base = flow(FULL)
    chance = random.Random(3)
    for _ in range(10):
        written = document(FULL)
        names = [task["id"] for task in written["tasks"]]
        renamed = dict(zip(names, chance.sample(names, len(names)), strict=True))
        for task in written["tasks"]:
            task["id"] = renamed[task["id"]]
        for stream in written["streams"]:
            stream |= {"from": renamed[stream["from"]], "to": renamed[stream["to"]]}
        chance.shuffle(written["tasks"])
        chance.shuffle(written["streams"])
        written["name"] = "another"
        for other in (flow(written), flow(written, dataflow="other"), flow(written, tenant="bob")):
            for name in names:
                before, after = base.tasks[base.places[name]], other.tasks[other.places[renamed[name]]]
                assert before.text == after.text
    fresh = signature(document("s:source > a!:map > k:sink"), "a")
    assert fresh == signature(document("s:source > a:map > k:sink"), "a")


def test_equivalent_tasks_collapse() -> None:
    """Together with all equivalent tasks after them. Both ids lead to the same task, and streams keep their number."""
    canonical = flow("s:source > a:map > b:echo > k:sink s > c:map{'add': 0} > d:echo > k d > l:sink b > m:sink")
    assert 5 == len(canonical.tasks)
    places = canonical.places
    assert [("s",), ("a", "c"), ("b", "d")] == [
        tuple(name for name, place in places.items() if place == i) for i in range(3)
    ]
    assert places["l"] == places["m"] != places["k"]
    assert (Input("in", 2, "out", 2),) == canonical.tasks[places["k"]].inputs
    assert (Input("in", 2, "out", 1),) == canonical.tasks[places["l"]].inputs
    assert ("k", "l", "m") == canonical.sinks


def test_tasks_of_different_config_or_parents_do_not_collapse() -> None:
    """Nor do tasks that may not be shared."""
    assert 5 == len(flow("s:source > a:map > k:sink s > b:map{'add': 1} > l:sink").tasks)
    assert 6 == len(flow("s:source > a:map > x:echo > k:sink s > y:echo > k s > b:scale > k").tasks)
    assert 5 == len(flow("s:source > a:random > k:sink s > b:random > l:sink").tasks)
    assert 5 == len(flow("s:source > a!:map > k:sink s > b:map > l:sink").tasks)


def test_tasks_stand_after_their_parents_by_depth() -> None:
    """Sources come first. Within a depth, the order depends only on the signature."""
    canonical = flow(FULL)
    depths: list[int] = []
    for i, task in enumerate(canonical.tasks):
        assert all(given.parent < i for given in task.inputs)
        depths.append(1 + max((depths[given.parent] for given in task.inputs), default=0))
    ordered = [(depth, task.key.signature) for depth, task in zip(depths, canonical.tasks, strict=True)]
    assert sorted(ordered) == ordered
    assert sorted(canonical.places) == list(canonical.places)


def test_tasks_that_differ_by_scope_only_are_ordered_by_name() -> None:
    """The shared task comes first."""
    canonical = flow("s:source > b!:map > k:sink s > a!:map > k s > c:map > k", dataflow="0")
    assert {"s": 0, "c": 1, "a": 2, "b": 3} == {name: i for name, i in canonical.places.items() if name != "k"}


def test_inputs_are_sorted_by_port_parent_and_parents_port() -> None:
    """The order of streams in the document does not matter."""
    canonical = flow("s:source > p:split..odd > j:join.right > k:sink p.odd > j.left p.even > j.left s > j.right")
    assert (
        Input("left", 1, "even", 1),
        Input("left", 1, "odd", 1),
        Input("right", 0, "out", 1),
        Input("right", 1, "odd", 1),
    ) == canonical.tasks[canonical.places["j"]].inputs


def test_each_connected_part_has_its_sources() -> None:
    """The sources are in order, however the part is connected."""
    text = (
        "s:source > j:join.left > k:sink t:source{'source': 'traffic'} > j.right u:source{'source': 'power'} > l:sink"
    )
    canonical = flow(text)
    s, t, u = (canonical.places[name] for name in "stu")
    assert sorted([tuple(sorted((s, t))), (u,)]) == list(canonical.parts)


def test_a_canonical_dataflow_has_its_id_tenant_and_name() -> None:
    """Its types are those of the catalogue."""
    canonical = flow(document("s:source > a:map > k:sink", name="my name"), dataflow="d7", tenant="bob")
    assert ("d7", "bob", "my name") == (canonical.id, canonical.tenant, canonical.name)
    assert ["source", "map", "sink"] == [task.type.name for task in canonical.tasks]
    assert all(task.type is CATALOGUE.types[task.type.name] for task in canonical.tasks)


def test_the_config_is_read_back_from_the_text() -> None:
    """The canonical config has every default."""
    canonical = flow("s:source > a:scale{'label': ']\",[\\\\'} > k:sink")
    assert {"factor": 1, "label": ']",[\\'} == canonical.tasks[1].config == config_in(canonical.tasks[1].text)


def test_a_type_made_by_a_namespace_signs_with_the_version_it_has() -> None:
    """Types of one namespace may have different versions."""

    def versioned(name: str) -> Any:
        return TaskType(name=name, version=len(name), config=MapConfig)

    canonical = canonicalise(
        document("s:source > a:v:x > b:v:xy > k:sink"), catalogue=catalogue_with(Namespace("v:", versioned))
    )
    assert [b'["braid-1","v:x",3,', b'["braid-1","v:xy",4,'] == [
        canonical.tasks[1].text[:19],
        canonical.tasks[2].text[:20],
    ]


def test_the_canonical_config_submitted_again_signs_alike() -> None:
    """So a dataflow can be written again from its canonical form."""
    canonical = flow(FULL)
    written = document(FULL)
    for task in written["tasks"]:
        task["config"] = canonical.tasks[canonical.places[task["id"]]].config
    assert canonical == flow(written)


def test_a_field_with_an_alias_is_signed_by_the_name_that_documents_use() -> None:
    """So its config can be submitted again."""

    class AliasConfig(Config):
        origin: str = Field(default="x", alias="from")

    catalogue = catalogue_with(TaskType(name="aliased", config=AliasConfig))
    written = document("s:source > a:aliased > k:sink")
    canonical = canonicalise(written, catalogue=catalogue)
    assert {"from": "x"} == canonical.tasks[1].config
    written["tasks"][1]["config"] = canonical.tasks[1].config
    assert canonical == canonicalise(written, catalogue=catalogue)


FETCH = document("s:source > f:fetch{'password': {'secret': 'key'}} > k:sink")


def with_password(password: Any) -> dict[str, Any]:
    return {
        **FETCH,
        "tasks": [FETCH["tasks"][0], {**FETCH["tasks"][1], "config": {"password": password}}, FETCH["tasks"][2]],
    }


def test_a_secret_is_signed_with_its_owner() -> None:
    """The owner is the tenant that submits. Tasks downstream differ too, tasks upstream do not."""
    texts = {canonicalise(FETCH, tenant=tenant).tasks[1].text for tenant in ("ann", "bob")}
    assert [b'{"password":{"owner":"ann","secret":"key"}}', b'{"password":{"owner":"bob","secret":"key"}}'] == sorted(
        text.split(b",", 3)[3].partition(b",[[")[0] for text in texts
    )
    for task, count in (("s", 1), ("f", 2), ("k", 2)):
        assert count == len({signature(FETCH, task, tenant=tenant) for tenant in ("ann", "bob")})


def test_a_secret_in_the_config_of_a_source_has_its_owner_too() -> None:
    """Even though the source itself is identified by its registration."""

    class LockedConfig(NamesSource):
        password: Secret

    catalogue = catalogue_with(TaskType(name="locked", config=LockedConfig, inputs=()))
    written = document("s:locked{'source': 'weather', 'password': {'secret': 'key'}} > k:sink")
    flow = canonicalise(written, tenant="bob", catalogue=catalogue)
    assert {"source": "weather", "password": {"secret": "key", "owner": "bob"}} == flow.tasks[0].config


def test_one_tenants_secret_of_one_name_signs_alike() -> None:
    """A secret of another name does not."""
    assert signature(FETCH, "f") == signature({**FETCH, "name": "again"}, "f")
    assert signature(FETCH, "f") != signature(with_password({"secret": "other"}), "f")


def test_a_tenant_cannot_name_the_owner_of_a_secret() -> None:
    """Not even itself."""
    for owner in ("ann", "bob"):
        place = "/tasks/1/config/password/owner"
        expected = problem(place, "unknown-field", "unknown field 'owner'", "remove it")
        assert [expected] == problems(with_password({"secret": "key", "owner": owner}), tenant="ann")


@pytest.mark.parametrize(
    ("password", "place", "code"),
    [
        ("key", "", "wrong-type"),
        (None, "", "wrong-type"),
        ({}, "/secret", "missing-field"),
        ({"secret": 5}, "/secret", "wrong-type"),
        ({"sceret": "key"}, "/sceret", "unknown-field"),
    ],
)
def test_a_secret_is_a_reference(password: Any, place: str, code: str) -> None:
    """An object with its name, never the secret itself."""
    found = problems(with_password(password))
    assert (f"/tasks/1/config/password{place}", code) == (found[0].pointer, found[0].code)


def test_a_value_that_looks_like_a_secret_is_a_value() -> None:
    """In a free-form field it has no owner, and none is added."""
    written = document("s:source > f:free > k:sink")
    written["tasks"][1]["config"] = {"value": {"secret": "key"}}
    catalogue = catalogue_with(FREE)
    assert {"value": {"secret": "key"}} == canonicalise(written, catalogue=catalogue).tasks[1].config
    assert 1 == len({signature(written, "f", tenant=tenant, catalogue=catalogue) for tenant in ("ann", "bob")})
