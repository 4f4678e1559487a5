"""The keeper of carriages: when it decides, and that it publishes what is committed and nothing else."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge import topics
from manager.machines.keeper import read_standing
from manager.problem import StateNotReady
from ring.fleet import HostReport
from tests.manager.carriages.machines import Kept, commit, committed_of, hosts_of, standings, turn
from tests.manager.managers import Manager


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite).lead()
    yield made
    made.close()


@pytest.fixture
def kept(manager: Manager) -> Iterator[Kept]:
    made = Kept(manager)
    yield made
    made.close()


def message_of(kept: Kept, host: str = "h") -> dict[str, object]:
    ((_, message),) = [each for each in kept.retained() if hosts_of([each]) == [host]]
    found: dict[str, object] = json.loads(message)
    return found


def test_nothing_is_decided_or_published_without_machines(kept: Kept) -> None:
    """Services whose hosts report no machines go on as they did."""
    assert kept.look() == []
    assert kept.asked == []


def test_nothing_is_decided_before_everything_has_come(kept: Kept) -> None:
    """A machine whose status is still on its way is not taken to be lost."""
    kept.say_machine("a")
    assert kept.hearing.client is not None
    kept.hearing.client.stop()
    kept.hearing.until(lambda: not kept.hearing.listener.sight().complete, "the end of the connection")
    kept.keeper.look()
    assert kept.asked == []


def test_what_is_committed_is_published(kept: Kept) -> None:
    """The message is retained, and names the peers with their addresses and secrets."""
    kept.say_machine("a")
    kept.say_machine("b", at="10.0.0.2:7", boot="2")
    kept.look(turn("h", "a", term=2, version=5, heir="b", peers=("b", "c"), kept_by=frozenset({"b"})))
    assert message_of(kept) == {
        "host": "h",
        "machine": "a",
        "term": 2,
        "version": 5,
        "root": "",
        "heir": "b",
        "peers": [
            {"machine": "b", "at": "10.0.0.2:7", "secret": "secret of b"},
            {"machine": "c", "at": "", "secret": ""},
        ],
        "kept_by": ["b"],
    }


def test_machines_are_decided_on_as_they_reported(kept: Kept) -> None:
    """The decision gets every field of a status but the secret."""
    report = {"version": 3, "in_sync": ["b"], "broken": ["c"], "released": True, "behind_bytes": 9}
    kept.say_machine("a", zone="z", tags=["gpu"], types=["map"], root="r", cores=4, hosts={"h": report})
    kept.look()
    seen = kept.asked[-1].machines["a"]
    assert (seen.zone, seen.tags, seen.types, seen.root, seen.at, seen.cores) == (
        "z",
        frozenset({"gpu"}),
        frozenset({"map"}),
        "r",
        "a:1",
        4.0,
    )
    assert dict(seen.hosts) == {
        "h": HostReport(version=3, in_sync=frozenset({"b"}), broken=frozenset({"c"}), released=True, behind_bytes=9)
    }


def test_a_lead_lost_between_decision_and_commit_publishes_nothing(kept: Kept) -> None:
    """Neither the decision nor anything made from it leaves the manager."""
    kept.say_machine("a")
    other = Manager(kept.manager.url, "other")

    def lose() -> None:
        other.lead()

    kept.before_commit = lose
    with pytest.raises(StateNotReady, match="another manager leads"):
        kept.look(turn("h", "a"))
    other.close()
    assert kept.retained() == []


def test_a_new_leader_publishes_what_is_committed(kept: Kept) -> None:
    """What the leader before committed but did not publish is published, without a decision of one's own."""
    commit(committed_of(kept.manager), turn("h", "a", version=4))
    other = Kept(Manager(kept.manager.url, "other").lead())
    assert hosts_of(other.look()) == ["h"]
    assert read_standing(other.retained()[0][1]) == (1, 4)
    other.close()
    other.manager.close()


def test_a_leader_of_before_publishes_nothing_over_its_follower(kept: Kept) -> None:
    """A manager that cannot know yet that another leads leaves a newer message as it is."""
    kept.say_machine("a")
    kept.look(turn("h", "a"))
    newer = json.dumps({"host": "h", "machine": "b", "term": 2, "version": 2}).encode()
    kept.hearing.say(topics.host("h", "carrier"), newer)
    kept.hearing.settle()
    kept.hearing.clock += 60.0
    assert [message for _, message in kept.look()] == [newer]


