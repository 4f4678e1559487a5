"""How long a submission takes as a tenant has it: over REST, by one client and by four at once.

The service runs in this process, as it does in a manager; the clients are processes of their own, on the same cores.
"""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import Thread
from typing import NamedTuple

import uvicorn

from manager.client.client import Client
from manager.reconciler.live_events import LiveEvents
from manager.rest import make_app
from manager.service import Service

_CLIENTS = (1, 4)
_PATIENCE = 10.0


class TimedSubmission(NamedTuple):
    """A dataflow that was submitted, and the seconds that it took."""

    dataflow: str
    seconds: float


def submit(service: Service, key: str, documents: Sequence[bytes]) -> dict[int, list[TimedSubmission]]:
    """Submit documents, divided among so many clients at once."""
    found: dict[int, list[TimedSubmission]] = {}
    share = len(documents) // len(_CLIENTS)
    with _served(service) as url, multiprocessing.get_context("spawn").Pool(max(_CLIENTS)) as clients:
        for at, many in enumerate(_CLIENTS):
            part = documents[at * share : (at + 1) * share]
            asked = [(url, key, part[client::many]) for client in range(many)]
            found[many] = list(chain.from_iterable(clients.starmap(_submit, asked, chunksize=1)))
    return found


def _submit(url: str, key: str, documents: Sequence[bytes]) -> list[TimedSubmission]:
    made = []
    with Client(url, key) as client:
        # The connection is made once.
        list(client.sources())
        for document in documents:
            begun = time.perf_counter()
            answer = client.submit(document)
            made.append(TimedSubmission(answer.id, time.perf_counter() - begun))
    return made


@contextmanager
def _served(service: Service) -> Iterator[str]:
    app = make_app(service, LiveEvents(), lambda: None)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + _PATIENCE
    while not server.started:
        if time.monotonic() > deadline:
            raise TimeoutError("REST did not begin to serve")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)
