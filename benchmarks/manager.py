"""The manager: how long a submission takes through the service and its database, and how long a manager takes to start.

    python -m benchmarks.manager [--quick] [STORED_DATAFLOWS ...]

Dataflows are submitted and removed by turns over `Service`, which REST calls, and then submitted over REST, with a
file of SQLite on this machine's disk. With a service that runs, `benchmarks.manager_live` measures how long outputs
take to come and to stop; the maximum is reported. It needs mosquitto. Then commands are called. Quickly, there are
fewer dataflows and samples. Prints a line per measurement; the last is one JSON object.
"""

import gc
import json
import random
import statistics
import sys
from collections.abc import Sequence
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any

from benchmarks import command_line, drawn_dataflows, manager_live, manager_rest
from benchmarks.documents import city_document, city_source
from benchmarks.instruments import Figures, alone, clocked, percentiles, report, scratch_folder
from braid_client.answers.dataflows import Stop
from braid_client.answers.tenants import KeyForm, Role, TenantForm
from dags.document import MOST_DOCUMENT_STREAMS
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.kernel.draft import DecisionGround
from manager.machines.carriages import CommittedCarriages
from manager.service import Service, service_of
from manager.store.database import Store, sqlite_url
from manager.store.leadership import Candidate
from manager.store.tables import Leadership
from manager.use_case import Caller, Tools
from merge import Host
from tests.manager.managers import Seen
from workloads.replay.player import PLENTY

_SAMPLES = 1_000
_LARGE = 3_000
"""Tasks of a large document."""
STORED_DATAFLOWS = (1_000, 10_000)
_SHAPE = drawn_dataflows.Shape(sources=2_000)
_OPERATOR = Caller(key="operator", role=Role.OPERATOR, tenant=None)
_TENANTS = tuple(Caller(key=name, role=Role.TENANT, tenant=name) for name in (f"tenant-{i}" for i in range(20)))


class Bench:
    """A service over a database, and what it has stored."""

    def __init__(self, path: Path) -> None:
        self.service = _started(path)
        self._draw = random.Random(7)
        self._number = 0
        self.there: list[tuple[Caller, str]] = []
        for tenant in _TENANTS:
            self.service.administration.admit(_OPERATOR, TenantForm(name=tenant.key, quota=PLENTY))
        self.service.administration.admit(_OPERATOR, TenantForm(name="city", quota=PLENTY))
        for name in drawn_dataflows.registered(_SHAPE):
            self.service.sources.register(_OPERATOR, city_source(name))

    def submit(self) -> float:
        """Submit one more; the seconds that it took."""
        tenant = self._draw.choice(_TENANTS)
        answer, seconds = clocked(self.service.dataflows.submit, tenant, self._document())
        self.there.append((tenant, answer.id))
        return seconds

    def submit_over_rest(self, many: int) -> dict[int, tuple[float, ...]]:
        """Submit so many more over REST, and remove them; the seconds of each by the number of clients at once."""
        key = self.service.administration.make_key(_OPERATOR, KeyForm(tenant=_TENANTS[0].key)).key
        made = manager_rest.submit(self.service, key, [self._document() for _ in range(many)])
        for submission in chain.from_iterable(made.values()):
            self.service.dataflows.remove(_TENANTS[0], submission.dataflow, Stop.NOW)
        return {clients: tuple(submission.seconds for submission in part) for clients, part in made.items()}

    def _document(self) -> bytes:
        self._number += 1
        return city_document(self._draw, _SHAPE, self._number - 1)

    def explain_large(self) -> dict[str, float]:
        """The seconds in which each large document is explained: the median of three."""
        taken = {
            name: [clocked(self.service.dataflows.explain, _TENANTS[1], document)[1] for _ in range(3)]
            for name, document in _large_documents().items()
        }
        return {name: round(statistics.median(seconds), 2) for name, seconds in taken.items()}

    def beside_large(self, seconds: float) -> manager_rest.Beside:
        """Requests of a tenant while another one has large documents explained."""
        key, other = (
            self.service.administration.make_key(_OPERATOR, KeyForm(tenant=tenant.key)).key for tenant in _TENANTS[:2]
        )
        small = manager_rest.TenantDocuments(key, [self._document() for _ in range(100)])
        large = manager_rest.TenantDocuments(other, list(_large_documents().values()))
        return manager_rest.beside_large(self.service, small, large, seconds)

    def remove(self) -> float:
        """Remove any one; the seconds that it took."""
        place = self._draw.randrange(len(self.there))
        self.there[place], self.there[-1] = self.there[-1], self.there[place]
        tenant, dataflow = self.there.pop()
        return clocked(self.service.dataflows.remove, tenant, dataflow, Stop.NOW)[1]


def main(stored: tuple[int, ...], *, quick: bool) -> None:
    """Measure everything."""
    live = manager_live.measured(quick=quick)
    result = {
        **by_stored(stored),
        "large_documents": large_documents(quick=quick),
        **{name: figures["max"] for name, figures in live.items() if name.endswith(("_to_output_s", "_to_paused_s"))},
        "commands_s": command_line.measured(quick=quick),
        "details": live,
    }
    print(json.dumps(result))