@pytest.mark.parametrize("lost", [b"", b"{", b"[]", b'{"term": 1, "version": 0}'])
def test_a_message_that_the_broker_lost_is_published_again(kept: Kept, lost: bytes) -> None:
    """Missing, unreadable and older messages give way to what is committed."""
    kept.say_machine("a")
    kept.look(turn("h", "a"))
    kept.hearing.say(topics.host("h", "carrier"), lost)
    kept.hearing.settle()
    kept.hearing.clock += 60.0
    kept.look()
    assert message_of(kept)["machine"] == "a"


def test_everything_is_published_again_over_a_new_connection(kept: Kept) -> None:
    """A broker that lost its retained messages gets them again at once."""
    kept.say_machine("a")
    kept.look(turn("h", "a"), turn("i", "a"))
    assert kept.hearing.client is not None
    kept.hearing.client.stop()
    kept.hearing.until(lambda: not kept.hearing.listener.sight().complete, "the end of the connection")
    for host in ("h", "i"):
        kept.hearing.broker.publish(topics.host(host, "carrier"), b"", retain=True)
    kept.hearing.client.start()
    kept.hearing.until_complete()
    assert hosts_of(kept.look()) == ["h", "i"]


@pytest.mark.parametrize("change", [{"at": "elsewhere:2"}, {"secret": "another"}])
def test_a_peer_that_changes_is_published_again(kept: Kept, change: dict[str, Any]) -> None:
    """The address and secret of a peer are those that it reported last, without another version."""
    kept.say_machine("a")
    kept.say_machine("b")
    kept.look(turn("h", "a", peers=("b",)))
    kept.say_machine("b", **change)
    kept.look()
    expected = {"machine": "b", "at": "b:1", "secret": "secret of b", **change}
    assert (message_of(kept)["peers"], message_of(kept)["version"]) == ([expected], 1)


def test_a_lost_machine_that_is_known_is_not_cleared(kept: Kept) -> None:
    """Its status stays with the broker, so that operators see it, until somebody forgets it."""
    kept.tokens = {"a": 1}
    kept.say_machine("a")
    kept.look()
    kept.say_machine("a", alive=False)
    kept.look()
    assert "a" in kept.hearing.listener.machines()
    kept.tokens = {}
    kept.committed.forget("a", ending=(), who="operator")
    kept.look()
    assert "a" not in kept.hearing.listener.machines()


def test_nothing_is_sent_twice_while_it_is_under_way(kept: Kept) -> None:
    """A message whose echo has not come yet is repeated only after a while."""
    sent: list[str] = []

    def swallow(topic: str, _payload: bytes) -> bool:
        sent.append(topic)
        return topic.endswith("/carrier")

    kept.hearing.broker.swallows = swallow
    kept.say_machine("a")
    kept.look(turn("h", "a"))
    kept.look()
    assert sent.count(topics.host("h", "carrier")) == 1
    kept.hearing.clock += 2.0
    kept.look()
    assert sent.count(topics.host("h", "carrier")) == 2


def test_the_thread_decides_on_news_of_machines(kept: Kept) -> None:
    """A machine that appears is decided on, and what is decided is published."""
    kept.keeper.start()
    kept.turns.append(turn("h", "a"))
    kept.say_machine("a")
    kept.hearing.until(kept.retained, "the message")
    kept.keeper.stop()
    assert standings(kept.committed.fleet()) == {"h": ("a", 1, 1)}


def test_the_thread_survives_failures(kept: Kept) -> None:
    """Whatever a look raises, the next one is made."""
    failures: list[Callable[[], None]] = [_fail, _not_ready]
    kept.before_commit = lambda: failures.pop()() if failures else None
    kept.keeper.start()
    kept.say_machine("a")
    kept.hearing.until(lambda: not failures, "both failures")
    kept.turns.append(turn("h", "a"))
    kept.hearing.until(kept.retained, "the message")


def _fail() -> None:
    raise RuntimeError("a test says so")


def _not_ready() -> None:
    raise StateNotReady("a test says so")
