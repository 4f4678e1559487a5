"""Adaptation on real Spark: a wave of events by three ways to choose, and a job that beats slower.

    python -m benchmarks.adaptation_live [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys

from benchmarks.adaptation_live.slower_job import slower_job
from benchmarks.adaptation_live.wave import CONTENDERS, wave, works
from benchmarks.instruments import report, scratch_folder
from benchmarks.reconfiguration.installation import installed


def main(*, quick: bool) -> None:
    """Measure everything; quickly, with a shorter wave."""
    with scratch_folder() as root, installed(root / "types"):
        work = works()
        waves = {way: report(way, wave(root / way, way, work, 60 if quick else 100)) for way in CONTENDERS}
        slower = report("slower job", slower_job(root / "slower", seconds=20 if quick else 40))
    print(json.dumps({"wave": waves, "slower_job": slower}))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
