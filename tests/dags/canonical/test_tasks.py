"""The types and sources that tasks name, and the scopes that these lead to."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dags import AnyTaskType, Catalogue, Kind, Namespace, NamesSource, Schema, Scope, Source, TaskType, Visibility
from tests.catalogue import SCHEMA, SOURCES, MapConfig, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems, signature
from tests.notation import document, flow


def test_an_unknown_type_suggests_a_similar_one() -> None:
    """At the task's type. The most similar one has the fewest different letters."""
    expected = [
        problem("/tasks/1/type", "unknown-type", "unknown task type 'coutn'", "did you mean 'count'?"),
        problem("/tasks/2/type", "unknown-type", "unknown task type 'skale'", "did you mean 'scale'?"),
    ]
    assert expected == problems(document("s:source > a:coutn > b:skale > k:sink"))


def test_an_unknown_type_lists_the_known_ones() -> None:
    """Namespaces have a star."""
    catalogue = Catalogue.of(
        [
            TaskType(name="source", config=NoConfig),
            TaskType(name="sink", config=NoConfig, outputs=()),
            Namespace("opmw:", lambda _: None),
        ]
    )
    remedy = "the known types are 'sink', 'source', 'opmw:*'"
    expected = [problem("/tasks/0/type", "unknown-type", "unknown task type 'xyz'", remedy)]
    assert expected == problems(document("a:xyz > k:sink"), catalogue=catalogue)


def test_a_name_that_its_namespace_does_not_know_is_unknown() -> None:
    """The most similar one may be the namespace itself."""
    expected = problem("/tasks/1/type", "unknown-type", "unknown task type 'lab:7'", "did you mean 'lab:*'?")
    assert [expected] == problems(document("s:source > a:lab:7 > k:sink"))


def test_a_namespace_gives_types_of_its_own() -> None:
    """They work like any other type."""
    flow = canonicalise(document("s:source > a:lab:still{'add': 1} > k:sink"))
    assert ("lab:still", {"add": 1}) == (flow.tasks[1].type.name, flow.tasks[1].config)


def test_a_misspelt_type_makes_no_dead_ends() -> None:
    """For a source, a sink or a task between them, nothing else is reported."""
    assert [("/tasks/0/type", "unknown-type")] == codes(document("s:sorce > a:map > k:sink"))
    assert [("/tasks/1/type", "unknown-type")] == codes(document("s:source > a:mapp > b:scale > k:sink"))
    assert [("/tasks/2/type", "unknown-type")] == codes(document("s:source > a:map > k:sinkk"))


def test_a_misspelt_type_takes_any_config_and_any_port() -> None:
    """These are unknown, so they are not checked."""
    written = document("s:source > a:mapp{'nonsense': 1} > k:sink")
    written["streams"][0]["to_port"] = "left"
    assert [("/tasks/1/type", "unknown-type")] == codes(written)


def test_each_name_is_looked_up_once() -> None:
    """For all tasks that name it, whether the namespace knows it or not."""
    asked: list[str] = []

    def resolve(name: str) -> AnyTaskType | None:
        asked.append(name)
        return TaskType(name=name, config=MapConfig) if name == "q:known" else None

    catalogue = catalogue_with(Namespace("q:", resolve))
    flow = canonicalise(document("s:source > a:q:known > b:q:known > c:q:known > k:sink"), catalogue=catalogue)
    assert ["q:known"] == asked
    assert flow.tasks[1].type is flow.tasks[3].type
    asked.clear()
    text = "s:source > a:q:other > b:q:other > c:q:known > k:sink"
    assert [("/tasks/1/type", "unknown-type"), ("/tasks/2/type", "unknown-type")] == codes(
        document(text), catalogue=catalogue
    )
    assert ["q:other", "q:known"] == asked


def test_a_namespace_that_raises_is_a_problem_of_each_of_its_tasks() -> None:
    """And of no other."""

    def resolve(name: str) -> AnyTaskType | None:
        raise LookupError(name)

    def failed(task: int) -> Any:
        return problem(
            f"/tasks/{task}",
            "task-type-failed",
            "the task type 'q:x' failed on this task: LookupError: q:x",
            "report it to the provider of the type",
        )

    written = document("s:source > a:q:x > b:q:x > c:map > k:sink")
    assert [failed(1), failed(2)] == problems(written, catalogue=catalogue_with(Namespace("q:", resolve)))


