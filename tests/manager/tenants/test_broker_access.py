"""The broker's access lists: mosquitto reads exactly what was granted, and files change while it runs."""

import base64
import hashlib
import os
import stat
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.embedded import hashed
from manager.tenants.broker_access import (
    OWN_USER,
    AccessKeeper,
    Grant,
    OwnedTopic,
    UnfitName,
    access_list,
    check_topic,
    grant,
    password_list,
    user_of,
)
from tests import needs

_BLANKS = b" \t\n\v\f\r"
_ACCESS = {b"read": {"read"}, b"write": {"write"}, b"readwrite": {"read", "write"}, b"deny": set()}


class UnreadableLine(ValueError):
    """A line after which mosquitto would drop the rest of the list."""


@dataclass
class Rules:
    """The rules of a list, by user."""

    lines: dict[bytes | None, list[tuple[set[str], bytes]]] = field(default_factory=dict)

    def permit(self, user: str, access: str, topic: str) -> bool:
        """Return true if a user may read or write a topic."""
        permitted = False
        for accesses, covered in self.lines.get(user.encode(), []):
            if _covers(covered, topic.encode()):
                if not accesses:
                    return False
                permitted = permitted or access in accesses
        return permitted


def read_rules(text: str) -> Rules:
    """Parse a list from the bytes of its file."""
    rules, user = Rules(), None
    for line in text.encode().split(b"\n"):
        kept = line.rstrip(_BLANKS)
        words = kept.lstrip(b" ").split(b" ", 1)
        if not words[0] or kept.startswith(b"#"):
            continue
        rest = words[1] if len(words) > 1 else b""
        if words[0] == b"user" and rest:
            user = rest.strip(_BLANKS)
        elif words[0] == b"topic" and rest:
            first, _, topic = rest.lstrip(b" ").partition(b" ")
            accesses = _ACCESS.get(first) if topic else {"read", "write"}
            covered = (topic or first).strip(_BLANKS)
            if accesses is None or not _is_filter(covered):
                raise UnreadableLine(repr(line))
            rules.lines.setdefault(user, []).append((accesses, covered))
        else:
            raise UnreadableLine(repr(line))
    return rules


def _is_filter(covered: bytes) -> bool:
    levels = covered.split(b"/")
    wild = [level for level in levels if b"+" in level or b"#" in level]
    fit = all(len(level) == 1 for level in wild) and b"#" not in levels[:-1]
    return bool(covered) and fit and len(covered) <= 65_535 and len(levels) <= 201


def _covers(covered: bytes, topic: bytes) -> bool:
    if topic.startswith(b"$") and not covered.startswith(b"$"):
        return False
    wanted, given = covered.split(b"/"), topic.split(b"/")
    if wanted[-1] == b"#":
        wanted = wanted[:-1]
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(one in {b"+", other} for one, other in zip(wanted, given, strict=True))


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
        ("+/a", "'+/a' begins with a wildcard; write the first level out, because it says whose the topic is"),
        ("#", "'#' begins with a wildcard; write the first level out, because it says whose the topic is"),
        ("a/#/b", "'a/#/b' is no topic filter: # comes last"),
        ("a/b+", "'a/b+' is no topic filter: a wildcard is alone in its level"),
        ("braid/#", "'braid/#' is one of Braid's own; choose one that is not below braid/"),
        ("$SYS/#", "'$SYS/#' begins with $, which is the broker's own; choose another"),
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


@pytest.mark.parametrize(
    "topic", ["/" * 200, "a", "a b", "é/ü", "braidy", "a//b", "%u/%c", "a$", "a/+", "a/#", "a/+/b/#"]
)
def test_an_unusual_topic_is_granted(topic: str) -> None:
    """It is granted if no rule forbids it."""
    rules = read_rules(access_list(grant(["a"], [OwnedTopic(owner="a", topic=topic)])))
    assert rules.permit("tenant-a", "write", topic)


def holds(digest: str, password: str) -> bool:
    """Return true if a hash in mosquitto's form is that of a password."""
    _, seven, iterations, salt, key = digest.split("$")
    assert "7" == seven
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(salt), int(iterations), 64)
    return made == base64.b64decode(key)


@given(st.text(max_size=40))
def test_a_hash_matches_only_its_password(password: str) -> None:
    """Hashing again with its salt gives the same hash for that password only."""
    digest = hashed(password)
    assert holds(digest, password)
    assert not holds(digest, f"{password}x")


def test_equal_passwords_have_different_hashes() -> None:
    """Each hash has a salt of its own, so that equal passwords do not show."""
    assert 100 == len({hashed("secret") for _ in range(100)})


def test_a_hash_has_the_form_of_mosquitto_s_tool(tmp_path: Path) -> None:
    """The iterations and the lengths are the same."""
    needs.mosquitto_passwd()
    path = tmp_path / "passwords"
    path.write_text("a:secret\n")
    subprocess.run(["mosquitto_passwd", "-U", str(path)], check=True, capture_output=True)  # noqa: S603, S607 - as installed
    theirs = path.read_text().strip().removeprefix("a:")
    assert holds(theirs, "secret")
    assert [len(part) for part in theirs.split("$")] == [len(part) for part in hashed("secret").split("$")]
    assert theirs.split("$")[:3] == hashed("secret").split("$")[:3]


def test_a_password_list_is_ordered_by_user() -> None:
    """It has one line per user, independent of the order of the input."""
    one, two = hashed("one"), hashed("two")
    assert f"a:{one}\nb:{two}\n" == password_list({"b": two, "a": one})
    assert "" == password_list({})


