"""Limits of dead letters in number and bytes: the oldest are dropped, and counted."""

from collections.abc import Iterator
from itertools import accumulate, takewhile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete
from sqlmodel import Session, col, select

from manager.store.database import Store
from manager.store.dead_letters import Letter, keep
from manager.store.tables import DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow

MOST, MOST_BYTES = 5, 300
MOST_OF_TENANT, MOST_BYTES_OF_TENANT = 6, 400
MOST_IN_ALL, MOST_BYTES_IN_ALL = 8, 500
READERS = {1: {"ann": ["d-1"]}, 2: {"ann": ["d-1"], "bob": ["d-2"]}, 3: {"bob": ["d-2"]}}


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    made = Store(empty_url)
    yield made
    made.close()


def fitting(letters: list[Letter], most: int, most_bytes: int) -> list[Letter]:
    """Return the newest letters within the limits, computed in the simplest way; the newest is first."""
    sums = accumulate(letter.size for letter in letters)
    within = list(takewhile(lambda each: each[1] <= most_bytes, zip(letters, sums, strict=True)))
    return [letter for letter, _ in within][:most] or letters[:1]


def kept(session: Session) -> list[tuple[int, int, set[str]]]:
    """Return the stored letters by instance and batch with their readers, the newest first."""
    rows = session.scalars(select(DeadLetterRow).order_by(col(DeadLetterRow.id).desc())).all()
    readers = session.scalars(select(DeadLetterReaderRow)).all()
    return [(row.instance, row.batch, {each.tenant for each in readers if each.letter == row.id}) for row in rows]


class Model:
    """The simplest bookkeeping of letters and of who reads them, the newest first."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.readers: dict[int, set[str]] = {}
        """By batch, which each letter has to itself."""

    def come(self, letters: list[Letter]) -> None:
        """Keep letters within each limit in turn."""
        self.letters = [*reversed(letters), *self.letters]
        self.readers |= {letter.batch: set(READERS[letter.instance]) for letter in letters}
        for instance in {letter.instance for letter in letters}:
            self._keep([each for each in self.letters if each.instance == instance], MOST, MOST_BYTES)
        for tenant in sorted({tenant for letter in letters for tenant in READERS[letter.instance]}):
            mine = [each for each in self.letters if tenant in self.readers[each.batch]]
            for each in mine[len(fitting(mine, MOST_OF_TENANT, MOST_BYTES_OF_TENANT)) :]:
                self.readers[each.batch].discard(tenant)
            self.letters = [each for each in self.letters if self.readers[each.batch]]
        self._keep(self.letters, MOST_IN_ALL, MOST_BYTES_IN_ALL)

    def _keep(self, which: list[Letter], most: int, most_bytes: int) -> None:
        gone = which[len(fitting(which, most, most_bytes)) :] if which else []
        self.letters = [each for each in self.letters if each not in gone]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(come=st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 400)), max_size=4), max_size=5))
def test_the_newest_letters_within_the_limits_are_kept(store: Store, come: list[list[tuple[int, int]]]) -> None:
    """That holds for each instance, each tenant and in all, for any sizes and order; a single letter always fits."""
    with store.write() as session:
        for table in (DeadLetterRow, DeadLetterReaderRow, DeadLetterDropRow):
            session.execute(delete(table))
    model = Model()
    came = 0
    for group in come:
        letters = [
            Letter(instance=instance, port="in", batch=came + at, reason="x" * size, events=["ä"])
            for at, (instance, size) in enumerate(group)
        ]
        came += len(letters)
        model.come(letters)
        with store.write() as session:
            keep(
                session,
                letters,
                READERS,
                at=0.0,
                most_of_instance=MOST,
                most_of_tenant=MOST_OF_TENANT,
                most_in_all=MOST_IN_ALL,
                most_bytes_of_instance=MOST_BYTES,
                most_bytes_of_tenant=MOST_BYTES_OF_TENANT,
                most_bytes_in_all=MOST_BYTES_IN_ALL,
            )
    with store.read() as session:
        expected = [(each.instance, each.batch, model.readers[each.batch]) for each in model.letters]
        assert expected == kept(session)
        assert came - len(expected) == sum(row.count for row in session.scalars(select(DeadLetterDropRow)))


def test_a_tenant_with_many_letters_takes_none_from_others(store: Store) -> None:
    """However many letters one tenant has, another one keeps all that are within its own limits."""
    letters = [Letter(instance=3, port="in", batch=at, reason="bob's", events=[at]) for at in range(2)]
    flood = [Letter(instance=1, port="in", batch=at, reason="ann's", events=[at]) for at in range(50)]
    with store.write() as session:
        keep(session, letters, READERS, at=0.0, most_of_tenant=4, most_in_all=8)
        for each in flood:
            keep(session, [each], READERS, at=1.0, most_of_tenant=4, most_in_all=8)
    with store.read() as session:
        found = kept(session)
    assert [batch for instance, batch, _ in found if instance == 1] == [49, 48, 47, 46]
    assert [batch for instance, batch, _ in found if instance == 3] == [1, 0]
