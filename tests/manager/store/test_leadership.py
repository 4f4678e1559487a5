"""Leading: one of several managers leads, and whoever does not commits nothing."""

import threading
from collections.abc import Iterator

import pytest

from manager.store import leadership
from manager.store.database import Store
from manager.store.leadership import LEASE, Candidate
from manager.store.tables import Leadership


class Manager:
    """A candidate with a connection of its own, that writes down what it is told."""

    def __init__(self, url: str, name: str) -> None:
        self.store = Store(url)
        self.told: list[str] = []
        self.heard = threading.Condition()
        self.candidate = Candidate(self.store, name, won=self._won, lost=lambda: self.tell("lost"))

    def _won(self, term: int) -> None:
        self.tell(f"won {term}")

    def tell(self, what: str) -> None:
        with self.heard:
            self.told.append(what)
            self.heard.notify_all()

    def row(self) -> Leadership:
        with self.store.read() as session:
            return session.get_one(Leadership, 1)

    def wait(self, what: str) -> None:
        with self.heard:
            assert self.heard.wait_for(lambda: what in self.told, 60)

    def end_lease(self) -> None:
        """As if the time of the lease had passed."""
        with self.store.write() as session:
            session.get_one(Leadership, 1).until = self.store.now(session) - 0.001


@pytest.fixture
def managers(empty_url: str) -> Iterator[tuple[Manager, Manager]]:
    made = Manager(empty_url, "one"), Manager(empty_url, "two")
    yield made
    for each in made:
        each.store.close()


def test_one_leads_and_the_other_waits(managers: tuple[Manager, Manager]) -> None:
    """Who comes first leads under the first term, and as long as it renews nobody else does."""
    one, two = managers
    one.candidate.look()
    for _ in range(3):
        two.candidate.look()
        one.candidate.look()
    assert (["won 1"], []) == (one.told, two.told)
    row = two.row()
    assert ("one", 1) == (row.leader, row.term)


def test_renewing_lengthens_the_lease(managers: tuple[Manager, Manager]) -> None:
    """Each renewal has the lease end later, by the database's clock, and raises no term."""
    one, _ = managers
    one.candidate.look()
    with one.store.read() as session:
        first = session.get_one(Leadership, 1).until
        assert 0 < first - one.store.now(session) <= LEASE
    one.candidate.look()
    row = one.row()
    assert row.until > first
    assert row.term == 1


def test_the_lead_passes_on_when_the_lease_ends(managers: tuple[Manager, Manager]) -> None:
    """Who waits takes over once the lease has ended, under a higher term; who led is told when it looks again."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    one.candidate.look()
    assert (["won 1", "lost"], ["won 2"]) == (one.told, two.told)
    row = one.row()
    assert ("two", 2) == (row.leader, row.term)


def test_who_is_late_but_alone_leads_on(managers: tuple[Manager, Manager]) -> None:
    """A lease that ended while nobody else looked is renewed under the same term."""
    one, _ = managers
    one.candidate.look()
    one.end_lease()
    one.candidate.look()
    assert ["won 1"] == one.told
    assert one.row().until > 0


def test_who_leaves_gives_the_lead_back(managers: tuple[Manager, Manager]) -> None:
    """Another takes over at once from one that leaves; and a later return is under a term of its own."""
    one, two = managers
    one.candidate.look()
    one.candidate.leave()
    two.candidate.look()
    two.candidate.leave()
    one.candidate.look()
    assert (["won 1", "lost", "won 3"], ["won 2", "lost"]) == (one.told, two.told)


def test_who_lost_meanwhile_is_told_before_it_wins_again(managers: tuple[Manager, Manager]) -> None:
    """One whose lead went to another and back between two looks hears that it lost, and then the new term."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    two.candidate.leave()
    one.candidate.look()
    assert ["won 1", "lost", "won 3"] == one.told


def test_who_lost_takes_nothing_when_it_leaves(managers: tuple[Manager, Manager]) -> None:
    """One that was overtaken without having noticed leaves the other's lead as it is."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    one.candidate.leave()
    row = one.row()
    assert ("two", 2) == (row.leader, row.term)
    assert row.until > 0


def test_two_managers_of_one_name_are_told_apart(empty_url: str) -> None:
    """A manager that comes back under its name waits for the lease of the one before, for it may still run."""
    before, after = Manager(empty_url, "same"), Manager(empty_url, "same")
    before.candidate.look()
    after.candidate.look()
    assert (["won 1"], []) == (before.told, after.told)
    after.end_lease()
    after.candidate.look()
    before.candidate.look()
    assert (["won 1", "lost"], ["won 2"]) == (before.told, after.told)
    before.store.close()
    after.store.close()


def test_whoever_cannot_take_the_lead_up_tries_again(managers: tuple[Manager, Manager]) -> None:
    """If what is to be done on winning fails, the candidate does not take itself for the leader, and another may be."""
    one, two = managers
    broken = [True]

    def won(term: int) -> None:
        if broken.pop() if broken else False:
            raise RuntimeError("cannot be loaded")
        one.tell(f"won {term}")

    candidate = Candidate(one.store, "one", won=won, lost=lambda: one.tell("lost"))
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        candidate.look()
    two.candidate.look()
    assert ([], []) == (one.told, two.told)
    one.end_lease()
    candidate.look()
    assert ["won 2"] == one.told


def test_candidates_work_by_themselves(
    managers: tuple[Manager, Manager], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Started, one leads; stopped, it gives the lead to the other; what fails on the way is logged and tried again."""
    monkeypatch.setattr(leadership, "RENEW_EVERY", 0.02)
    monkeypatch.setattr(leadership, "LEASE", 0.2)
    one, two = managers
    failed = threading.Event()

    def won(term: int) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError(f"term {term} cannot be loaded")
        one.tell("won")

    candidate = Candidate(one.store, "one", won=won, lost=lambda: one.tell("lost"))
    candidate.start()
    one.wait("won")
    assert "the lead could not be taken, renewed or given back; it is tried again" in caplog.text
    # So long that only leaving can pass the lead on.
    monkeypatch.setattr(leadership, "LEASE", 600.0)
    two.candidate.start()
    candidate.stop()
    with two.heard:
        assert two.heard.wait_for(lambda: two.told, 60)
    assert ["won", "lost"] == one.told
    two.candidate.stop()
    assert two.told[1:] == ["lost"]
    assert ("", 0.0) == (two.row().leader, two.row().until)