@pytest.mark.parametrize("user", ["", "a:b", "#a", "a\nb", " a", "a "])
def test_an_ambiguous_user_is_refused(user: str) -> None:
    """A name that mosquitto would read as something else is an error."""
    with pytest.raises(ValueError, match="cannot name a user of the broker"):
        password_list({user: hashed("secret")})


@pytest.mark.parametrize("change", ["plain secret", "{}\nb:x", "{} ", "x{}", ""])
def test_a_plain_password_is_refused_and_not_shown(change: str) -> None:
    """The error does not contain it."""
    with pytest.raises(ValueError, match="is no hash of a password") as refused:
        password_list({"a": change.format(hashed("secret"))})
    assert "the entry for the user 'a' is no hash of a password; make it with hashed()" == str(refused.value)


ANN = grant(["ann"], [OwnedTopic(owner="ann", topic="raw/ann")])
BOTH = grant(["ann", "bob"], [OwnedTopic(owner="ann", topic="raw/ann")])
HASHES = {"tenant-ann": hashed("a"), "tenant-bob": hashed("b")}


class ReloadCounter:
    """A broker that counts its reloads, and keeps the files that it read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[tuple[str, str]] = []
        self.away = False

    def __call__(self) -> None:
        if self.away:
            raise ConnectionError("away")
        self.read.append(((self.folder / "acl").read_text(), (self.folder / "passwords").read_text()))


@pytest.fixture
def broker(tmp_path: Path) -> ReloadCounter:
    return ReloadCounter(tmp_path / "made" / "access")


def test_the_broker_reloads_after_each_change(broker: ReloadCounter) -> None:
    """Each change is written first, and then reloaded once."""
    keeper = AccessKeeper(broker.folder, broker)
    for grants in (ANN, ANN, BOTH, ANN):
        keeper.keep(grants, HASHES)
    passwords = password_list(HASHES)
    assert [(access_list(each), passwords) for each in (ANN, BOTH, ANN)] == broker.read


def test_unchanged_files_are_not_written_again(broker: ReloadCounter) -> None:
    """They stay the same files."""
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    before = [(broker.folder / name).stat().st_ino for name in ("acl", "passwords")]
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert before == [(broker.folder / name).stat().st_ino for name in ("acl", "passwords")]


def test_a_new_process_reloads_the_broker(broker: ReloadCounter) -> None:
    """The process that wrote the files may have died before the reload."""
    AccessKeeper(broker.folder, lambda: None).keep(ANN, HASHES)
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert 1 == len(broker.read)


def test_a_failed_reload_is_repeated(broker: ReloadCounter) -> None:
    """The error is raised, and the next call reloads even if nothing has changed since."""
    keeper = AccessKeeper(broker.folder, broker)
    keeper.keep(ANN, HASHES)
    broker.away = True
    with pytest.raises(ConnectionError, match="away"):
        keeper.keep(BOTH, HASHES)
    broker.away = False
    keeper.keep(BOTH, HASHES)
    assert [access_list(ANN), access_list(BOTH)] == [acl for acl, _ in broker.read]


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o755, 0o600), (0o700, 0o600), (0o2750, 0o640), (0o2700, 0o640)]
)
def test_a_group_can_read_only_with_the_set_group_id_bit(
    broker: ReloadCounter, folder_mode: int, file_mode: int, umask: int
) -> None:
    """Otherwise only the owner can read the files."""
    broker.folder.mkdir(parents=True)
    broker.folder.chmod(folder_mode)
    before = os.umask(umask)
    try:
        AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    finally:
        os.umask(before)
    for name in ("acl", "passwords"):
        assert file_mode == stat.S_IMODE((broker.folder / name).stat().st_mode)


def test_a_file_with_wrong_permissions_is_written_again(broker: ReloadCounter) -> None:
    """That is so even if its content is right."""
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    (broker.folder / "passwords").chmod(0o644)
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert 0o600 == stat.S_IMODE((broker.folder / "passwords").stat().st_mode)


def test_a_leftover_temporary_file_is_not_written_to(broker: ReloadCounter) -> None:
    """Others may be able to read it."""
    (broker.folder / "tmp").mkdir(parents=True)
    left = broker.folder / "tmp" / "passwords"
    left.write_text("half")
    left.chmod(0o644)
    with left.open() as others:
        AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
        assert "half" == others.read()
    assert 0o600 == stat.S_IMODE((broker.folder / "passwords").stat().st_mode)


def test_unfit_grants_change_nothing(broker: ReloadCounter) -> None:
    """If a hash or a name is refused, both files stay, and the broker is not reloaded."""
    keeper = AccessKeeper(broker.folder, broker)
    keeper.keep(ANN, HASHES)
    with pytest.raises(ValueError, match="no hash"):
        keeper.keep(BOTH, {**HASHES, "tenant-bob": "plain"})
    with pytest.raises(UnfitName):
        keeper.keep({"b": Grant(tenant="b", writes=("#",))}, HASHES)
    assert [(access_list(ANN), password_list(HASHES))] == broker.read
    assert access_list(ANN) == (broker.folder / "acl").read_text()


def test_threads_keep_in_turn(broker: ReloadCounter) -> None:
    """However many threads call it, the broker reads one complete pair of files at a time, and the last pair last."""
    keeper = AccessKeeper(broker.folder, broker)
    wanted = [grant([f"t{n}"], []) for n in range(8)]
    hashes = [{f"tenant-t{n}": hashed("x")} for n in range(8)]
    threads = [threading.Thread(target=keeper.keep, args=pair) for pair in zip(wanted, hashes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(access_list(one), password_list(other)) for one, other in zip(wanted, hashes, strict=True)]
    assert sorted(pairs) == sorted(broker.read)
    assert broker.read[-1] == ((broker.folder / "acl").read_text(), (broker.folder / "passwords").read_text())
