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

MOST, MOST_BYTES, MOST_IN_ALL, MOST_BYTES_IN_ALL = 5, 300, 8, 500


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


def kept(session: Session) -> list[tuple[int, int]]:
    """Return the stored letters by instance and batch, the newest first."""
    rows = session.scalars(select(DeadLetterRow).order_by(col(DeadLetterRow.id).desc()))
    return [(row.instance, row.batch) for row in rows]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(come=st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 400)), max_size=4), max_size=5))
def test_the_newest_letters_within_the_limits_are_kept(store: Store, come: list[list[tuple[int, int]]]) -> None:
    """That holds for each instance and in all, for any sizes and order; a single letter always fits."""
    with store.write() as session:
        for table in (DeadLetterRow, DeadLetterReaderRow, DeadLetterDropRow):
            session.execute(delete(table))
    expected: list[Letter] = []
    batch = came = 0
    for group in come:
        letters = []
        for instance, size in group:
            batch += 1
            letters.append(Letter(instance=instance, port="in", batch=batch, reason="x" * size, events=["ä"]))
        came += len(letters)
        expected = [*reversed(letters), *expected]
        for instance in {letter.instance for letter in letters}:
            mine = fitting([each for each in expected if each.instance == instance], MOST, MOST_BYTES)
            expected = [each for each in expected if each.instance != instance or each in mine]
        expected = fitting(expected, MOST_IN_ALL, MOST_BYTES_IN_ALL) if expected else []
        with store.write() as session:
            keep(
                session,
                letters,
                {each: {"ann": ["d-1"]} for each in (1, 2, 3)},
                at=0.0,
                most_of_instance=MOST,
                most_in_all=MOST_IN_ALL,
                most_bytes_of_instance=MOST_BYTES,
                most_bytes_in_all=MOST_BYTES_IN_ALL,
            )
    with store.read() as session:
        assert [(each.instance, each.batch) for each in expected] == kept(session)
        assert came - len(expected) == sum(row.count for row in session.scalars(select(DeadLetterDropRow)))
        assert len(expected) == len(session.scalars(select(DeadLetterReaderRow)).all())
