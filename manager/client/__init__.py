"""The client of the service: `Client`, and `AsyncClient` with the same methods.

What can be asked is written once, in `manager.client.requests`; when it is asked again, in `manager.client.retry`.
What was not done is raised as `NotDone`: `Refused` by the service, `Unreachable`, or `NotUnderstood`.
"""

from manager.client.async_client import AsyncClient
from manager.client.client import Client
from manager.client.errors import NotDone, NotUnderstood, Refused, Unreachable

__all__ = ["AsyncClient", "Client", "NotDone", "NotUnderstood", "Refused", "Unreachable"]
