"""The built-in workload: 35 dataflows of the built-in repository, drawn by a seed.

The whole repository shares 37.8 % of its tasks, sources by data type; 35 of it drawn blindly share about 27 %, because
much of what is shared is shared by two. The calibration is read as describing the 35: they are to look like the whole,
with the same steps per template, as many chains and single steps in proportion, and 37.8 % shared when all run. So a
blind draw is mended, template by template, until it does.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median
from typing import Any

from dags import Dataflow, Key
from engine import installed_catalogue
from workloads.opmw.describing import dataflows_of, no_output, shape, sharing, sharing_otherwise
from workloads.opmw.encoding import ITERATIONS, PER_SECOND, Inputs, SourcesBy, encode, sources_of, workload_source
from workloads.opmw.repository import TARGETS, is_chain, repository
from workloads.opmw.templates import Template
from workloads.workload import Workload

DRAWN = 35
"""How many dataflows the workload has."""
TARGETS_DRAWN: dict[str, Any] = {
    "templates": DRAWN,
    "steps": {"min": 1, "median": 3, "mean": "4.97 within 0.25", "max": 18},
    "single-step": "5 or 6",
    "chains": "17 to 19",
    "by type": {"shared": "0.378 within 0.002"},
}
_MEAN, _MEAN_WITHIN = 4.97, 0.25
_SHARE, _SHARE_WITHIN = 0.378, 0.002
_CHAINS = (17, 19)
_SINGLE = (5, 6)
_READING = (
    "A repository of 70 templates with the published statistics, and 35 of them, drawn by the seed, that look like the "
    "whole and share what the whole shares. 35 that are drawn blindly share about 27 %."
)
_TRIES = 20_000
_NAMES = {Inputs.INTERLEAVE: "opmw", Inputs.JOIN: "opmw-join"}
"""As traces name the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A template as drawing sees it."""

    template: Template
    dataflow: Dataflow
    chain: bool
    keys: frozenset[int]
    """Its distinct tasks, outputs left out; equivalent tasks of several templates have the same number."""


def opmw(seed: int = 1, *, inputs: str = Inputs.INTERLEAVE) -> Workload:
    """The workload of a seed: which 35 of the 70 templates are its dataflows.

    `inputs` says when steps with several inputs work: at each event (`interleave`), or once for each complete set
    (`join`).
    """
    drawn, way = _draw(seed), Inputs(inputs)
    documents = {each.template.name: encode(each.template, name=each.template.name, inputs=way) for each in drawn}
    sources = sorted({source for document in documents.values() for source in sources_of(document)})
    return Workload(
        name=_NAMES[way] + ("" if seed == 1 else f":{seed}"),
        about={
            "seed": seed,
            "reading": _READING,
            "encoding": "sources by data type, an output for each output variable",
            "inputs": way.value,
            "iterations of each step": ITERATIONS,
            "events per second of each source": PER_SECOND,
            "repository": {"targets": TARGETS, "reached": _whole()},
            "drawn": {"targets": TARGETS_DRAWN, "reached": _described(drawn)},
        },
        sources=tuple(map(workload_source, sources)),
        dataflows=documents,
    )


def opmw_join(seed: int = 1) -> Workload:
    """The same dataflows, whose steps with several inputs work once for each complete set."""
    return opmw(seed, inputs=Inputs.JOIN)


def _draw(seed: int) -> tuple[_Candidate, ...]:
    """35 templates of the repository, in its order."""
    candidates, dice = _candidates(), random.Random(f"opmw {seed}")  # noqa: S311 - a draw that is repeated, no secret
    mixed = dice.sample(candidates, len(candidates))
    chosen, left = mixed[:DRAWN], mixed[DRAWN:]
    off = _off(chosen)
    for _ in range(_TRIES):
        if not off:
            break
        out, into = dice.randrange(len(chosen)), dice.randrange(len(left))
        chosen[out], left[into] = left[into], chosen[out]
        if (now := _off(chosen)) <= off:
            off = now
        else:
            chosen[out], left[into] = left[into], chosen[out]
    names = {each.template.name for each in chosen}
    return tuple(each for each in candidates if each.template.name in names)


def _off(chosen: Sequence[_Candidate]) -> float:
    """How far templates are from what is wanted of them; 0 where they meet all of it."""
    sizes = [len(each.template.steps) for each in chosen]
    total = sum(len(each.keys) for each in chosen)
    share = 1 - len(frozenset[int]().union(*(each.keys for each in chosen))) / total
    return (
        abs(min(sizes) - 1)
        + abs(median(sizes) - 3)
        + abs(max(sizes) - 18)
        + _beyond(fmean(sizes), _MEAN - _MEAN_WITHIN, _MEAN + _MEAN_WITHIN)
        + _beyond(sizes.count(1), *_SINGLE)
        + _beyond(sum(each.chain for each in chosen), *_CHAINS)
        # As much as the others, so that one step of any of them can be paid with some share on the way.
        + 50 * _beyond(share, _SHARE - _SHARE_WITHIN, _SHARE + _SHARE_WITHIN)
    )


def _beyond(value: float, least: float, most: float) -> float:
    return max(0.0, least - value, value - most)


@cache
def _candidates() -> tuple[_Candidate, ...]:
    templates, numbers = repository(), dict[Key, int]()
    dataflows = dataflows_of(templates, installed_catalogue(), SourcesBy.TYPE)
    return tuple(
        _Candidate(
            template=template,
            dataflow=dataflow,
            chain=is_chain(template),
            keys=frozenset(
                numbers.setdefault(task.key, len(numbers)) for task in dataflow.tasks if no_output(task.type.name)
            ),
        )
        for template, dataflow in zip(templates, dataflows, strict=True)
    )


@cache
def _whole() -> dict[str, Any]:
    return {**_described(_candidates()), **sharing_otherwise(repository(), installed_catalogue())}


def _described(chosen: Sequence[_Candidate]) -> dict[str, Any]:
    return {**shape([each.template for each in chosen]), **sharing([each.dataflow for each in chosen])}