def test_a_namespace_that_gives_nonsense_is_a_problem_of_the_task() -> None:
    """Something that is not a task type, or a type of another name."""
    written = document("s:source > a:q:x > k:sink")
    for given, description in (("text", "str"), (TaskType(name="map", config=MapConfig), "'map'")):
        nonsense: Any = given
        catalogue = catalogue_with(Namespace("q:", {"q:x": nonsense}.get))
        expected = problem(
            "/tasks/1",
            "task-type-failed",
            "the task type 'q:x' failed on this task: TypeError: "
            f"the namespace 'q:' returned {description} instead of 'q:x'",
            "report it to the provider of the type",
        )
        assert [expected] == problems(written, catalogue=catalogue)


def test_types_are_found_by_their_exact_name() -> None:
    """Case and Unicode form matter."""
    catalogue = catalogue_with(TaskType(name="caf\u00e9", config=NoConfig))
    written = document("s:source > a:map > k:sink")
    written["tasks"][1]["type"] = "caf\u00e9"
    assert "caf\u00e9" == canonicalise(json.dumps(written), catalogue=catalogue).tasks[1].type.name
    written["tasks"][1]["type"] = "cafe\u0301"
    assert [("/tasks/1/type", "unknown-type")] == codes(written, catalogue=catalogue)
    written["tasks"][1]["type"] = "CAF\u00c9"
    assert [("/tasks/1/type", "unknown-type")] == codes(written, catalogue=catalogue)


DIARY = document("s:source{'source': 'diary'} > k:sink")
POWER = document("s:source{'source': 'power'} > k:sink")
WEATHER = document("s:source > k:sink")


def test_an_unknown_source_suggests_a_similar_readable_one() -> None:
    """At the field that names it."""
    message = "unknown source 'wether'"
    expected = [problem("/tasks/0/config/source", "unknown-source", message, "did you mean 'weather'?")]
    assert expected == problems(document("s:source{'source': 'wether'} > k:sink"))


def test_an_unknown_source_lists_those_that_may_be_used() -> None:
    """Sources that the tenant may not read are neither suggested nor listed."""
    written = document("s:source{'source': 'xyz'} > k:sink")
    message = "unknown source 'xyz'"
    for tenant, listed in (
        ("ann", "'diary', 'power', 'traffic', 'weather'"),
        ("bob", "'power', 'traffic', 'weather'"),
        ("eve", "'traffic', 'weather'"),
    ):
        expected = [problem("/tasks/0/config/source", "unknown-source", message, f"you may use {listed}")]
        assert expected == problems(written, tenant=tenant)
    assert "you may use none" == problems(written, sources={})[0].remedy
    assert (
        "you may use 'traffic', 'weather'"
        == problems(document("s:source{'source': 'diar'} > k:sink"), tenant="eve")[0].remedy
    )


def test_an_unreadable_source_looks_like_an_unknown_one() -> None:
    """The problem has the same text, so that tenants do not learn of the sources of others."""
    without = {name: source for name, source in SOURCES.items() if name != "diary"}
    assert problems(DIARY, tenant="eve") == problems(DIARY, tenant="eve", sources=without)
    assert [("/tasks/0/config/source", "unknown-source")] == [
        (p.pointer, p.code) for p in problems(DIARY, tenant="eve")
    ]


def test_a_source_is_readable_by_its_owner_named_tenants_or_all() -> None:
    """Named tenants count only with that visibility."""
    canonicalise(DIARY, tenant="ann")
    canonicalise(POWER, tenant="ann")
    canonicalise(POWER, tenant="bob")
    canonicalise(WEATHER, tenant="eve")
    assert 1 == len(problems(POWER, tenant="eve"))
    assert 1 == len(problems(DIARY, tenant="bob"))
    readers = frozenset({"bob"})
    private = Source(name="diary", owner="ann", schema=SCHEMA, readers=readers)
    assert 1 == len(problems(DIARY, tenant="bob", sources={"diary": private}))
    assert [False, True, True, True] == [
        Source(name="x", owner="ann", schema=SCHEMA, visibility=visibility, readers=readers).visible_to(tenant)
        for visibility, tenant in (
            (Visibility.PRIVATE, "bob"),
            (Visibility.PRIVATE, "ann"),
            (Visibility.NAMED, "bob"),
            (Visibility.PUBLIC, "eve"),
        )
    ]


