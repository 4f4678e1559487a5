"""Lists read in parts."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from manager.answers.base import Page
from manager.use_case import Paging

T = TypeVar("T")
MOST = 1_000


def parts(read: Callable[[Paging], Page[T]], limit: int) -> Iterator[tuple[T, ...]]:
    """Each part of a list, one after the other, as a reader asks for them."""
    after = None
    for _ in range(MOST):
        page = read(Paging(after=after, limit=limit))
        yield page.items
        if page.next is None:
            return
        # One that says that there is more is not empty, or a reader might never come to an end.
        assert page.items
        after = page.next
    raise AssertionError("the list has no end")


def every(read: Callable[[Paging], Page[T]], limit: int) -> list[T]:
    """A whole list, read in parts of so many at most."""
    found: list[T] = []
    for part in parts(read, limit):
        assert len(part) <= limit
        found += part
    return found
