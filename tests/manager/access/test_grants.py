"""Grants: mosquitto reads exactly what was granted, for any names of tenants and topics."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manager.tenants.broker_access import (
    OWN_USER,
    Grant,
    OwnedTopic,
    UnfitName,
    access_list,
    check_topic,
    grant,
    user_of,
)
from tests.manager.access.rules import read_rules

NASTY = st.text(alphabet=st.sampled_from("ab/+#$ \n\r\t\v:%\x00\x85\xa0é"), max_size=6)
LINES = st.sampled_from(
    [
        "a\ntopic readwrite #",
        "a\nuser braid",
        "# a",
        "#",
        "+",
        "a/#",
        "a/+/b",
        " a",
        "a ",
        "a b",
        "read #",
        "%u",
        "%c/a",
    ]
)
PLAIN = st.from_regex(r"[a-c]{1,2}(-[a-c])?", fullmatch=True)
TENANTS = st.one_of(PLAIN, PLAIN, NASTY, LINES, st.just("braid"))
TOPICS = st.one_of(
    st.lists(PLAIN, min_size=1, max_size=3).map("/".join),
    NASTY,
    LINES,
    st.text(max_size=8),
    st.sampled_from(
        ["braid", "braid/1/jobs/1/plan", "braid/1/out/a/b/c", "braidy/1", "$SYS/x", "$share/a/b", "/", "a//b"]
    ),
)
OWNED = st.lists(st.builds(OwnedTopic, owner=TENANTS, topic=TOPICS), max_size=6)
BRAIDS = [
    "braid/1/jobs/1/plan",
    "braid/1/streams/1/out",
    "braid/1/dead/1",
    "braid/1/dead/unread/a",
    "braid/1/hosts/h/cut",
    "braid/1/out",
    "$SYS/broker/uptime",
]


@given(st.lists(TENANTS, max_size=4), OWNED)
@example(["a", "b"], [OwnedTopic(owner="a", topic="a/b"), OwnedTopic(owner="b", topic="a/b/c")])
@example(["a", "a-b"], [OwnedTopic(owner="a", topic="a b"), OwnedTopic(owner="c", topic="c")])
def test_a_list_has_exactly_the_grants(tenants: list[str], topics: list[OwnedTopic]) -> None:
    """A tenant reads the topics below its own outputs and writes its own topics; Braid does everything."""
    try:
        grants = grant(tenants, topics)
    except UnfitName:
        return
    rules = read_rules(access_list(grants))
    named = {each.topic for each in topics if each.topic and not set(each.topic) & {"+", "#"}}
    outputs = {f"braid/1/out/{tenant}/d/s" for tenant in [*tenants, "c", "nobody"]}
    probed = {*BRAIDS, *outputs, *named, *(f"{topic}/below" for topic in named), "a", "elsewhere"}
    for topic in probed:
        for access in ("read", "write"):
            assert rules.permit(OWN_USER, access, topic) == (not topic.startswith("$") or topic.startswith("$SYS/"))
            assert not rules.permit("nobody", access, topic)
        for tenant in tenants:
            assert rules.permit(user_of(tenant), "read", topic) == topic.startswith(f"braid/1/out/{tenant}/")
            owns = any(each.owner == tenant and each.topic == topic for each in topics)
            assert owns == rules.permit(user_of(tenant), "write", topic)
    assert {None, OWN_USER.encode()} >= set(rules.lines) - {user_of(tenant).encode() for tenant in tenants}


@given(TOPICS)
def test_a_topic_is_accepted_or_refused_by_name(topic: str) -> None:
    """An accepted one is a single topic in one line, outside Braid's and the broker's own; all others are refused."""
    refusal = ""
    try:
        check_topic(topic)
    except UnfitName as refused:
        refusal = str(refused)
    if refusal:
        assert "\n" not in refusal
        assert "; " in refusal
    else:
        assert topic == topic.strip()
        assert not set(topic) & set("+#\n\r\0")
        assert not f"{topic}/".startswith(("braid/", "$"))


@given(st.permutations(["a", "b", "c"]), st.permutations(["x", "y", "z"]))
def test_a_list_does_not_depend_on_order(tenants: list[str], topics: list[str]) -> None:
    """Equal grants give equal text, so that nothing is written if nothing changed."""
    owned = [OwnedTopic(owner="b", topic=topic) for topic in topics]
    ordered = [OwnedTopic(owner="b", topic=topic) for topic in ("x", "y", "z")]
    assert access_list(grant(["a", "b", "c"], ordered)) == access_list(grant(tenants, [*owned, owned[0]]))


def test_a_topic_of_nobody_is_granted_to_nobody() -> None:
    """A source whose owner is no longer a tenant may be written by nobody, and causes no error."""
    assert {"a": Grant(tenant="a")} == grant(["a"], [OwnedTopic(owner="gone", topic="x")])


def test_no_grants_make_a_list_that_still_denies() -> None:
    """Without tenants, the list names only Braid; an empty one would permit everything."""
    assert "user braid\ntopic readwrite #\ntopic readwrite $SYS/#\n" == access_list({})


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "'' is empty; name it"),
        (" a", "' a' has spaces around it, which a broker drops; leave them out"),
        ("a\u3000", "'a\\u3000' has spaces around it, which a broker drops; leave them out"),
        ("a\nb", "'a\\nb' holds a control character or something that is no character; leave it out"),
        ("a\x85b", "'a\\x85b' holds a control character or something that is no character; leave it out"),
        ("a\ud800b", "'a\\ud800b' holds a control character or something that is no character; leave it out"),
        ("a\uffff", "'a\\uffff' holds a control character or something that is no character; leave it out"),
        ("a/+", "'a/+' holds a wildcard; name one topic exactly, without + and #"),
        ("#", "'#' holds a wildcard; name one topic exactly, without + and #"),
        ("$share/g/a", "'$share/g/a' begins with $, which is the broker's own; choose another"),
        ("braid", "'braid' is one of Braid's own; choose one that is not below braid/"),
        ("braid/2", "'braid/2' is one of Braid's own; choose one that is not below braid/"),
        ("é" * 32_768, f"{'é' * 80!a}... is longer than 65,535 bytes; choose a shorter one"),
        ("/" * 201, f"'{'/' * 80}'... has more than 200 slashes, which is too deep for a broker; choose a shorter one"),
    ],
)
def test_an_unfit_topic_is_refused(topic: str, reason: str) -> None:
    """The error names the topic, the reason and the remedy."""
    with pytest.raises(UnfitName) as refused:
        grant(["a"], [OwnedTopic(owner="a", topic=topic)])
    assert f"the topic {reason}" == str(refused.value)


@pytest.mark.parametrize(
    ("tenant", "reason"),
    [
        ("a\nuser braid", "'a\\nuser braid' holds a control character or something that is no character; leave it out"),
        ("", "'' is empty; name it"),
        ("a ", "'a ' has spaces around it, which a broker drops; leave them out"),
        ("+", "'+' holds a wildcard; name one topic exactly, without + and #"),
        ("a/b", "'a/b' holds a slash; a tenant's name is one level of its topics"),
        ("a:b", "'a:b' holds a colon, which ends a name in the broker's list of passwords"),
    ],
)
def test_an_unfit_tenant_is_refused(tenant: str, reason: str) -> None:
    """The error names the tenant, the reason and the remedy."""
    with pytest.raises(UnfitName) as refused:
        grant([tenant], [])
    assert f"the tenant {reason}" == str(refused.value)


@pytest.mark.parametrize("topic", ["/" * 200, "a", "a b", "é/ü", "braidy", "a//b", "%u/%c", "a$"])
def test_an_unusual_topic_is_granted(topic: str) -> None:
    """It is granted if no rule forbids it."""
    rules = read_rules(access_list(grant(["a"], [OwnedTopic(owner="a", topic=topic)])))
    assert rules.permit("tenant-a", "write", topic)
