"""What benchmarks of papers measured: a JSON file for each paper, with the newest quick and full run of each benchmark.

A run has its arguments, its date, how long it took, the machine, and the load that the machine had before and after.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from benchmarks.papers.exhibits import Paper, PaperBenchmark

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
Length: TypeAlias = Literal["quick", "full"]
Run: TypeAlias = Mapping[str, Any]
_UNDER_WAY = "under_way"
_RUNS = "runs"


class PaperRecord:
    """The file of one paper."""

    def __init__(self, paper: Paper, folder: Path = EVIDENCE) -> None:
        self._paper = paper
        self._folder = folder
        self._path = folder / "papers" / f"{paper.number}.json"
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else "{}"
        self._content: dict[str, Any] = json.loads(text)

    def begin(self, length: Length, names: Sequence[str]) -> list[str]:
        """The benchmarks that are left of an interrupted run of this length, or else all of these."""
        under_way = self._content.get(_UNDER_WAY)
        if under_way is None or under_way["length"] != length:
            self._content[_UNDER_WAY] = {"length": length, "left": list(names)}
        return list(self._content[_UNDER_WAY]["left"])

    def is_written_in_full(self, benchmark: PaperBenchmark) -> bool:
        """Whether the file that a benchmark writes is of a full run, so that a quick one would destroy it."""
        return bool(benchmark.written) and "full" in self._content.get(_RUNS, {}).get(benchmark.name, {})

    def keep(self, name: str, length: Length, run: Run) -> None:
        """Keep what a benchmark measured, and write the file."""
        self._content.setdefault(_RUNS, {}).setdefault(name, {})[length] = run
        left = self._content[_UNDER_WAY]["left"]
        left.remove(name)
        if not left:
            del self._content[_UNDER_WAY]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._content, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def shown(self) -> dict[str, Run]:
        """The runs that a page shows: of each benchmark the full one, or else the quick one."""
        runs: Mapping[str, Mapping[str, Run]] = self._content.get(_RUNS, {})
        return {name: kept.get("full") or kept["quick"] for name, kept in runs.items()}

    def results(self) -> dict[str, Any]:
        """The results of each benchmark that has any."""
        results = {name: run["results"] for name, run in self.shown().items() if run["results"] is not None}
        for benchmark in self._paper.benchmarks:
            path = self._folder / benchmark.written
            if benchmark.written and path.exists():
                results[benchmark.name] = json.loads(path.read_text(encoding="utf-8"))
        return results