def test_every_source_task_has_its_own_problem() -> None:
    """Even if one of them is correct."""
    written = document("s:source{'source': 'x'} > k:sink t:source > k u:source{'source': 'y'} > k")
    assert [("/tasks/0/config/source", "unknown-source"), ("/tasks/3/config/source", "unknown-source")] == codes(
        written
    )


def test_one_registered_source_under_two_names_is_one() -> None:
    """The registered name counts. Within a dataflow its tasks collapse."""
    sources = {"here": SOURCES["weather"], "there": SOURCES["weather"]}
    here, there = (document(f"s:source{{'source': '{name}'}} > k:sink") for name in sources)
    assert signature(here, "k", sources=sources) == signature(there, "k", sources=sources)
    assert signature(here, "s", sources=sources) == signature(WEATHER, "s")
    both = document("s:source{'source': 'here'} > k:sink t:source{'source': 'there'} > k")
    flow = canonicalise(both, sources=sources)
    assert {"k": 1, "s": 0, "t": 0} == flow.places
    assert {"source": "weather"} == flow.tasks[0].config


def test_sources_of_one_name_and_different_owners_differ() -> None:
    """Even if tenants submit the same document."""
    mine, yours = (Source(name="weather", owner=owner, schema=SCHEMA) for owner in ("ann", "bob"))
    ann = signature(WEATHER, "s", sources={"weather": mine}, tenant="ann")
    bob = signature(WEATHER, "s", sources={"weather": yours}, tenant="bob")
    assert ann != bob


def test_a_source_of_another_name_or_schema_is_another() -> None:
    """One more field, or another kind, changes all tasks downstream. The order of fields has no effect."""

    def signed(schema: Schema, name: str = "weather") -> bytes:
        return signature(WEATHER, "k", sources={"weather": Source(name=name, owner="ann", schema=schema)})

    base = signed(Schema.of(a=Kind.FLOAT, b=Kind.STRING))
    assert base == signed(Schema.of(b=Kind.STRING, a=Kind.FLOAT))
    others = [
        signed(Schema.of(a=Kind.FLOAT)),
        signed(Schema.of(a=Kind.FLOAT, b=Kind.JSON)),
        signed(Schema.of(a=Kind.FLOAT, b=Kind.STRING, c=Kind.STRING)),
        signed(Schema.of(a=Kind.FLOAT, b=Kind.STRING), name="wetter"),
    ]
    assert 5 == len({base, *others})


def test_visibility_has_no_part_in_the_signature() -> None:
    """The readers of a source can change without changing any task."""
    signatures = {
        signature(
            WEATHER, "k", sources={"weather": Source(name="weather", owner="ann", schema=SCHEMA, visibility=each)}
        )
        for each in Visibility
    }
    assert 1 == len(signatures)


def test_source_types_may_have_more_to_configure() -> None:
    """Their whole config is signed, with the registered name in it."""

    class RateConfig(NamesSource):
        rate: float = 1.0

    catalogue = catalogue_with(TaskType(name="rated", config=RateConfig, inputs=()))
    sources = {"here": SOURCES["weather"]}

    def signed(config: str) -> bytes:
        return signature(document(f"s:rated{config} > k:sink"), "s", catalogue=catalogue, sources=sources)

    assert signed("{'source': 'here'}") == signed("{'source': 'here', 'rate': 1}")
    assert signed("{'source': 'here'}") != signed("{'source': 'here', 'rate': 2}")
    flow = canonicalise(document("s:rated{'source': 'here', 'rate': 2} > k:sink"), catalogue=catalogue, sources=sources)
    assert {"source": "weather", "rate": 2} == flow.tasks[0].config


def test_checking_a_document_looks_up_its_own_sources_only() -> None:
    """All sources are read, once, only for a suggestion."""
    registered = Counting({**SOURCES, **{f"s{i}": SOURCES["diary"] for i in range(300)}})
    canonicalise(document("s:source > k:sink t:source{'source': 'traffic'} > k"), sources=registered)
    assert (2, 0) == (registered.lookups, registered.walks)
    tasks = [{"id": f"t{i}", "type": "source", "config": {"source": f"x{i}"}} for i in range(50)]
    assert 51 == len(problems({"version": 1, "name": "n", "tasks": tasks, "streams": []}, sources=registered))
    assert 1 == registered.walks


