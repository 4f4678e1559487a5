"""A workload of three dataflows that share their first filter, as a folder."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

FILTERS = {"a": (1,), "b": (1, 2), "c": (1, 3, 4)}


def document(filters: tuple[int, ...]) -> dict[str, Any]:
    ids = ["in", *(f"f{number}" for number in range(len(filters))), "out"]
    return {
        "version": 1,
        "name": "whatever",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "street"}},
            *(
                {"id": f"f{number}", "type": "range_filter", "config": {"field": "t", "min": -1e6 - each, "max": 1e6}}
                for number, each in enumerate(filters)
            ),
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": one, "to": other} for one, other in pairwise(ids)],
    }


def make(folder: Path) -> Path:
    """Write it; says where it is."""
    (folder / "dataflows").mkdir(parents=True)
    source = {"name": "street", "schema": {"n": "integer", "t": "float"}, "per_second": 20}
    (folder / "workload.json").write_text(json.dumps({"version": 1, "about": {"made": "by hand"}, "sources": [source]}))
    for name, filters in FILTERS.items():
        (folder / "dataflows" / f"{name}.json").write_text(json.dumps(document(filters)))
    return folder
