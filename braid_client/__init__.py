"""The client of the service: `Client`, and `AsyncClient` with the same methods.

Both send the requests of `braid_client.requests` and `braid_client.sources` by the rules of `braid_client.errors`. A
request that fails raises `NotDone`: `Refused` by the service, `Unreachable`, or `NotUnderstood`. Waiting for a dataflow
that does not run raises `NotRunning`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braid_client.async_client import AsyncClient
    from braid_client.client import Client
    from braid_client.errors import NotDone, NotRunning, NotUnderstood, Refused, Unreachable

__all__ = ["AsyncClient", "Client", "NotDone", "NotRunning", "NotUnderstood", "Refused", "Unreachable"]


def __getattr__(name: str) -> Any:
    """Load what is used, so that a program that only needs an answer's type does not wait for a client."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"AsyncClient": "async_client", "Client": "client"}.get(name, "errors")
    return getattr(import_module(f"{__name__}.{module}"), name)
