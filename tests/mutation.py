"""Mutation testing of the core, with the score on record.

    python -m tests.mutation

Runs mutmut over `dags/` and `merge/`, writes what it found to `tests/mutation.json`, and fails below the goal. A mutant
counts as caught when a test fails or never ends; one that no test reaches counts as missed.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

GOAL = 85.0
RECORD = Path(__file__).with_suffix(".json")
_MUTMUT = [str(Path(sys.executable).with_name("mutmut"))]
_CAUGHT = {"killed", "timeout", "caught by type check", "segfault"}


def main() -> None:
    """Mutate, count, record."""
    subprocess.run([*_MUTMUT, "run"], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own tool
    listing = subprocess.run([*_MUTMUT, "results", "--all", "true"], check=True, capture_output=True, text=True)  # noqa: S603 - our own tool
    verdicts: Counter[str] = Counter()
    modules: dict[str, Counter[str]] = {}
    for line in listing.stdout.splitlines():
        mutant, _, verdict = line.strip().partition(": ")
        if not verdict or "__mutmut_" not in mutant:
            continue
        verdicts[verdict] += 1
        module = mutant.split(".x", 1)[0]
        modules.setdefault(module, Counter())["caught" if verdict in _CAUGHT else "missed"] += 1
    caught = sum(count for verdict, count in verdicts.items() if verdict in _CAUGHT)
    score = round(100 * caught / verdicts.total(), 1)
    record = {
        "score": score,
        "mutants": verdicts.total(),
        "verdicts": dict(sorted(verdicts.items())),
        "modules": {module: dict(counts) for module, counts in sorted(modules.items())},
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{caught} of {verdicts.total()} mutants caught: {score} %; the goal is {GOAL} %")  # noqa: T201 - its result
    sys.exit(score < GOAL)


if __name__ == "__main__":
    main()