def large_documents(*, quick: bool) -> Figures:
    """How long large documents take to explain, and what other tenants notice of six at once."""
    with scratch_folder() as folder:
        bench = Bench(folder / "braid.db")
        figures = {"explain_s": report("large documents, explained in s", bench.explain_large())}
        took = bench.beside_large(5.0 if quick else 30.0)
    for name, seconds in (("alone", took.alone), ("beside_six", took.beside), ("explained", took.explained)):
        in_ms = _milliseconds(seconds)
        figures[name] = report(
            f"requests {name}", {"p50_ms": in_ms["p50"], "p99_ms": in_ms["p99"], "requests": len(seconds)}
        )
    return figures


def _large_documents() -> dict[str, bytes]:
    """Documents of 3,000 filters, in a chain and side by side, and a dense one."""
    where = [_task("where", expression=f"dust > {at} and dust < {at + 1000}") for at in range(_LARGE)]
    ranges = [_task("range_filter", field="dust", min=at, max=at + 1000) for at in range(_LARGE)]
    in_chain = list(pairwise(range(_LARGE)))
    dense = ranges[: int((2 * MOST_DOCUMENT_STREAMS) ** 0.5) - 1]
    return {
        "where in a chain": _large(where, in_chain),
        "where side by side": _large(where, []),
        "range_filter in a chain": _large(ranges, in_chain),
        "range_filter side by side": _large(ranges, []),
        "dense": _large(dense, list(combinations(range(len(dense)), 2))),
    }


def _task(kind: str, **config: Any) -> dict[str, Any]:
    return {"type": kind, "config": config}


def _large(tasks: list[dict[str, Any]], joined: list[tuple[int, int]]) -> bytes:
    """A document with some tasks between a source and an output."""
    above = set(range(len(tasks))) - {to for _, to in joined}
    below = set(range(len(tasks))) - {origin for origin, _ in joined}
    streams = [
        *(("source", f"t{at}") for at in above),
        *((f"t{origin}", f"t{to}") for origin, to in joined),
        *((f"t{at}", "output") for at in below),
    ]
    document = {
        "version": 1,
        "name": "large",
        "tasks": [
            {"id": "source", **_task("source", source="city:s0")},
            *({"id": f"t{at}", **task} for at, task in enumerate(tasks)),
            {"id": "output", "type": "output"},
        ],
        "streams": [{"from": origin, "to": to} for origin, to in streams],
    }
    return json.dumps(document).encode()


def by_stored(stored: tuple[int, ...]) -> dict[str, Any]:
    """Submissions at each number of stored dataflows, and the start of a manager with the most."""
    submits: dict[str, float] = {}
    over_rest: dict[str, float] = {}
    with scratch_folder() as folder:
        path = folder / "braid.db"
        bench = Bench(path)
        for size in sorted(stored):
            while len(bench.there) < size:
                bench.submit()
            gc.collect()
            taken = [(bench.submit(), bench.remove()) for _ in range(_SAMPLES)]
            submit, remove = map(_milliseconds, zip(*taken, strict=True))
            submits[str(size)] = submit["p99"]
            for clients, seconds in bench.submit_over_rest(_SAMPLES).items():
                rest = report(f"{size:,} dataflows, over REST, {clients} at once, ms", _milliseconds(seconds))
                over_rest[f"{size}, {clients} at once"] = rest["p99"]
            report(f"{size:,} dataflows, ms", {"submit": submit, "remove": remove})
        start = alone(start_seconds, str(path))
    return {"submit_p99_ms": submits, "submit_over_rest_p99_ms": over_rest, "manager_start_s": start}


def start_seconds(path: str) -> float:
    """Seconds from nothing but the database to a manager that leads: the median of three."""
    taken = [clocked(_started, Path(path))[1] for _ in range(3)]
    print(f"a manager starts in {[round(seconds, 2) for seconds in taken]} s", flush=True)
    return round(statistics.median(taken), 3)


def _started(path: Path) -> Service:
    store = Store(sqlite_url(path))
    hosts = (Host(name="host", cores=10_000.0),)
    committer = Committer(store, drawn_dataflows.CATALOGUE, DecisionGround(hosts=lambda: hosts), name="bench")
    candidate = Candidate(store, "bench", won=committer.lead, lost=committer.step_down)
    # No earlier leader of this database leads any more.
    with store.write() as session:
        session.get_one(Leadership, 1).until = 0.0
    candidate.look()
    unseen = Seen()
    changes = changes_of(committer, store, drawn_dataflows.CATALOGUE)
    return service_of(
        Tools(
            store=store,
            catalogue=drawn_dataflows.CATALOGUE,
            committer=committer,
            changes=changes,
            carriages=CommittedCarriages(committer, store),
            seeing=unseen,
            chooser=Chooser(unseen),
        )
    )


def _milliseconds(seconds: Sequence[float]) -> Figures:
    return percentiles([1_000 * taken for taken in seconds], 2)


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    named = tuple(int(size) for size in sys.argv[1:] if size != "--quick")
    main(named or (STORED_DATAFLOWS[:1] if quick else STORED_DATAFLOWS), quick=quick)
