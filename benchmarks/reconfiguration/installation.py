"""The installation of the benchmark's task types, for a while and for processes that this one starts."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.reconfiguration.behaviours import spend

_PROJECT = Path(__file__).parents[2]
_ENTRIES = """\
[braid.task_types]
bench = benchmarks.reconfiguration.task_types:BENCH_TYPES
[braid.behaviours]
bench:step = benchmarks.reconfiguration.behaviours:step
bench:split = benchmarks.reconfiguration.behaviours:split
bench:inference = benchmarks.reconfiguration.behaviours:inference
"""


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Offer the types as an installed package does."""
    about = folder / "bench_tasks-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-tasks\nVersion: 1\n")
    (about / "entry_points.txt").write_text(_ENTRIES)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), str(_PROJECT), before]))
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def work_of(milliseconds: float) -> int:
    """The work that takes so much CPU on this machine now."""
    turns = 1_000_000
    begun = time.process_time()
    spend(turns)
    return int(turns * milliseconds / 1_000 / (time.process_time() - begun))
