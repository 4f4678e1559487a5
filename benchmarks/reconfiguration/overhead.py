"""The CPU of running dataflows at this commit, against that at another one.

Both services run beside each other with the same dataflows, and are measured over the same whiles. So the speed of the
machine does not matter.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

from benchmarks.documents import rate_source
from benchmarks.instruments import Figures
from benchmarks.manager_live import chain
from benchmarks.manager_test_bed import MeasuredService
from braid_client import Client
from workloads.replay.player import cores_between

_PER_SECOND = 50.0
_DATAFLOWS = 4


def overhead(folder: Path, checkout: Path, *, quick: bool) -> Figures:
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
        cores = []
        for _ in range(whiles):
            before = this.reading(), other.reading()
            time.sleep(seconds)
            after = this.reading(), other.reading()
            cores.append([sum(cores_between(*readings).values()) for readings in zip(before, after, strict=True)])
    return {
        "ratio": round(statistics.median(mine / theirs for mine, theirs in cores), 3),
        "ratios": [round(mine / theirs, 3) for mine, theirs in cores],
        "cores": round(statistics.median(mine for mine, _ in cores), 3),
    }


@contextmanager
def _running(folder: Path, checkout: Path) -> Iterator[MeasuredService]:
    """A service of one checkout, with dataflows in jobs of their own."""
    with MeasuredService(folder, placement="launch", settings={"PYTHONPATH": str(checkout)}) as service:
        # Its processes look for modules where they start, too.
        with chdir(checkout):
            service.start()
        service.listen()
        with Client(service.url, service.admit("ann")) as ann:
            for at in range(_DATAFLOWS):
                ann.register_source(rate_source(f"numbers{at}", _PER_SECOND))
                flow = ann.submit(chain(f"numbers{at}", 1, 2, 3))
                service.first_output(flow.outputs[0].topic)
        yield service
