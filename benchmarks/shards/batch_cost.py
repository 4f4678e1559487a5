"""The CPU of a batch with few events, by its shards."""

import time
from dataclasses import replace

from benchmarks.engine_on_host import publish
from benchmarks.engine_plans import delivering, subscribed
from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures

_PACE = 0.2
_RATE = 50.0


def batch_cost(bed: Bed, *, seconds: float, first: int = 20_000) -> Figures:
    """Milliseconds of CPU of all processes for each batch, and what a further shard adds."""
    figures: Figures = {}
    plan = delivering("batches", first, subscribed("batches"), pace=_PACE)
    bed.run(plan)
    # A JVM becomes faster over its first hundreds of batches.
    publish(bed, "batches", _RATE, 2 * seconds)
    for version, shards in enumerate((1, 8, 32), 2):
        bed.run(replace(plan, version=version, shards=shards))
        publish(bed, "batches", _RATE, seconds / 2)
        before = bed.batches("batches")
        with bed.measured() as used:
            publish(bed, "batches", _RATE, seconds)
            time.sleep(_PACE)
            took = used()
        batches = bed.batches("batches") - before
        figures[str(shards)] = {
            "ms": round(took.total / batches * 1_000, 1),
            "parts": {part: round(cpu / batches * 1_000, 1) for part, cpu in took.cpu.items()},
        }
    one = figures["1"]["ms"]
    for shards in (8, 32):
        figures[f"each_of_{shards}"] = round((figures[str(shards)]["ms"] - one) / (shards - 1), 1)
    bed.end("batches")
    return figures