class Counting(Mapping[str, Source]):
    """Sources that count how often they are asked."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self.sources = sources
        self.lookups = self.walks = 0

    def __getitem__(self, name: str) -> Source:
        self.lookups += 1
        return self.sources[name]

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)


def scopes(text: str, dataflow: str = "flow") -> dict[str, str | None]:
    """For each task of a line, the id of the task whose scope it has."""
    canonical = flow(text, dataflow)
    found = {name: canonical.tasks[place].key.scope for name, place in canonical.places.items()}
    assert {dataflow} >= {scope.dataflow for scope in found.values() if scope}
    return {name: scope and scope.task for name, scope in found.items()}


def test_deterministic_tasks_without_effect_are_shared() -> None:
    """With or without state."""
    text = "s:source > a:map > c:count > w:window > p:split..even > j:join.left > k:sink s > j.right"
    assert dict.fromkeys(("s", "a", "c", "w", "p", "j", "k")) == scopes(text)


@pytest.mark.parametrize("kind", ["random", "look", "write"])
def test_a_task_that_may_not_be_shared_confines_all_that_follow_it(kind: str) -> None:
    """Tasks above or beside it stay shared."""
    assert {"s": None, "a": None, "r": "r", "b": "r", "k": "r", "c": None, "l": None} == scopes(
        f"s:source > a:map > r:{kind} > b:map > k:sink a > c:map{{'add': 1}} > l:sink"
    )


def test_a_fresh_task_confines_all_that_follow_it() -> None:
    """Even a fresh source."""
    assert {"s": None, "a": "a", "b": "a", "k": "a"} == scopes("s:source > a!:map > b:map > k:sink")
    assert {"s": "s", "a": "s", "k": "s"} == scopes("s!:source > a:map > k:sink")


def test_a_sink_with_an_effect_is_confined_alone() -> None:
    """Nothing follows it."""
    assert {"s": None, "a": None, "f": "f"} == scopes("s:source > a:map > f:file")


def test_a_task_that_may_not_be_shared_below_another_has_its_own_scope() -> None:
    """So the two differ."""
    assert {"s": None, "a": "a", "b": "b", "k": "b"} == scopes("s:source > a:random > b:random > k:sink")


def test_a_task_below_several_scopes_has_its_own() -> None:
    """Below two confined tasks, or a shared and a confined one. Its descendants inherit its scope."""
    assert {"s": None, "a": "a", "b": "b", "j": "j", "k": "j"} == scopes(
        "s:source > a:random > j:join.left > k:sink s > b:random > j.right"
    )
    assert {"s": None, "a": "a", "j": "j", "k": "j"} == scopes("s:source > a:random > j:join.left > k:sink s > j.right")


def test_a_task_below_one_scope_by_several_ways_inherits_it() -> None:
    """Repeated scopes count once."""
    assert {"s": None, "r": "r", "a": "r", "b": "r", "j": "r", "k": "r"} == scopes(
        "s:source > r:random > a:map > j:join.left > k:sink r > b:map{'add': 1} > j.right"
    )


def test_a_scope_names_its_dataflow_and_task() -> None:
    """So no two dataflows have the same scope."""
    text = "s:source > a:random > k:sink"
    canonical = flow(text, dataflow="d1")
    assert Scope(dataflow="d1", task="a") == canonical.tasks[canonical.places["k"]].key.scope
    assert scopes(text, "d1") == scopes(text, "d2")
    keys = [{task.key for task in flow(text, dataflow=name).tasks} for name in ("d1", "d2")]
    assert 1 == len(keys[0] & keys[1])


def test_a_scope_does_not_change_the_signature() -> None:
    """Two tasks may compute the same and still run side by side."""
    canonical = flow("s:source > a!:map > k:sink s > b:map > l:sink")
    tasks = {name: canonical.tasks[place] for name, place in canonical.places.items()}
    for one, other in ("ab", "kl"):
        assert tasks[one].key.signature == tasks[other].key.signature
        assert tasks[one].text == tasks[other].text
        assert tasks[one].key != tasks[other].key
