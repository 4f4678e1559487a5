"""Analogues of the five workflows of Fries (Wang et al., VLDB 2022, figure 12), and the rows of its tables 4 to 6.

Joins with a table, filters and projections are steps. Where a task is slow, it needs some milliseconds for each event.
At the pace of the benchmark every task has a job of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.instruments import Figures

PAYMENT = {"n": "integer", "user": "integer", "amount": "float", "time": "timestamp"}
_TYPES = {"FD": "bench:inference", "U2": "bench:split", "U1": "noop", "RE": "noop", "SJ": "self_join"}
"""The type of a task by how its name begins; others are steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow, with its rows."""

    name: str
    paths: tuple[str, ...]
    """Rows of tasks from a source to the output, each separated by blanks."""
    rows: tuple[str, ...]
    """The tasks that are changed together, of each row."""
    slow: tuple[str, ...]
    sources: tuple[str, ...] = ("in",)
    leaving: int = 1
    """The events that leave for each that enters."""
    burst: float = 1.0
    """The part of the usual burst that keeps the slow tasks busy for as long."""
    is_pruned: bool = False
    """Whether the row is measured without pruning too."""
    types: Mapping[str, str] = field(default_factory=lambda: _TYPES)

    def source(self, name: str) -> str:
        """The name of a source at the service, and its topic."""
        return f"{self.name}-{name}"

    def document(self, work: int) -> Figures:
        """The document, with so much work for each event at slow tasks."""
        streams = dict.fromkeys(pair for path in self.paths for pair in pairwise(path.split()))
        names = dict.fromkeys(name for stream in streams for name in stream)
        return {
            "version": 1,
            "name": self.name,
            "tasks": [self._task(name, work if name in self.slow else 0) for name in names],
            "streams": [{"from": origin, "to": to} for origin, to in streams],
        }

    def _task(self, name: str, work: int) -> Figures:
        if name in self.sources:
            return {"id": name, "type": "source", "config": {"source": self.source(name)}}
        if name == "out":
            return {"id": name, "type": "output"}
        kind = next((kind for start, kind in self.types.items() if name.startswith(start)), "bench:step")
        config = {"noop": {}, "self_join": {"by": ["n"], "expected": 2, "most_known": 1_000_000}}
        return {"id": name, "type": kind, "config": config.get(kind, {"work": work, "generation": 0})}


WORKFLOWS = (
    Workflow(name="W1", paths=("in FD out",), slow=("FD",), rows=("FD",)),
    Workflow(name="W2", paths=("in J1 J2 J3 J4 out",), slow=("J1",), rows=("J1", "J2", "J1 J3", "J1 J4", "J3 J4")),
    Workflow(
        name="W3",
        sources=("in5", "in6", "in7"),
        paths=("in5 J5 U1 J8 J9 out", "in6 J6 U1", "in7 J7 U1"),
        slow=("J5", "J6", "J7"),
        burst=0.75,
        leaving=3,
        rows=("J5", "J5 J6", "J5 J6 J7 J8", "J5 J6 J7 J9", "J7 J8 J9"),
    ),
    Workflow(
        name="W4",
        paths=("in F1 U2 FD1 F2 out", "U2 FD2 F2"),
        slow=("FD1", "FD2"),
        burst=0.65,
        leaving=4,
        rows=("F1 U2", "FD1", "F2"),
    ),
    Workflow(
        name="W5",
        paths=("in RE FD3 S1 F3 SJ E1 out", "RE F4 FD4 SJ"),
        slow=("FD3", "FD4"),
        is_pruned=True,
        rows=("FD4", "F3", "F4", "FD3 FD4", "E1"),
    ),
)
