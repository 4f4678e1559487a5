"""The keeper of carriages: what is committed, when it decides, and what it publishes of that."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from braid_client.answers.overview import OperationKind
from bridge import topics
from manager.machines.carriages import CommittedCarriages, decide_with
from manager.machines.keeper import CarriageKeeper, read_standing
from manager.problem import StateNotReady
from manager.use_case import Paging
from ring.fleet import Carriage, HostReport
from ring.tokens import Ring
from tests.bridge.otlp import tracing
from tests.manager.machines.carriages import Kept, commit, committed_of, hosts_of, standings, turn
from tests.manager.managers import OPERATOR, Manager, leading

PEERED: dict[str, Any] = {
    "term": 3,
    "version": 2**40,
    "heir": "b",
    "peers": ("c", "b"),
    "kept_by": frozenset({"b"}),
    "root": "r",
}


@pytest.fixture
def on_any(empty_url: str) -> Iterator[Manager]:
    yield from leading(empty_url)


def journal(manager: Manager) -> list[tuple[OperationKind, str, str]]:
    found = manager.service.operations.page(OPERATOR, Paging())
    return [(each.kind, each.subject, each.note) for each in found.items]


def test_a_committed_carriage_is_read_as_it_was(on_any: Manager) -> None:
    """Another reader of the database finds every field of a carriage, the places on the ring, and who drains."""
    committed = committed_of(on_any)
    commit(committed, turn("h", "a", **PEERED), tokens={"a": 2**32 - 1, "b": 0})
    committed.drain("b", draining=True, who="operator")
    fleet = committed_of(on_any).fleet()
    assert fleet == committed.fleet()
    assert dict(fleet.carriages) == {"h": Carriage(host="h", machine="a", **PEERED)}
    assert (dict(fleet.tokens), fleet.draining) == ({"a": 2**32 - 1, "b": 0}, frozenset({"b"}))


def test_a_machine_that_left_the_ring_has_no_place(on_any: Manager) -> None:
    """Tokens are committed as a whole; a machine without one still drains."""
    committed = committed_of(on_any)
    commit(committed, tokens={"a": 1, "b": 2})
    committed.drain("b", draining=True, who="operator")
    commit(committed, tokens={"a": 1})
    fleet = committed_of(on_any).fleet()
    assert (dict(fleet.tokens), fleet.draining) == ({"a": 1}, frozenset({"b"}))


def test_the_journal_tells_take_overs_and_hand_overs(on_any: Manager) -> None:
    """Each change of a carrier has an entry with the reason; other versions have none."""
    committed = committed_of(on_any)
    commit(committed, turn("h", "a"))
    commit(committed, turn("h", "a", version=2, peers=("b",)))
    commit(committed, turn("h", "b", version=3, term=2))
    commit(committed, turn("h", "b", version=4, term=2, heir="a"))
    commit(committed, turn("h", "a", version=5, term=3))
    assert journal(on_any) == [
        (OperationKind.HAND_OVER, "h", "from b to a: a test says so"),
        (OperationKind.TAKE_OVER, "h", "from a to b: a test says so"),
    ]


def test_moved_tokens_are_in_the_journal_and_points_stay(on_any: Manager) -> None:
    """With the reason; who reads it anew finds each host's point."""
    committed = committed_of(on_any)
    commit(committed, turn("h", "a", point=2**32 - 1), tokens={"a": 1, "b": 2})
    committed.commit(committed.fleet(), (), {"a": 1, "b": 5}, balance="a had too much")
    assert journal(on_any) == [(OperationKind.BALANCE, "machines", "a had too much")]
    found = committed_of(on_any).fleet()
    assert (found.carriages["h"].point, dict(found.tokens)) == (2**32 - 1, {"a": 1, "b": 5})


def test_drains_are_noted_once(on_any: Manager) -> None:
    """A machine that drains already is not drained again."""
    committed = committed_of(on_any)
    for draining in (False, True, True, False, False):
        committed.drain("a", draining=draining, who="operator")
    assert [kind for kind, _, _ in journal(on_any)] == [OperationKind.UNDRAIN_MACHINE, OperationKind.DRAIN_MACHINE]
    assert committed.fleet().draining == frozenset()


def test_a_forgotten_machine_leaves_its_place_to_its_neighbour(on_any: Manager) -> None:
    """Nothing of it is kept but the last terms of the hosts that ended with it; the journal has it once."""
    committed = committed_of(on_any)
    commit(committed, turn("a", "a", **PEERED), turn("b", "b"), tokens={"a": 7, "b": 90})
    committed.drain("a", draining=True, who="operator")
    for _ in range(2):
        committed.forget("a", ending=committed.fleet().carriages.keys() & {"a"}, who="operator")
    fleet = committed_of(on_any).fleet()
    assert fleet == committed.fleet()
    assert (dict(fleet.tokens), fleet.draining, standings(fleet)) == ({"b": 7}, frozenset(), {"b": ("b", 1, 1)})
    assert dict(fleet.ended) == {"a": Carriage(host="a", machine="", term=3, version=2**40)}
    assert journal(on_any)[0] == (OperationKind.FORGET_MACHINE, "a", "host a ended with it")
    assert [kind for kind, _, _ in journal(on_any)].count(OperationKind.FORGET_MACHINE) == 1


