"""The client for programs that await; in a module of its own, since `asyncio` takes long to load."""

from braid_client.async_connection import AsyncServiceConnection
from braid_client.client import ClientMethods


class AsyncClient(ClientMethods, AsyncServiceConnection):
    """Asks one service like `Client`; its methods are awaited, and lists and streams are read with `async for`."""
