"""The CPU of running dataflows at this commit, against that at another one.

Both services run beside each other with the same dataflows, and are measured over the same whiles. So the speed of the
machine does not matter.
"""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.manager_live import chain
from benchmarks.manager_test_bed import MeasuredService
from manager.answers.sources import SourceForm
from manager.client import Client
from workloads.replay.measurement import cores_between

Found = dict[str, Any]
_PER_SECOND = 50.0
_DATAFLOWS = 4


def overhead(folder: Path, checkout: Path, *, quick: bool) -> Found:
    """The ratio of the cores that both take, over some whiles."""
    whiles, seconds, warm = (3, 10.0, 20.0) if quick else (8, 20.0, 60.0)
    with ExitStack() as stack:
        # The other one first: what started before is a little warmer, which counts against this one.
        other, this = (
            stack.enter_context(_running(folder / name, path))
            for name, path in (("other", checkout.resolve()), ("this", Path(__file__).parents[2]))
        )
        # A JVM becomes faster over its first hundreds of batches.
        time.sleep(warm)
        found = []
        for _ in range(whiles):
            before = this.reading(), other.reading()
            time.sleep(seconds)
            after = this.reading(), other.reading()
            found.append([sum(cores_between(*each).values()) for each in zip(before, after, strict=True)])
    return {
        "ratio": round(statistics.median(mine / theirs for mine, theirs in found), 3),
        "ratios": [round(mine / theirs, 3) for mine, theirs in found],
        "cores": round(statistics.median(mine for mine, _ in found), 3),
    }


@contextmanager
def _running(folder: Path, checkout: Path) -> Iterator[MeasuredService]:
    """A service of one checkout, with dataflows in jobs of their own."""
    folder.mkdir(parents=True)
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
