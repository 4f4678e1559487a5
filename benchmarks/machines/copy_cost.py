"""What copies cost while nothing happens: CPU, latency, and bytes."""

import statistics
import time
from pathlib import Path

from benchmarks.instruments import Figures, percentiles
from benchmarks.machines.fleet import fleet

_PER_SECOND = 50.0


def copy_cost(folder: Path, *, seconds: float, whiles: int) -> Figures:
    """CPU and latency of a dataflow whose host has 0, 1 and 2 copies; three fleets run at once."""
    figures: Figures = {}
    names = ("m0", "m1", "m2")
    with (
        fleet(folder / "0", *names, replicas=0) as none,
        fleet(folder / "1", *names, replicas=1) as one,
        fleet(folder / "2", *names, replicas=2) as two,
    ):
        fleets = {"0": none, "1": one, "2": two}
        for many, machines in fleets.items():
            host = machines.submit()
            machines.send(_PER_SECOND)
            machines.first_output_after(0.0)
            machines.wait(lambda m=machines, h=host, n=int(many): m.has_copies(h, n), "copies")  # type: ignore[misc]
        # A JVM becomes faster over its first hundreds of batches.
        time.sleep(seconds)
        begun = time.time()
        spent: dict[str, list[float]] = {many: [] for many in fleets}
        for _ in range(whiles):
            before = {many: machines.cpu() for many, machines in fleets.items()}
            time.sleep(seconds)
            for many, machines in fleets.items():
                spent[many].append((machines.cpu() - before[many]) / seconds)
        for many, machines in fleets.items():
            cores = round(statistics.median(spent[many]), 3)
            figures[many] = {"cores": cores, "latency_ms": percentiles(machines.latencies(begun))}
        for many in ("1", "2"):
            ratios = [mine / alone for mine, alone in zip(spent[many], spent["0"], strict=True)]
            figures[many]["cpu_ratio"] = round(statistics.median(ratios), 3)
            figures[many]["more_ms"] = figures[many]["latency_ms"]["p50"] - figures["0"]["latency_ms"]["p50"]
    return figures
