"""The workload of 21 dataflows: RIoTBench's applications where they fit, and permutations of their tasks.

| data set | applications | permutations |
|---|---|---|
| urban | ETL, STATS, TRAIN with a table of its own, PRED | 3 |
| taxi | ETL, STATS v1, PRED with models that arrive as events | 4 |
| grid | ETL | 3 |
| fitness | - | 3 |

The seed chooses the permutations. No dataflow needs another, but PRED of the city has no classes until TRAIN publishes
models.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from workloads.riotbench import applications
from workloads.riotbench.applications import EXPECTED, Document, drawn, permuted, predicted_rows
from workloads.riotbench.datasets import DATA_SETS, DataSet
from workloads.riotbench.generator import events, models
from workloads.workload import Events, Workload, WorkloadSource

_APPLICATIONS: Mapping[str, Mapping[str, Callable[[DataSet], Document]]] = {
    "urban": {
        "etl": applications.etl,
        "stats": applications.stats,
        "train": applications.train_alone,
        "pred": applications.pred,
    },
    "taxi": {"etl": applications.etl, "stats": applications.stats_first, "pred": predicted_rows},
    "grid": {"etl": applications.etl},
    "fitness": {},
}
_PERMUTATIONS: Mapping[str, int] = {"urban": 3, "taxi": 4, "grid": 3, "fitness": 3}
_MODELS_PER_SECOND = 0.1


def riotbench(seed: int = 1) -> Workload:
    """RIoTBench as a workload; the seed draws the permutations.

    >>> workload = riotbench()
    >>> len(workload.dataflows), len(riotbench(2).dataflows)
    (21, 21)
    """
    dataflows = _dataflows(seed)
    configs = [task["config"] for document in dataflows.values() for task in document["tasks"]]
    read_or_published = {config[name] for config in configs for name in ("source", "topic") if name in config}
    return Workload(
        name="riotbench" if seed == 1 else f"riotbench:{seed}",
        about={
            "made": "RIoTBench's applications and permutations of their tasks",
            "seed": seed,
            "dataflows": len(dataflows),
            "tasks": sum(len(dataflow["tasks"]) for dataflow in dataflows.values()),
            "applications": sum(map(len, _APPLICATIONS.values())),
            "permutations": sum(_PERMUTATIONS.values()),
            "bloom_filters_expected": EXPECTED,
        },
        sources=tuple(map(_source, sorted(read_or_published))),
        dataflows=dataflows,
    )


def _dataflows(seed: int) -> Mapping[str, Document]:
    random = Random(seed)  # noqa: S311 - a workload is no secret
    documents: dict[str, Document] = {}
    for name, data in DATA_SETS.items():
        for application, make in _APPLICATIONS[name].items():
            documents[f"{name}-{application}"] = make(data)
        for number, permutation in enumerate(drawn(_PERMUTATIONS[name], random), 1):
            documents[f"{name}-{number}"] = permuted(data, permutation)
    return {name: {**document, "name": name} for name, document in documents.items()}


def _source(name: str) -> WorkloadSource:
    _, data, kind = name.split(".")
    made: Mapping[str, Events] = {
        "rows": partial(events, DATA_SETS[data]),
        "learned": partial(models, DATA_SETS[data]),
    }
    return WorkloadSource(
        name=name,
        schema=applications.SCHEMAS[kind],
        events=made.get(kind),
        per_second=DATA_SETS[data].per_second if kind == "rows" else _MODELS_PER_SECOND,
    )
