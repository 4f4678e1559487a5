"""Shards: what they gain, what they cost, and how soon a running job has another number of them.

    python -m benchmarks.shards [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
from contextlib import closing

from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import report, scratch_folder
from benchmarks.reconfiguration.installation import installed
from benchmarks.shards.measurements import batch_cost, plain_restart, rescale, speedup


def main(*, quick: bool) -> None:
    """Measure everything; quickly, with fewer rounds and less state."""
    with (
        scratch_folder() as folder,
        installed(folder / "types"),
        closing(Bed(folder / "bed")) as bed,
    ):
        gained = report("speedup", speedup(bed, rounds=1 if quick else 5))
        small = report("rescale", rescale(bed, megabytes=10, times=4 if quick else 20, first=30_000))
        large = None if quick else report("rescale", rescale(bed, megabytes=300, times=6, first=40_000))
        plain = report("plain restart", plain_restart(folder / "plain", megabytes=10, times=4 if quick else 20))
        costs = report("batch", batch_cost(bed, seconds=5.0 if quick else 20.0))
    result = {
        "speedup_2": gained["median"],
        **{f"batch_ms_{shards}": costs[str(shards)]["ms"] for shards in (1, 8, 32)},
        "batch_ms_each": costs["each_of_32"],
        "rescale_ms": {"10 MB": small["ms"], **({"300 MB": large["ms"]} if large else {})},
        "plain_restart_ms": plain["ms"],
        "silence_ms": {"10 MB": small["silence_ms"], **({"300 MB": large["silence_ms"]} if large else {})},
        "peak_latency_ratio": small["peak_latency_ratio"],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
