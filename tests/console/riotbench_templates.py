"""The templates of RIoTBench in the composer; `python -m tests.console.riotbench_templates` writes them."""

import json
from pathlib import Path
from typing import Any

import manager.console
from workloads.workload import load_workload

FILE = Path(manager.console.__file__).parent / "scripts" / "composer" / "riotbench.js"
_APPLICATIONS = {
    "etl": "clean and complete readings (ETL)",
    "stats": "averages and trends (STATS)",
    "train": "train models (TRAIN)",
    "pred": "predict (PRED)",
}


def templates() -> list[dict[str, Any]]:
    """The dataflows over readings of a city, by what they do."""
    dataflows = load_workload("riotbench").dataflows
    return [
        {"name": f"RIoTBench: {words}", "document": dataflows[f"urban-{name}"]} for name, words in _APPLICATIONS.items()
    ]


def written() -> str:
    """The templates as the composer has them."""
    lines = "".join(f"  {json.dumps(template, ensure_ascii=False)},\n" for template in templates())
    return (
        f"/** The templates of RIoTBench; `make templates` writes them. */\n\nexport const RIOTBENCH = [\n{lines}];\n"
    )


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
