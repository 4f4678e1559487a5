"""The edits that the composer makes of a document's text, and their history."""

import json
from random import Random
from typing import Any

import pytest

from tests.console.conftest import PageFor
from tests.console.test_composer import README

pytestmark = pytest.mark.chromium

EDITS = """
async ([text, edits]) => {
  const made = await import("/console/scripts/composer/document.js");
  const steps = {
    add: ([task]) => (now) => made.withTask(now, task),
    remove: ([ids]) => (now) => made.withoutTasks(now, new Set(ids)),
    rename: ([id, other]) => (now) => made.withId(now, id, other),
    config: ([id, config]) => (now) => made.withConfig(now, id, config),
    connect: ([stream]) => (now) => made.withStream(now, stream),
    disconnect: ([at]) => (now) => made.withoutStream(now, at),
  };
  return edits.map(([name, ...given]) => (text = steps[name](given)(text)));
}
"""


def test_a_sequence_of_edits_makes_the_document_that_it_says(page_for: PageFor) -> None:
    """However it was written before: compared, edit by edit, with the same edits of plain values."""
    page = page_for(None)
    random = Random(0)
    for layout in ({"indent": None}, {"indent": 2}, {"indent": 1}, {"separators": (",", ":")}):
        document = README | {"extra": {"at": [1, {"b": 2}]}}
        expected: list[dict[str, Any]] = []
        edits: list[list[Any]] = []
        for number in range(60):
            edit = drawn_edit(random, document, number)
            document = edited(document, edit)
            edits.append(edit)
            expected.append(document)
        texts = page.evaluate(EDITS, [json.dumps(README | {"extra": {"at": [1, {"b": 2}]}}, **layout), edits])
        assert expected == [json.loads(text) for text in texts]


def drawn_edit(random: Random, document: dict[str, Any], number: int) -> list[Any]:
    """An edit that the canvas could make of a document."""
    ids = [each["id"] for each in document["tasks"]]
    config: dict[str, Any]
    possible: list[list[Any]] = [["add", {"id": f't"{number}', "type": "noop"}]]
    if ids:
        config = {name: random.choice([1, None, "x", [1, 2], {"y": {}}]) for name in random.sample("ab~/", 2)}
        one, other = random.choice(ids), random.choice(ids)
        possible += [["remove", random.sample(ids, 1)], ["rename", one, f"r{number}"], ["config", one, config]]
        possible += [["config", one, {}], ["connect", {"from": one, "to": other, "to_port": "in"}]] * 2
    if document["streams"]:
        possible.append(["disconnect", random.randrange(len(document["streams"]))])
    return random.choice(possible)


def edited(document: dict[str, Any], edit: list[Any]) -> dict[str, Any]:
    """The document after an edit."""
    tasks, streams = document["tasks"], document["streams"]
    match edit:
        case ["add", new]:
            tasks = [*tasks, new]
        case ["remove", ids]:
            tasks = [each for each in tasks if each["id"] not in ids]
            streams = [each for each in streams if each["from"] not in ids and each["to"] not in ids]
        case ["rename", id_, other]:
            tasks = [each | {"id": other} if each["id"] == id_ else each for each in tasks]
            ends = ("from", "to")
            streams = [each | {end: other for end in ends if each[end] == id_} for each in streams]
        case ["config", id_, config]:
            plain = [{name: value for name, value in each.items() if name != "config"} for each in tasks]
            tasks = [
                (each | {"config": config} if config else bare) if each["id"] == id_ else each
                for each, bare in zip(tasks, plain, strict=True)
            ]
        case ["connect", stream]:
            streams = [*streams, stream]
        case ["disconnect", at]:
            streams = [*streams[:at], *streams[at + 1 :]]
    return document | {"tasks": tasks, "streams": streams}


def test_history_undoes_and_redoes(page_for: PageFor) -> None:
    """Edits of one group that follow each other are one step; after a new edit nothing is left to redo."""
    page = page_for(None)
    found = page.evaluate(
        """async () => {
          const { begun, changed, undone, redone } = await import("/console/scripts/composer/history.js");
          let history = changed(begun("a"), "b", { now: 0 });
          history = changed(history, "c", { group: "typing", now: 5000 });
          history = changed(history, "d", { group: "typing", now: 5100 });
          const back = undone(history);
          const fork = changed(back, "e", { now: 9000 });
          return [history, back, undone(undone(back)), redone(back), redone(fork)].map((each) => each.present);
        }"""
    )
    assert ["d", "b", "a", "d", "e"] == found
