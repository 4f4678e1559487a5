"""The engine: what a batch, an event and an idle job cost, and how long events, plans and starts take.

    python -m benchmarks.engine [--quick]

Needs mosquitto. CPU is that of the host, its JVM and its workers together; the broker and the publishers are not
counted. Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks import engine_on_host as running
from benchmarks import engine_without_host as by_itself
from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures, alone, report, scratch_folder


def main(*, quick: bool) -> None:
    """Measure everything; quickly, with fewer events and shorter whiles."""
    scale = 1 if quick else 5
    with scratch_folder() as folder:
        hosted = on_host(folder, scale)
    batch = hosted["rates"]["cpu_ms_per_batch_100_messages"]["all"]
    plain_batch = report("plain_batch", alone(by_itself.plain_batch, 4 * scale))
    loop = report("arrow_loop", alone(by_itself.arrow_loop, 400_000 * scale))
    json_loop = report("json_loop", alone(by_itself.json_loop, 10_000 * scale))
    plain = report("plain_spark", alone(by_itself.plain_spark, 200_000))
    spool = report("spool", alone(by_itself.spool, 1_000 * scale))
    states = {
        str(keys): report(f"state of {keys:,} keys", alone(by_itself.state, keys))
        for keys in (1_000, 100_000 if quick else 1_000_000)
    }
    arrow, raw = hosted["arrow"]["events_per_core_s"], hosted["json"]["events_per_core_s"]
    result = {
        "cpu_ms_per_batch": batch,
        "idle_cores_10_jobs": hosted["idle"]["idle_cores_10_jobs"],
        "arrow_events_per_core_s": arrow,
        "json_events_per_core_s": raw,
        "ratio_to_plain_spark": round(arrow / plain, 2),
        "ratio_to_python_loop": round(arrow / loop, 2),
        "swap_ms": hosted["swap"]["p50"],
        "start_s": hosted["start"]["job_s"],
        "latency_ms": hosted["latency"]["one job, pace 1 s, 100 events/s"]["p50"],
        "state_ms_per_batch": states,
        "details": {
            **hosted,
            "plain_spark_cpu_ms_per_batch": plain_batch,
            "batch_ratio_to_plain_spark": round(batch / plain_batch, 2),
            "plain_spark_events_per_core_s": plain,
            "python_loop_events_per_core_s": {"arrow": loop, "json": json_loop},
            "json_ratio_to_python_loop": round(raw / json_loop, 2),
            "json_ratio_to_plain_spark": round(raw / plain, 4),
            "spool": spool,
        },
    }
    print(json.dumps(result))


def on_host(folder: Path, scale: int) -> Figures:
    """What is measured on one host, from its start on."""
    begun = time.monotonic()
    with closing(Bed(folder)) as bed:
        start = {"host_s": round(time.monotonic() - begun, 2)}
        start["first_job_s"] = running.start(bed, "first", 10)
        # The first job starts the workers too.
        start["job_s"] = running.start(bed, "second", 20)
        return {
            "start": report("start", start),
            "swap": report("swap", running.swap(bed, 4 * scale)),
            "arrow": report("arrow", running.arrow(bed, 1_000 * scale)),
            "json": report("json", running.raw(bed, 6_000 * scale)),
            "latency": report("latency", running.latency(bed, 2.0 * scale)),
            "rates": report("rates", running.at_rate(bed, 4.0 * scale)),
            "idle": report("idle", running.idle(bed, 4.0 * scale)),
            "cores_20_slow_jobs": report("cores of 20 slow jobs", running.slow(bed, 8.0 * scale)),
        }


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
