"""Random dataflows whose events carry which version of which task they met, and the history that they tell."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from braid_client.answers.sources import SourceForm
from tests.integration.serving import street
from tests.serialisability import History, Processed

KEYS = ("k0", "k1", "k2")
MOST_MARKS = 5
COUNTED = "count"
FIRST = "first"
"""The version of all tasks before their first reconfiguration."""


class MarkedDag(NamedTuple):
    """A dataflow of tasks that mark events, with a count somewhere; made by `drawn_dag`."""

    parents: Mapping[str, Sequence[str]]
    """The parents of each task, of outputs among them."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The tasks that mark events."""
        return tuple(sorted(each for each in self.parents if each.startswith("t")))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of marked events."""
        return tuple(sorted(each for each in self.parents if each.startswith("out")))

    def ways(self, task: str) -> int:
        """The number of ways from the source to a task: it gets each event once on each."""
        return 1 if task == "in" else sum(self.ways(parent) for parent in self.parents[task])

    def above(self, task: str) -> frozenset[str]:
        """The marking tasks on some way to a task."""
        direct = [each for each in self.parents.get(task, ()) if each != "in"]
        return frozenset(direct).union(*map(self.above, direct))

    def document(self, source: str) -> dict[str, Any]:
        """The document, with all tasks in their first version."""
        tasks: list[dict[str, Any]] = [{"id": "in", "type": "source", "config": {"source": source}}]
        tasks += ({"id": each, "type": "annotate", "config": version(each, FIRST)} for each in self.marks)
        tasks.append({"id": COUNTED, "type": "count", "config": {"by": ["k"]}})
        tasks += ({"id": each, "type": "output"} for each in (*self.outputs, "tally"))
        streams = [{"from": parent, "to": task} for task, parents in self.parents.items() for parent in parents]
        return {"version": 1, "name": "drawn", "tasks": tasks, "streams": [*streams, {"from": COUNTED, "to": "tally"}]}


def drawn_dag(draw: random.Random) -> MarkedDag:
    """A dataflow with splits, and with tasks that several streams enter."""
    parents: dict[str, list[str]] = {}
    for at in range(draw.randint(2, MOST_MARKS)):
        before = ["in", *parents]
        parents[f"t{at}"] = draw.sample(before, min(len(before), draw.choice((1, 1, 2))))
    read = {parent for each in parents.values() for parent in each}
    ends = [each for each in parents if each not in read]
    counted = draw.choice([*parents])
    return MarkedDag({**parents, **{f"out-{each}": [each] for each in ends}, COUNTED: [counted]})


def version(task: str, name: str) -> dict[str, Any]:
    """The config of a marking task in some version."""
    return {"field": "k", "fields": {task: "string"}, "known": {key: {task: name} for key in KEYS}}


def marked_source(name: str) -> SourceForm:
    """A source whose events have a place for the mark of each task, so that none gets lost where streams meet."""
    fields = {f"t{at}": "string" for at in range(MOST_MARKS)}
    return street(name, schema={"n": "integer", "k": "string", **fields})


def unmarked(first: int, end: int) -> list[dict[str, Any]]:
    """Numbered events without marks."""
    blank = {f"t{at}": "" for at in range(MOST_MARKS)}
    return [{"n": n, "k": KEYS[n % len(KEYS)], **blank} for n in range(first, end)]


def history(
    dag: MarkedDag, applied: Mapping[str, Sequence[str]], outputs: Mapping[str, Iterable[Mapping[str, Any]]]
) -> History:
    """The history of which the outputs of marked events tell; `applied` are the reconfigurations of each task."""
    return History(
        applied=applied,
        processed=tuple(
            Processed(event=event["n"], task=task, configuration=None if event[task] == FIRST else event[task])
            for output, events in outputs.items()
            for event in events
            for task in sorted(dag.above(output))
            if event[task]
        ),
    )
