"""The lead: one of several managers leads, and no other commits."""

import threading
from collections.abc import Iterator

import pytest

from manager.store import leadership
from manager.store.database import Store
from manager.store.leadership import LEASE, Candidate
from manager.store.tables import Leadership


class Manager:
    """A candidate with a connection of its own, which records its callbacks."""

    def __init__(self, url: str, name: str) -> None:
        self.store = Store(url)
        self.calls: list[str] = []
        self.heard = threading.Condition()
        self.candidate = Candidate(self.store, name, won=self._won, lost=lambda: self.record("lost"))

    def _won(self, term: int) -> None:
        self.record(f"won {term}")

    def record(self, what: str) -> None:
        with self.heard:
            self.calls.append(what)
            self.heard.notify_all()

    def row(self) -> Leadership:
        with self.store.read() as session:
            return session.get_one(Leadership, 1)

    def wait(self, what: str) -> None:
        with self.heard:
            assert self.heard.wait_for(lambda: what in self.calls, 60)

    def end_lease(self) -> None:
        """Let the time of the lease pass."""
        with self.store.write() as session:
            session.get_one(Leadership, 1).until = self.store.now(session) - 0.001


@pytest.fixture
def managers(empty_url: str) -> Iterator[tuple[Manager, Manager]]:
    made = Manager(empty_url, "one"), Manager(empty_url, "two")
    yield made
    for each in made:
        each.store.close()


def test_one_leads_and_the_other_waits(managers: tuple[Manager, Manager]) -> None:
    """The first leads in the first term, and keeps the lead as long as it renews."""
    one, two = managers
    one.candidate.look()
    for _ in range(3):
        two.candidate.look()
        one.candidate.look()
    assert (["won 1"], []) == (one.calls, two.calls)
    row = two.row()
    assert ("one", 1) == (row.leader, row.term)


def test_renewing_extends_the_lease(managers: tuple[Manager, Manager]) -> None:
    """Each renewal moves the end of the lease, by the database's clock, and keeps the term."""
    one, _ = managers
    one.candidate.look()
    with one.store.read() as session:
        first = session.get_one(Leadership, 1).until
        assert 0 < first - one.store.now(session) <= LEASE
    one.candidate.look()
    row = one.row()
    assert row.until > first
    assert row.term == 1


def test_the_lead_passes_on_after_the_lease(managers: tuple[Manager, Manager]) -> None:
    """The waiting manager takes over in a higher term, and the old one learns it at its next look."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    one.candidate.look()
    assert (["won 1", "lost"], ["won 2"]) == (one.calls, two.calls)
    row = one.row()
    assert ("two", 2) == (row.leader, row.term)


def test_a_late_renewal_keeps_the_lead_if_no_other_looked(managers: tuple[Manager, Manager]) -> None:
    """It keeps the term too."""
    one, _ = managers
    one.candidate.look()
    one.end_lease()
    one.candidate.look()
    assert ["won 1"] == one.calls
    assert one.row().until > 0


def test_a_manager_that_leaves_gives_the_lead_back(managers: tuple[Manager, Manager]) -> None:
    """Another takes over at once, and a later return is in a new term."""
    one, two = managers
    one.candidate.look()
    one.candidate.leave()
    two.candidate.look()
    two.candidate.leave()
    one.candidate.look()
    assert (["won 1", "lost", "won 3"], ["won 2", "lost"]) == (one.calls, two.calls)


def test_a_loss_between_two_looks_is_reported_before_the_next_win(managers: tuple[Manager, Manager]) -> None:
    """The lead had passed to another manager and come back."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    two.candidate.leave()
    one.candidate.look()
    assert ["won 1", "lost", "won 3"] == one.calls


def test_a_manager_that_lost_the_lead_does_not_give_it_back(managers: tuple[Manager, Manager]) -> None:
    """It leaves the other's lead as it is, even if it has not noticed its loss."""
    one, two = managers
    one.candidate.look()
    one.end_lease()
    two.candidate.look()
    one.candidate.leave()
    row = one.row()
    assert ("two", 2) == (row.leader, row.term)
    assert row.until > 0


def test_managers_of_the_same_name_are_distinguished(empty_url: str) -> None:
    """One that comes back waits for the lease of the one before, which may still run."""
    before, after = Manager(empty_url, "same"), Manager(empty_url, "same")
    before.candidate.look()
    after.candidate.look()
    assert (["won 1"], []) == (before.calls, after.calls)
    after.end_lease()
    after.candidate.look()
    before.candidate.look()
    assert (["won 1", "lost"], ["won 2"]) == (before.calls, after.calls)
    before.store.close()
    after.store.close()


def test_a_failed_win_is_tried_again(managers: tuple[Manager, Manager]) -> None:
    """The candidate does not count as leading then, and another may lead."""
    one, two = managers
    broken = [True]

    def won(term: int) -> None:
        if broken.pop() if broken else False:
            raise RuntimeError("cannot be loaded")
        one.record(f"won {term}")

    candidate = Candidate(one.store, "one", won=won, lost=lambda: one.record("lost"))
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        candidate.look()
    two.candidate.look()
    assert ([], []) == (one.calls, two.calls)
    one.end_lease()
    candidate.look()
    assert ["won 2"] == one.calls


def test_candidates_run_in_their_own_threads(
    managers: tuple[Manager, Manager], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One leads, and on its stop the other does; errors on the way are logged and tried again."""
    monkeypatch.setattr(leadership, "RENEW_EVERY", 0.02)
    monkeypatch.setattr(leadership, "LEASE", 0.2)
    one, two = managers
    failed = threading.Event()

    def won(term: int) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError(f"term {term} cannot be loaded")
        one.record("won")

    candidate = Candidate(one.store, "one", won=won, lost=lambda: one.record("lost"))
    candidate.start()
    one.wait("won")
    assert "the lead could not be taken, renewed or given back; it is tried again" in caplog.text
    # So long that only leaving can pass the lead on.
    monkeypatch.setattr(leadership, "LEASE", 600.0)
    two.candidate.start()
    candidate.stop()
    with two.heard:
        assert two.heard.wait_for(lambda: two.calls, 60)
    assert ["won", "lost"] == one.calls
    two.candidate.stop()
    assert two.calls[1:] == ["lost"]
    assert ("", 0.0) == (two.row().leader, two.row().until)
