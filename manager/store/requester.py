"""The requester of what is done now, for the journal: set for each request, and empty for what Braid does by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Requester:
    """Who asks, as far as that is known; the threads that serve a request share it."""

    address: str = ""
    caller: str = ""
    """The id of the API key, or the subject at the provider."""
    name: str = ""
    """The note on the key, or what people call the person."""
    who: str = ""
    """The name in the journal: a tenant, or the operator."""


_REQUESTER: ContextVar[Requester | None] = ContextVar("requester", default=None)


@contextmanager
def requested_from(address: str) -> Iterator[None]:
    """Have what is done within the context be done for a requester at an address, who is not known yet."""
    outer = _REQUESTER.set(Requester(address=address))
    try:
        yield
    finally:
        _REQUESTER.reset(outer)


def requester() -> Requester:
    """Who asks for what is done now; nobody outside of a request."""
    return _REQUESTER.get() or Requester()
