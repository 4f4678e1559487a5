"""The built-in workload: 35 dataflows of the built-in repository, drawn by a seed.

With sources by data type, the whole repository shares 40.0 % of its tasks and saves 23 % of the steps' work. A random
draw of 35 templates shares less, because many shared tasks have few users. The calibration is read as describing the
35: they should resemble the whole in steps per template, in the proportion of chains and single steps, and in the tasks
and the work saved when all run. So templates of a random draw are exchanged one by one until they do.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median
from typing import Any

from dags import Dataflow, Key
from engine import installed_catalogue
from workloads.opmw.document_encoder import (
    EVENTS_PER_SECOND,
    ITERATIONS,
    Inputs,
    SourcesBy,
    encode,
    sources_of,
    workload_source,
)
from workloads.opmw.sharing_counts import dataflows_of, shape, sharing, sharing_by_other_sources, works
from workloads.opmw.templates import TARGETS, WORK_SAVED, Template, is_chain, repository
from workloads.workload import Workload

DRAWN = 35
"""The number of dataflows in the workload."""
TARGETS_DRAWN: dict[str, Any] = {
    "templates": DRAWN,
    "steps": {"min": 1, "median": 3, "mean": "4.97 within 0.25", "max": 18},
    "single-step": "5 or 6",
    "chains": "17 to 19",
    "by type": {
        "steps and sources": {"shared": "0.400 within 0.002"},
        "steps": {"shared": "as the whole, within 0.05"},
        "work saved": "0.23 within 0.005",
    },
}
_MEAN, _MEAN_WITHIN = 4.97, 0.25
_SHARE, _SHARE_WITHIN = 0.400, 0.002
_STEPS_WITHIN = 0.05
_WORK, _WORK_WITHIN = 0.23, 0.005
_CHAINS = (17, 19)
_SINGLE = (5, 6)
_READING = (
    "A repository of 70 templates with the published statistics, and 35 of them, drawn by the seed, that look like the "
    "whole and share what the whole shares."
)
_TRIES = 40_000
_LENIENT = 0.3
_EXACT = 1e-9
_NAMES = {Inputs.INTERLEAVE: "opmw", Inputs.JOIN: "opmw-join"}
"""The workload's names in traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A template with the properties that the draw depends on."""

    template: Template
    dataflow: Dataflow
    chain: bool
    sources: frozenset[int]
    """Its distinct sources; equivalent tasks of different templates have the same number."""
    steps: Mapping[int, int]
    """The work of each of its distinct steps."""


def opmw(seed: int = 1, *, inputs: str = Inputs.INTERLEAVE) -> Workload:
    """The workload of a seed, which chooses 35 of the 70 templates.

    Steps with several inputs work at each event (`interleave`), or once for each complete set (`join`).
    """
    drawn, way = _draw(seed), Inputs(inputs)
    documents = {
        candidate.template.name: encode(candidate.template, name=candidate.template.name, inputs=way)
        for candidate in drawn
    }
    sources = sorted({source for document in documents.values() for source in sources_of(document)})
    return Workload(
        name=_NAMES[way] + ("" if seed == 1 else f":{seed}"),
        about={
            "seed": seed,
            "reading": _READING,
            "encoding": "sources by data type, an output for each output variable",
            "inputs": way.value,
            "iterations of each step": ITERATIONS,
            "events per second of each source": EVENTS_PER_SECOND,
            "repository": {"targets": {**TARGETS, "work saved": WORK_SAVED}, "reached": _whole()},
            "drawn": {"targets": TARGETS_DRAWN, "reached": _described(drawn)},
        },
        sources=tuple(map(workload_source, sources)),
        dataflows=documents,
    )


def opmw_join(seed: int = 1) -> Workload:
    """The same dataflows, but steps with several inputs work once for each complete set."""
    return opmw(seed, inputs=Inputs.JOIN)