def test_only_the_leader_commits(on_any: Manager) -> None:
    """A manager that another has followed changes nothing, even if it does not know that yet."""
    committed = committed_of(on_any)
    commit(committed, turn("h", "a"))
    other = Manager(on_any.url, "other").lead()
    try:
        assert on_any.committer.leads
        with pytest.raises(StateNotReady, match="another manager leads"):
            commit(committed, turn("h", "late", version=2))
        with pytest.raises(StateNotReady, match="another manager leads"):
            committed.drain("a", draining=True, who="operator")
        fleet = committed_of(other).fleet()
        assert (standings(fleet), fleet.draining) == ({"h": ("a", 1, 1)}, frozenset())
    finally:
        other.close()


def test_a_leader_again_reads_what_others_committed(on_any: Manager) -> None:
    """Nothing that was known in an earlier term is taken for what is committed."""
    committed = committed_of(on_any)
    commit(committed, turn("h", "a"))
    other = Manager(on_any.url, "other").lead()
    commit(committed_of(other), turn("h", "b", version=2, term=2))
    other.close()
    on_any.candidate.look()
    on_any.lead()
    assert standings(committed.fleet()) == {"h": ("b", 2, 2)}


def test_a_manager_that_does_not_lead_refuses(sqlite: str) -> None:
    """It neither reads nor commits."""
    on_any = Manager(sqlite)
    committed = committed_of(on_any)
    with pytest.raises(StateNotReady, match="does not lead"):
        committed.fleet()
    with pytest.raises(StateNotReady, match="does not lead"):
        committed.drain("a", draining=True, who="operator")
    on_any.close()


def test_a_decision_on_an_older_fleet_is_refused(on_any: Manager) -> None:
    """What has changed since the decision is not overwritten, even by the same manager."""
    committed: CommittedCarriages = committed_of(on_any)
    base = committed.fleet()
    committed.drain("a", draining=True, who="operator")
    with pytest.raises(StateNotReady, match="decided on"):
        committed.commit(base, (turn("h", "a"),), {})
    assert standings(committed.fleet()) == {}


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite)


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


