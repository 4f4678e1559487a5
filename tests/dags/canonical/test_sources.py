"""The registered sources that source tasks name."""

from collections.abc import Iterator, Mapping

from dags import Kind, NamesSource, Schema, Source, TaskType, Visibility
from tests.catalogue import SCHEMA, SOURCES
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems, signature
from tests.notation import document

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
