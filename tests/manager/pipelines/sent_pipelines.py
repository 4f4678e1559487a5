"""Pipelines as tenants send them, over the modules of the tests' catalogue; for tests of their use cases."""

import json
from typing import Any

from braid_client.answers.dataflows import SubmitAnswer
from manager.store.tables import ModuleRow
from tests.manager.managers import ANN, OPERATOR, Manager
from tests.manager.managers import raw as plain
from tests.notation import document
from tests.planning.pipelines.open_places import MODULES, pipeline_document

GOAL = [{"holds": {"unit": "kelvin"}}]
GIVEN = {"s": {"unit": "celsius"}}
LINE = "s:source > p:point > k:sink"


def raw(text: str, **more: Any) -> bytes:
    """A pipeline as it is sent."""
    written = pipeline_document(text, **more)
    sources = json.loads(plain(document(text)))["tasks"]
    tasks = [sent if sent["type"] == "source" else each for sent, each in zip(sources, written["tasks"], strict=True)]
    return json.dumps({**written, "tasks": tasks}).encode()


def publish(manager: Manager, *forms: dict[str, Any], owner: str = "") -> None:
    """Publish modules, those of the tests' pipelines if none are named."""
    every = forms or [json.loads(each.form.model_dump_json(exclude_unset=True)) for each in MODULES]
    with manager.store.write() as session:
        for each in every:
            row = ModuleRow(
                owner=owner, name=each["name"], version=each["version"], form=json.dumps(each), published=0.0
            )
            session.add(row)


def submit(manager: Manager, text: str = LINE, **more: Any) -> SubmitAnswer:
    """Submit a pipeline of Ann's."""
    return manager.service.dataflows.submit(ANN, raw(text, **({"goals": GOAL, "given": GIVEN} | more)))


def to_kelvin(**other: Any) -> dict[str, Any]:
    """The form of the module that plans for the goal take, with other fields."""
    return {**json.loads(MODULES[0].form.model_dump_json(exclude_unset=True)), **other}


KELVINS = {"name": "kelvins", "cost": 9.0, "installed": {"type": "map", "config": {"add": 274}}}
"""What makes another module of that one, which plans take only without it."""


def fillings(answer: Any) -> dict[str, str | None]:
    """The module at each place."""
    return {each.id: each.module for each in answer.plan.places}


def held(manager: Manager, flow: str, task: str = "p") -> str | None:
    """The module of a task that runs."""
    tasks = manager.service.dataflows.get(OPERATOR, flow).document["tasks"]
    modules: dict[str, str | None] = {each["id"]: each.get("module") for each in tasks}
    return modules[task]
