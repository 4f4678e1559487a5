"""The client of the service: `Client`, and `AsyncClient` with the same methods.

Both send the requests of `braid_client.requests` by the rules of `braid_client.errors`. A request that fails raises
`NotDone`: `Refused` by the service, `Unreachable`, or `NotUnderstood`; and a dataflow that is waited for, `NotRunning`.
"""

from braid_client.client import AsyncClient, Client
from braid_client.errors import NotDone, NotRunning, NotUnderstood, Refused, Unreachable

__all__ = ["AsyncClient", "Client", "NotDone", "NotRunning", "NotUnderstood", "Refused", "Unreachable"]
