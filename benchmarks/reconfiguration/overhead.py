"""The CPU of running dataflows at this commit, against that at another one.

    python -m benchmarks.reconfiguration.overhead CHECKOUT [--quick]

Both services run beside each other with the same dataflows, and are measured over the same whiles. So the speed of the
machine does not matter. Prints a line per while; the last is one JSON object.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.manager_live import chain
from benchmarks.manager_test_bed import MeasuredService
from manager.answers import SourceForm
from manager.client import Client
from workloads.replay.cores import cores_between

_PER_SECOND = 50.0
_DATAFLOWS = 4


def main(checkout: Path, *, quick: bool) -> None:
    """Measure both."""
    whiles, seconds, warm = (3, 10.0, 20.0) if quick else (8, 30.0, 120.0)
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder, ExitStack() as stack:
        services = {
            name: stack.enter_context(_running(Path(folder) / name, path))
            for name, path in (("this", Path(__file__).parents[2]), ("other", checkout.resolve()))
        }
        # A JVM becomes faster over its first hundreds of batches.
        time.sleep(warm)
        ratios = []
        for _ in range(whiles):
            before = {name: service.reading() for name, service in services.items()}
            time.sleep(seconds)
            cores = {
                name: sum(cores_between(before[name], service.reading()).values()) for name, service in services.items()
            }
            ratios.append(cores["this"] / cores["other"])
            print(json.dumps({name: round(each, 4) for name, each in cores.items()}), flush=True)
    found: dict[str, Any] = {"overhead_idle": round(statistics.median(ratios), 3)}
    print(json.dumps({**found, "all": [round(each, 3) for each in ratios]}))


@contextmanager
def _running(folder: Path, checkout: Path) -> Iterator[MeasuredService]:
    """A service of one checkout, with dataflows in jobs of their own."""
    folder.mkdir()
    service = MeasuredService(folder, placement="launch")
    try:
        _start(service, checkout)
        service.listen()
        with Client(service.url, service.admit("ann")) as ann:
            for at in range(_DATAFLOWS):
                connection = {"kind": "rate", "per_second": _PER_SECOND}
                ann.register_source(SourceForm.model_validate({"name": f"numbers{at}", "connection": connection}))
                flow = ann.submit(chain(f"numbers{at}", 1, 2, 3))
                service.first_output(flow.outputs[0].topic)
        yield service
    finally:
        service.close()


def _start(service: MeasuredService, checkout: Path) -> None:
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = str(checkout)
    try:
        # Its processes look for modules where they start, too.
        with chdir(checkout):
            service.start()
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main(Path(sys.argv[1]), quick="--quick" in sys.argv[2:])
