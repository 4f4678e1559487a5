"""The topics of Braid."""

from hypothesis import given
from hypothesis import strategies as st

from bridge import topics

NAMES = st.text("abc0", min_size=1, max_size=3)


def test_every_topic_has_its_documented_form() -> None:
    """Each kind of topic is exactly as documented."""
    assert [
        "braid/1/streams/7/out",
        "braid/1/again/7/out",
        "braid/1/have/7/out",
        "braid/1/dead/7",
        "braid/1/out/acme/weather/alarm",
        "braid/1/jobs/3/plan",
        "braid/1/jobs/3/status",
        "braid/1/hosts/one/status",
        "braid/1/dead/unread/sensors/street",
        "braid/1/managers/one",
    ] == [
        topics.stream(7, "out"),
        topics.again(7, "out"),
        topics.have(7, "out"),
        topics.dead(7),
        topics.output("acme", "weather", "alarm"),
        topics.job("3", "plan"),
        topics.job("3", "status"),
        topics.host("one", "status"),
        topics.unread("sensors/street"),
        topics.manager("one"),
    ]


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_different_outputs_have_different_topics(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Two outputs share a topic only if tenant, dataflow and sink are the same."""
    assert (one == other) == (topics.output(*one) == topics.output(*other))


@given(st.integers(0, 99), NAMES)
def test_topics_of_different_kinds_differ(instance: int, name: str) -> None:
    """A stream, its receiver's answers, its dead letters, an output and a job's topics never coincide."""
    kinds = [
        topics.stream(instance, name),
        topics.again(instance, name),
        topics.have(instance, name),
        topics.unread(name),
        topics.host(name, name),
        topics.dead(instance),
        topics.output(name, name, name),
        topics.job(str(instance), name),
        topics.manager(name),
    ]
    assert len(kinds) == len(set(kinds))
