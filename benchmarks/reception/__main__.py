"""Receiving: the CPU that one stream of raw events takes from its topic to its spool.

    python -m benchmarks.reception [--quick] [BEFORE]

Every way receives the same backlogs: Braid's receiver and that of another checkout (BEFORE) in turn, three times each,
of which the one with the median of CPU counts; and a plain loop over the MQTT library once, because it takes long.
Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.instruments import Figures, report, scratch_folder
from benchmarks.reception.backlog import Backlog, payloads, received
from benchmarks.reception.process import PLAIN_LOOP
from benchmarks.reception.steps import decoding, steps
from bridge.broker import BrokerKind
from bridge.broker_setup import mosquitto_program

_PROJECT = Path(__file__).resolve().parents[2]
_VERSIONS = {"5": 5, "3.1.1": 4}
_PER_ARRAY = 100
_ROUNDS = 3


def main(*, quick: bool, before: Path | None) -> None:
    """Measure every way with every broker."""
    messages = 20_000 if quick else 60_000
    ways = {"braid": _PROJECT, **({} if before is None else {"before": before}), PLAIN_LOOP: _PROJECT}
    details: Figures = {}
    for kind, version in _brokers():
        for name, events, per_message in (("one event a message", messages, 1), ("arrays", 10 * messages, _PER_ARRAY)):
            backlog = Backlog(
                kind=kind, version=_VERSIONS[version], payloads=payloads(events, per_message), events=events
            )
            about = f"{kind}, MQTT {version}, {name}"
            details[about] = report(about, _compared(backlog, ways))
    alone = {
        name: report(f"steps, {name}", steps(per_message))
        for name, per_message in (("one event a message", 1), ("arrays", 100))
    }
    formats = {
        name: report(f"decoding, {name}", decoding(per_message))
        for name, per_message in (("one event a message", 1), ("a hundred", _PER_ARRAY))
    }
    by_way = {name: {way: _cpu(figures) for way, figures in details[name].items()} for name in list(details)[:2]}
    result = {
        "receive_per_core": {
            name: {way: round(1e6 / micro) for way, micro in costs.items()} for name, costs in by_way.items()
        },
        "times": {
            name: {way: round(micro / costs["braid"], 2) for way, micro in costs.items()}
            for name, costs in by_way.items()
        },
        "steps_us_per_event": alone,
        "decode_per_core": {
            name: {kind: round(1e6 / micro) for kind, micro in costs.items()} for name, costs in formats.items()
        },
        "details": details,
    }
    print(json.dumps(result))


def _brokers() -> Iterator[tuple[BrokerKind, str]]:
    if mosquitto_program() is not None:
        yield from (("mosquitto", version) for version in _VERSIONS)
    yield "embedded", "5"


def _compared(backlog: Backlog, ways: dict[str, Path]) -> dict[str, Figures]:
    rounds: dict[str, list[Figures]] = {way: [] for way in ways}
    for number in range(_ROUNDS):
        for way, checkout in ways.items():
            if way == PLAIN_LOOP and number:
                continue
            with scratch_folder() as folder:
                rounds[way].append(received(backlog, way, checkout, folder))
    return {way: sorted(runs, key=_cpu)[len(runs) // 2] for way, runs in rounds.items()}


def _cpu(figures: Figures) -> float:
    cpu: float = figures["us_per_event"]["all"]
    return cpu


if __name__ == "__main__":
    rest = [argument for argument in sys.argv[1:] if argument != "--quick"]
    main(quick="--quick" in sys.argv[1:], before=Path(rest[0]).resolve() if rest else None)