class Deciding(Kept):
    """A keeper that decides as a service with one copy of each host does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.keeper = CarriageKeeper(
            self.committed,
            self.hearing.listener,
            decide_with(1),
            leads=lambda: self.manager.committer.leads,
            clock=lambda: self.hearing.clock,
        )

    def settle(self) -> dict[str, Carriage]:
        """Look until nothing changes."""
        while self.keeper.look():
            self.hearing.settle()
        return dict(self.committed.fleet().carriages)

    def carries(self, machine: str, *hosts: str, own: Sequence[str] = (), **fields: object) -> None:
        """Have a machine report that it acts upon the latest carriages of hosts, and gates on all peers."""
        carriages = self.committed.fleet().carriages
        reports = {
            host: {"version": carriages[host].version, "in_sync": list(carriages[host].peers), **fields}
            for host in hosts
        }
        self.say_machine(machine, root=f"root of {machine}", own=own, hosts=reports)

    def messages(self) -> dict[str, Any]:
        return {each["host"]: each for each in (json.loads(message) for _, message in self.retained())}


@pytest.fixture
def deciding(sqlite: str) -> Iterator[Deciding]:
    manager = Manager(sqlite).lead()
    made = Deciding(manager)
    for name in ("a", "b", "c"):
        made.say_machine(name, root=f"root of {name}")
    made.settle()
    yield made
    made.close()
    manager.close()


def test_each_machine_carries_its_host_and_gets_a_place(deciding: Deciding) -> None:
    """Every host has a peer, and every machine its own token on the ring."""
    fleet = deciding.committed.fleet()
    assert {host: each.machine for host, each in fleet.carriages.items()} == {"a": "a", "b": "b", "c": "c"}
    assert all(len(each.peers) == 1 for each in fleet.carriages.values())
    assert len(set(fleet.tokens.values())) == len(fleet.tokens) == 3


def test_a_lost_machine_is_replaced_by_who_has_everything(deciding: Deciding) -> None:
    """The message names the peer as the carrier in the next term, a second after the loss."""
    deciding.carries("a", "a")
    (peer,) = deciding.settle()["a"].peers
    deciding.say_machine("a", alive=False)
    assert deciding.settle()["a"].machine == "a"
    deciding.hearing.clock += 1.0
    assert deciding.settle()["a"].machine == peer
    deciding.hearing.settle()
    order = deciding.messages()["a"]
    assert (order["machine"], order["term"], order["kept_by"]) == (peer, 2, [])


def test_a_take_over_is_a_span_until_the_host_runs_again(deciding: Deciding) -> None:
    """From the loss of its machine on, and it names both machines."""
    with tracing() as sent_spans:
        deciding.carries("a", "a")
        (peer,) = deciding.settle()["a"].peers
        deciding.say_machine("a", alive=False)
        deciding.settle()
        deciding.hearing.clock += 1.5
        deciding.settle()
        deciding.hearing.say(topics.host("a", "status"), {"host": "a", "alive": True, "machine": peer})
        deciding.hearing.settle()
        deciding.keeper.look()
        (made,) = sent_spans().values()
    assert OperationKind.TAKE_OVER == made.name
    assert ("a", peer, "a") == tuple(made.attributes[f"braid.{part}"] for part in ("host", "machine", "machine.before"))
    assert made.ended - made.began > 500_000_000


def test_a_host_without_a_copy_waits_for_its_machine(deciding: Deciding) -> None:
    """A peer that is not known to have everything takes nothing over."""
    deciding.say_machine("a", alive=False)
    deciding.hearing.clock += 3_600.0
    deciding.settle()
    assert deciding.committed.fleet().carriages["a"].machine == "a"


def test_a_machine_that_drains_hands_its_hosts_over(deciding: Deciding) -> None:
    """The heir is published; once the carrier has released the host, the heir carries it, and the journal says why."""
    deciding.carries("a", "a")
    (peer,) = deciding.settle()["a"].peers
    deciding.committed.drain("a", draining=True, who="operator")
    deciding.carries("a", "a")
    assert deciding.settle()["a"].heir == peer
    deciding.hearing.settle()
    assert deciding.messages()["a"]["heir"] == peer
    deciding.carries("a", "a", released=True)
    after = deciding.settle()["a"]
    assert (after.machine, after.heir, after.term) == (peer, "", 2)


def test_a_machine_with_too_much_to_do_hands_a_host_over(deciding: Deciding) -> None:
    """After its load was uneven for a minute: tokens move, with an entry in the journal, and its heir is published."""
    deciding.say_machine("a", root="root of a", own=["a", "a.2"])
    deciding.settle()
    for step in range(2 * 20):
        cpu = {"1": {"cpu_ns": step * 10**9}}
        for job, host in (("1", "a"), ("2", "a.2")):
            deciding.hearing.say(topics.job(job, "status"), {"host": host, "state": "running"})
            deciding.hearing.say(topics.job(job, "metrics"), {"run": 1, "batch": step, "instances": cpu})
        deciding.hearing.clock += 4.0
        for name, hosts in (("a", ("a", "a.2")), ("b", ("b",)), ("c", ("c",))):
            deciding.carries(name, *hosts, own=hosts)
        deciding.settle()
    found = deciding.committed.fleet()
    home = Ring(found.tokens).owner(found.carriages["a.2"].point)
    assert home in {"b", "c"}
    assert found.carriages["a.2"].heir == home
    noted = deciding.manager.service.operations.page(OPERATOR, Paging()).items
    assert ["a.2 to"] == [each.note.rsplit(": ", 1)[-1][:6] for each in noted if each.kind is OperationKind.BALANCE]


def test_a_forgotten_machine_that_returns_is_new(deciding: Deciding) -> None:
    """The broker retains nothing of it and its host; back with its old disk, its host begins in the next term."""
    deciding.carries("a", "a")
    before = deciding.settle()["a"]
    deciding.say_machine("a", alive=False)
    deciding.hearing.say(topics.host("a", "status"), {"host": "a", "alive": False})
    deciding.hearing.settle()
    deciding.committed.forget("a", ending={"a"}, who="operator")
    deciding.settle()
    # From now on nobody sends it copies.
    deciding.hearing.clock += 1.0
    deciding.settle()
    deciding.hearing.settle()
    everything = deciding.hearing.broker.retained([topics.host("+", "+"), topics.machine("+", "status")])
    assert [] == [topic for topic, _ in everything if topic.split("/")[3] == "a"]
    deciding.say_machine("a", root="root of a", hosts={"a": {"version": before.version}})
    after = deciding.settle()["a"]
    assert (after.machine, after.term) == ("a", before.term + 1)
    assert after.version > before.version
    assert "a" in deciding.committed.fleet().tokens
    deciding.hearing.settle()
    assert (deciding.messages()["a"]["term"], deciding.committed.fleet().ended) == (after.term, {})


def test_a_machine_that_returns_with_a_forgotten_host_is_known_to_carry_it(deciding: Deciding) -> None:
    """By orders that only it remembers; it gets one of the next term, and the host goes home when that can be."""
    deciding.say_machine("b", alive=False)
    deciding.say_machine("c", alive=False)
    deciding.committed.forget("b", ending={"b"}, who="operator")
    assert "b" not in deciding.settle()
    deciding.say_machine("c", root="root of c", hosts={"b": {"version": 1}, "c": {"version": 1}})
    assert (deciding.settle()["b"].machine, deciding.settle()["b"].term) == ("c", 2)


def test_a_new_leader_goes_on_with_the_same_places(deciding: Deciding) -> None:
    """Tokens and carriages are committed, so nothing moves because another manager leads."""
    before = deciding.committed.fleet()
    other = Deciding(Manager(deciding.manager.url, "other").lead())
    for name in ("a", "b", "c"):
        other.say_machine(name, root=f"root of {name}")
    other.settle()
    assert other.committed.fleet() == before
    other.close()
    other.manager.close()
