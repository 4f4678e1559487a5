"""The client of the service: `Client`, and `AsyncClient` with the same methods.

Both send the requests of `manager.client.requests` by the rules of `manager.client.errors`. A request that fails raises
`NotDone`: `Refused` by the service, `Unreachable`, or `NotUnderstood`.
"""

from manager.client.client import AsyncClient, Client
from manager.client.errors import NotDone, NotUnderstood, Refused, Unreachable

__all__ = ["AsyncClient", "Client", "NotDone", "NotUnderstood", "Refused", "Unreachable"]
