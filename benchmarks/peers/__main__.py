"""The same dataflows on Braid, Node-RED, plain PySpark and PyFlink, at one rate of events after another.

    python -m benchmarks.peers [--quick] [--only DATAFLOWS] [--into FOLDER]

Fifty, 200 and 1,000 dataflows of twenty tenants read five topics. Each system has a session for each number, with a
broker of its own; Braid is a service with default settings. PySpark gets a query for each dataflow, as many as keep up.
Node-RED and PyFlink are installed into `.cache/peers` first. Needs mosquitto and Node.js; listens on the loopback
address alone. Prints a line per measurement; the last is one JSON object. An hour or more, at most about two; `--quick`
has 50 dataflows at 100 events a second on Braid and Node-RED, in three minutes. `--only` measures one of the three
numbers of dataflows; `--into` writes the object and a picture of it to a folder, as `peers.json`, `peers.svg` and
`peers.png`.
"""

import json
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import psutil
import typer

from benchmarks.peers.confinement import confined_rows
from benchmarks.peers.dataflows import distinct_tasks, drawn_dataflows
from benchmarks.peers.measurement import Row, Times
from benchmarks.peers.picture import write_picture
from benchmarks.peers.session import session_rows
from bridge import broker_setup
from workloads.results import machine, versions
from workloads.service import stops_on_signals

_SIZES = (50, 200, 1_000)
_RATES = (10.0, 100.0, 1_000.0, 5_000.0)
_COMPARED_RATE = 100.0
"""Events a second of the short run, and while PySpark gets more queries until it does not keep up."""
_MOST = 7_200.0
"""Seconds after which nothing further is begun."""
_TIME_IS_UP = f"it was to begin more than {_MOST:g} s after the start of the benchmark"
_QUERIES = (2, 4, 8, 16, 32, 50, 100, 200, 1_000)
_LATE = 10.0
"""Seconds of latency (99th percentile) beyond which a system does not keep up."""
_LEAST_FREE = 2_000_000_000
"""Bytes of memory that have to be free before PySpark gets more queries."""


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick")] = False,
    only: int | None = None,
    into: Path | None = None,
) -> None:
    """Measure everything."""
    if broker_setup.mosquitto_program() is None:
        raise SystemExit("mosquitto is not installed; on Debian, apt-get install mosquitto")
    times = (
        Times(first=15.0, warm=5.0, window=20.0, drain=30.0)
        if quick
        else Times(first=30.0, warm=10.0, window=20.0, drain=60.0)
    )
    rows: list[Row] = []
    sizes = _SIZES[:1] if quick else _SIZES if only is None else (only,)
    with (
        stops_on_signals(),
        tempfile.TemporaryDirectory(prefix="braid-peers-") as name,
        # Closed at once, so that an interrupt ends what runs.
        closing(_rows(Path(name), times, sizes, quick=quick)) as measurements,
    ):
        for row in measurements:
            print(json.dumps(row), flush=True)
            rows.append(row)
    result = {
        "benchmark": "peers",
        "quick": quick,
        "machine": machine(),
        "versions": versions(),
        "seconds": asdict(times),
        "tasks": {
            str(size): {"submitted": 5 * size, "distinct": distinct_tasks(drawn_dataflows(size))} for size in sizes
        },
        "rows": rows,
    }
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        (into / "peers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        write_picture(rows, into)
    print(json.dumps(result))


def _rows(folder: Path, times: Times, sizes: Sequence[int], *, quick: bool) -> Generator[Row, None, None]:
    """A row for each system, number of dataflows and rate."""
    if quick:
        for system in ("braid", "node-red"):
            yield from session_rows(system, _SIZES[0], [_COMPARED_RATE], times, folder / system)
        return
    deadline = time.monotonic() + _MOST
    for size in sizes:
        for system, rows_of in (("braid", session_rows), ("node-red", session_rows), ("pyflink", confined_rows)):
            if time.monotonic() > deadline:
                yield {"system": system, "dataflows": size, "why_not": _TIME_IS_UP}
            else:
                yield from rows_of(system, size, _RATES, times, folder / f"{system}-{size}")
    yield from _spark_rows(folder, times, [queries for queries in _QUERIES if queries <= max(sizes)], deadline)


def _spark_rows(folder: Path, times: Times, trials: Sequence[int], deadline: float) -> Iterator[Row]:
    """PySpark with more and more queries; then the rates with as many as kept up."""
    most = 0
    for queries in trials:
        is_late, is_full = time.monotonic() > deadline, psutil.virtual_memory().available < _LEAST_FREE
        if is_late or is_full:
            about = _TIME_IS_UP if is_late else "too little memory is free"
            yield {"system": "pyspark", "dataflows": queries, "why_not": about}
            break
        trial = list(session_rows("pyspark", queries, [_COMPARED_RATE], times, folder / f"pyspark-{queries}"))
        yield from ({**row, "trial": True} for row in trial)
        if not all(map(_keeps_up, trial)):
            break
        most = queries
    if most:
        yield from session_rows("pyspark", most, _RATES, times, folder / "pyspark")
    yield {"system": "pyspark", "most_dataflows": most}


def _keeps_up(row: Row) -> bool:
    late = row.get("p99_s")
    return late is not None and late <= _LATE


if __name__ == "__main__":
    typer.run(main)
