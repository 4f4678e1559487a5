"""The task library: how many events per second one core works off in each type, alone.

    python -m benchmarks.tasks [--quick] [type ...]

Each task is called as a job's worker calls it, with batches of up to 10,000 events of five measurements each from a
hundred sensors, and only with the fields that it reads. CPU time counts, so what waits for a disk is faster here than
in truth. Prints a line per type; the last is one JSON object.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.instruments import scratch_folder
from benchmarks.task_configs import (
    CONFIGS,
    EVENT_FIELDS,
    FUNCTIONS,
    MEASUREMENTS,
    OWNER,
    UNMEASURED,
    UNNAMED_FIELDS,
    VARIANTS,
    Config,
)
from bridge.raw_events import ARROW_TYPES
from dags import Kind, Schema
from engine import behaviour as running
from engine.behaviour import Unwatched, implementation_of, installed_behaviours
from engine.code.store import digest_of
from engine.event_streams import EventStream, PortRun
from engine.kernel.task_bounds import Allowance, EventCost, StateBound
from engine.kernel.task_run import TaskInput, TaskRun
from engine.outside import HostOutside
from engine.side_effect import Origins
from engine.tasks import TYPES
from engine.trial import At, Trial, try_out

MOST = 10_000


def main(chosen: list[str], *, quick: bool) -> None:
    """Measure the chosen types, or all; quickly, for a shorter while."""
    measurable = [kind.name for kind in TYPES if not kind.is_source and kind.name not in UNMEASURED]
    names = chosen or [*measurable, "opmw:Step", *VARIANTS]
    rows, known, rates = drawn(), beforehand(), dict[str, int]()
    with scratch_folder() as folder:
        outside = HostOutside(folder)
        furnish(outside)
        for name in names:
            rates[name] = measured(name, rows, outside, known.get(name, ()), 0.2 if quick else 2.0)
            print(f"{name:28} {rates[name]:>12,}", flush=True)
    print(json.dumps({"events_per_core_s": rates}))


def measured(name: str, rows: pa.RecordBatch, outside: HostOutside, before: Sequence[At], seconds: float) -> int:
    """Events per second of CPU of one type."""
    config = CONFIGS.get(name, {})
    implementation = implementation_of(VARIANTS.get(name, name), installed_behaviours())
    kind = implementation.type
    reads = kind.reads(kind.config.model_validate_json(json.dumps(config), context={"outside": outside}))
    fields = {port: {read.field for read in reads if read.port == port} or UNNAMED_FIELDS for port in kind.inputs}
    schemas = {port: Schema.of({field: EVENT_FIELDS[field] for field in names}) for port, names in fields.items()}
    trial = Trial(implementation, config, schemas, outside)
    trial.take(before)
    batch, taken, count, spent = rows.select(schemas["in"].names()), 0, 50, 0.0
    while count < MOST and spent < seconds / 10:
        count = min(MOST, 4 * count)
        spent, taken = run(trial, batch.slice(0, count), taken), taken + count
    used, first = 0.0, taken
    while used < seconds:
        used, taken = used + run(trial, batch.slice(0, count), taken), taken + count
    return round((taken - first) / used)


def run(trial: Trial, rows: pa.RecordBatch, taken: int) -> float:
    """Work a batch off, as a worker does; the CPU time that it takes."""
    stream = EventStream(later(rows, taken), np.arange(taken, taken + len(rows)))
    task = TaskRun(
        instance=1,
        behaviour=trial.behaviour,
        outputs=trial.outputs,
        state=trial.state,
        taken=TaskInput([PortRun("in", stream)]),
        watch=Unwatched(),
        # All at once, as from a task's second batch on.
        allowance=Allowance(seconds=3_600.0, emitted=1 << 60, known=EventCost(1.0, 1.0)),
        room=StateBound(1 << 60),
        origins=Origins(batch=taken),
    )
    begun, elsewhere = time.process_time(), running.elsewhere_ns
    outcome = task.work_off()
    used = time.process_time() - begun + (running.elsewhere_ns - elsewhere) / 1e9
    if outcome.dead:
        raise RuntimeError(f"events are parked: {outcome.dead[0].reason}")
    return used


def later(rows: pa.RecordBatch, taken: int) -> pa.RecordBatch:
    """Events as they would be after so many others: time goes on."""
    at = rows.schema.get_field_index("time")
    if at < 0:
        return rows
    times = pa.array(rows.column(at).cast(pa.int64()).to_numpy() + taken)
    return rows.set_column(at, rows.schema.field(at), times.cast(ARROW_TYPES[Kind.TIMESTAMP]))


def drawn() -> pa.RecordBatch:
    """Events of all fields that any task reads: five measurements of each message, one every millisecond."""
    random = np.random.default_rng(7)
    number = np.arange(MOST)
    measured = {name: random.normal(20, 5, MOST).round(2) for name in MEASUREMENTS}
    lines = [list(map(repr, line)) for line in zip(*(values.tolist() for values in measured.values()), strict=True)]
    ids = [f"sensor {at}" for at in random.integers(0, 100, MOST).tolist()]
    entries = [
        [{"u": "", "n": name, "v": text} for name, text in zip(MEASUREMENTS, line, strict=True)] for line in lines
    ]
    columns: dict[str, Any] = {
        **measured,
        "id": ids,
        "message": number // len(MEASUREMENTS),
        "field": [MEASUREMENTS[at % len(MEASUREMENTS)] for at in range(MOST)],
        "value": random.normal(20, 5, MOST),
        "time": number,
        "class": [("BAD", "GOOD")[at] for at in random.integers(0, 2, MOST).tolist()],
        "prediction": random.normal(20, 5, MOST),
        "average": np.full(MOST, 20.0),
        "low": number % 1_000,
        "high": number % 1_000 + 1,
        "senml": [
            f"{at}," + json.dumps({"e": [{"n": "source", "sv": ids[at]}, *entries[at]], "bt": at}) for at in range(MOST)
        ],
        "csv": [",".join(line) for line in lines],
        "json": [json.dumps(dict(zip(MEASUREMENTS, map(float, line), strict=True))) for line in lines],
        "xml": [
            "<r>" + "".join(f"<{n}>{v}</{n}>" for n, v in zip(MEASUREMENTS, line, strict=True)) + "</r>"
            for line in lines
        ],
        "name": [f"{at}.txt" for at in range(MOST)],
        "blob": ["blob.txt"] * MOST,
        "model": [""] * MOST,
        "numbers": [json.dumps(list(range(at % 10))) for at in range(MOST)],
    }
    arrays = {
        name: pa.array(columns[name], pa.int64() if kind is Kind.TIMESTAMP else ARROW_TYPES[kind]).cast(
            ARROW_TYPES[kind]
        )
        for name, kind in EVENT_FIELDS.items()
    }
    return pa.record_batch(arrays)


def furnish(outside: HostOutside) -> None:
    """Put what tasks read outside where they look for it."""
    for text in FUNCTIONS.values():
        Path(outside.code(digest_of(text))).parent.mkdir(exist_ok=True)
        Path(outside.code(digest_of(text))).write_text(text, encoding="utf-8")
    folder = Path(outside.place(OWNER, "blobs"))
    folder.mkdir(parents=True)
    (folder / "blob.txt").write_text("warm" * 250, encoding="ascii")
    database = sqlite3.connect(outside.place(OWNER, "readings"))
    with database:
        database.execute("create table rows (n integer primary key, value real)")
        database.executemany("insert into rows values (?, ?)", ((at, at / 2) for at in range(1_001)))
    database.close()


def beforehand() -> Mapping[str, list[At]]:
    """What tasks take before they are measured."""
    fields = list(MEASUREMENTS)
    learned = [
        {name: float(at * place % 7) for place, name in enumerate(MEASUREMENTS, 1)}
        | {"value": float(at), "class": "ab"[at % 2]}
        for at in range(100)
    ]
    return {
        "decision_tree_classify": _model("decision_tree_train", {"fields": fields, "window": 100}, learned),
        "error_estimate": [("average", {"average": 20.0})],
        "linear_regression_predict": _model(
            "linear_regression_train", {"fields": fields, "target": "value", "window": 100}, learned
        ),
        "trained_bloom_filter": _model("bloom_filter_train", {"field": "id", "every": 1}, [{"id": "sensor 1"}]),
    }


def _model(trained_by: str, config: Config, events: list[dict[str, Any]]) -> list[At]:
    """What a task that uses a model takes beforehand: the model that another one makes of some events."""
    return [("model", {"model": try_out(trained_by, config, events)["out"][0]["model"]})]


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if not name.startswith("-")], quick="--quick" in sys.argv)
