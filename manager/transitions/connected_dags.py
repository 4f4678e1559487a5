"""Running DAGs that are connected because they read the same sources, as where one was submitted fresh.

A job reads a raw stream once for all, so a cut passes all of them at the same place, and only when each of their
streams has come there.
"""

from collections.abc import Iterable

from merge import DagId, RunningGraph


def reading_the_same(running: RunningGraph, dags: Iterable[DagId]) -> frozenset[DagId]:
    """The given running DAGs, and all that read a source with one of them, directly or over others."""
    of_source = running.running_dags.of_source
    reads: dict[DagId, set[str]] = {}
    readers: dict[str, set[DagId]] = {}
    for instance, dag in of_source.items():
        source = running.tasks[instance].config["source"]
        reads.setdefault(dag, set()).add(source)
        readers.setdefault(source, set()).add(dag)
    found, left = set[DagId](), set(dags)
    while left:
        dag = left.pop()
        found.add(dag)
        left |= {other for source in reads[dag] for other in readers[source]} - found
    return frozenset(found)