def _draw(seed: int) -> tuple[_Candidate, ...]:
    """Draw 35 templates; they are in the order of the repository."""
    candidates, dice = _candidates(), random.Random(f"opmw {seed}")  # noqa: S311 - a draw is no secret
    mixed = dice.sample(candidates, len(candidates))
    chosen, left = mixed[:DRAWN], mixed[DRAWN:]
    error = _error(chosen)
    for left_over in range(_TRIES, 0, -1):
        if error < _EXACT:
            break
        out, into = dice.randrange(len(chosen)), dice.randrange(len(left))
        chosen[out], left[into] = left[into], chosen[out]
        # Accept slightly worse draws too, ever less over time, to leave local optima (simulated annealing).
        if (now := _error(chosen)) <= error + _LENIENT * left_over / _TRIES:
            error = now
        else:
            chosen[out], left[into] = left[into], chosen[out]
    names = {candidate.template.name for candidate in chosen}
    return tuple(candidate for candidate in candidates if candidate.template.name in names)


def _error(chosen: Sequence[_Candidate]) -> float:
    """The distance of the chosen templates from the targets; 0 if they meet all."""
    sizes = [len(candidate.template.steps) for candidate in chosen]
    tasks, steps, work = _shares(chosen)
    return (
        abs(min(sizes) - 1)
        + abs(median(sizes) - 3)
        + abs(max(sizes) - 18)
        + _beyond(fmean(sizes), _MEAN - _MEAN_WITHIN, _MEAN + _MEAN_WITHIN)
        + _beyond(sizes.count(1), *_SINGLE)
        + _beyond(sum(candidate.chain for candidate in chosen), *_CHAINS)
        # Weighted like the others, so that a step in one can offset some share on the way.
        + 50 * _apart(tasks, _SHARE, _SHARE_WITHIN)
        + 50 * _apart(steps, _steps_shared(), _STEPS_WITHIN)
        + 50 * _apart(work, _WORK, _WORK_WITHIN)
    )


def _shares(chosen: Sequence[_Candidate]) -> tuple[float, float, float]:
    """The shared part of the steps and sources, of the steps, and of the steps' work."""
    steps: dict[int, int] = {}
    for candidate in chosen:
        steps.update(candidate.steps)
    sources = frozenset[int]().union(*(candidate.sources for candidate in chosen))
    all_steps = sum(len(candidate.steps) for candidate in chosen)
    all_sources = sum(len(candidate.sources) for candidate in chosen)
    all_work = sum(sum(candidate.steps.values()) for candidate in chosen)
    return (
        1 - (len(steps) + len(sources)) / (all_steps + all_sources),
        1 - len(steps) / all_steps,
        1 - sum(steps.values()) / all_work,
    )


@cache
def _steps_shared() -> float:
    return _shares(_candidates())[1]


def _beyond(value: float, least: float, most: float) -> float:
    return max(0.0, least - value, value - most)


def _apart(value: float, wanted: float, within: float) -> float:
    return _beyond(value, wanted - within, wanted + within)


@cache
def _candidates() -> tuple[_Candidate, ...]:
    templates, numbers = repository(), dict[Key, int]()
    dataflows = dataflows_of(templates, installed_catalogue(), SourcesBy.TYPE)

    def number(key: Key) -> int:
        return numbers.setdefault(key, len(numbers))

    return tuple(
        _Candidate(
            template=template,
            dataflow=dataflow,
            chain=is_chain(template),
            sources=frozenset(number(task.key) for task in dataflow.tasks if task.type.is_source),
            steps={number(key): work for key, work in works(dataflow).items()},
        )
        for template, dataflow in zip(templates, dataflows, strict=True)
    )


@cache
def _whole() -> dict[str, Any]:
    return {**_described(_candidates()), **sharing_by_other_sources(repository(), installed_catalogue())}


def _described(chosen: Sequence[_Candidate]) -> dict[str, Any]:
    return {
        **shape([candidate.template for candidate in chosen]),
        **sharing([candidate.dataflow for candidate in chosen]),
    }
