"""How long requests take as a tenant has them: over REST, by one client, by four at once, and beside large documents.

The service runs in this process, as it does in a manager; the clients are processes of their own, on the same cores.
"""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle, takewhile
from typing import NamedTuple

from benchmarks.instruments import clocked
from braid_client.client import Client
from manager.kernel.live_events import LiveEvents
from manager.rest.app import Server, make_app
from manager.service import Service
from workloads.service import free_port

_CLIENTS = (1, 4)
_EXPLAINING = 6


class TenantDocuments(NamedTuple):
    """A tenant's key, and what it sends."""

    key: str
    documents: Sequence[bytes]


class Beside(NamedTuple):
    """The seconds of a tenant's requests; made by `beside_large`."""

    alone: list[float]
    beside: list[float]
    """While another tenant has six large documents explained at once."""
    explained: list[float]
    """Those of the other tenant."""


class TimedSubmission(NamedTuple):
    """A dataflow that was submitted, and the seconds that it took."""

    dataflow: str
    seconds: float


def submit(service: Service, key: str, documents: Sequence[bytes]) -> dict[int, list[TimedSubmission]]:
    """Submit documents, divided among so many clients at once."""
    submitted: dict[int, list[TimedSubmission]] = {}
    share = len(documents) // len(_CLIENTS)
    with _served(service) as url, multiprocessing.get_context("spawn").Pool(max(_CLIENTS)) as clients:
        for at, many in enumerate(_CLIENTS):
            part = documents[at * share : (at + 1) * share]
            arguments = [(url, key, part[client::many]) for client in range(many)]
            submitted[many] = list(chain.from_iterable(clients.starmap(_submit, arguments, chunksize=1)))
    return submitted


def _submit(url: str, key: str, documents: Sequence[bytes]) -> list[TimedSubmission]:
    made = []
    with Client(url, key) as client:
        # The connection is made once.
        list(client.sources())
        for document in documents:
            answer, seconds = clocked(client.submit, document)
            made.append(TimedSubmission(answer.id, seconds))
    return made


def beside_large(service: Service, small: TenantDocuments, large: TenantDocuments, seconds: float) -> Beside:
    """Submit and remove small documents, alone and then while large ones are explained, each for so many seconds."""
    with _served(service) as url, multiprocessing.get_context("spawn").Pool(1 + _EXPLAINING) as clients:
        # All of them have begun before anything is measured.
        clients.starmap(_explain, [(url, large, 0.0)] * 4 * (1 + _EXPLAINING), chunksize=1)
        alone = clients.apply(_come_and_go, (url, small, seconds))
        explaining = clients.starmap_async(_explain, [(url, large, seconds)] * _EXPLAINING, chunksize=1)
        beside = clients.apply(_come_and_go, (url, small, seconds))
        return Beside(alone, beside, list(chain.from_iterable(explaining.get())))


def _come_and_go(url: str, sent: TenantDocuments, seconds: float) -> list[float]:
    took: list[float] = []
    with Client(url, sent.key) as client:
        until = time.perf_counter() + seconds
        for document in takewhile(lambda _: time.perf_counter() < until, cycle(sent.documents)):
            submitted, one = clocked(client.submit, document)
            _, two = clocked(client.dataflow, submitted.id)
            _, three = clocked(client.remove, submitted.id)
            took += (one, two, three)
    return took


def _explain(url: str, sent: TenantDocuments, seconds: float) -> list[float]:
    with Client(url, sent.key) as client:
        until = time.perf_counter() + seconds
        documents = takewhile(lambda _: time.perf_counter() < until, cycle(sent.documents))
        return [clocked(client.explain, document)[1] for document in documents]


@contextmanager
def _served(service: Service) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    app = make_app(service, LiveEvents(), lambda: None)
    with Server(url, app, lambda: None, listen="127.0.0.1", port=port):
        yield url
