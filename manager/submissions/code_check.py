"""The check that tasks of the types of code run what was published for them, and not what a document claims.

A config names who published a source, and what an operator publishes is vouched for. So no tenant may write one itself.
"""

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

from dags import Dataflow, Problem
from dags.problems import pointer
from engine.tasks.code import CODE_TYPES, CodeConfig
from manager.problem import InvalidDataflow

Published: TypeAlias = Callable[[str, CodeConfig], bool]
"""Whether a tenant may run code as a config says: it is that of a published source, with its owner."""
_CONFIGS: Mapping[str, type[CodeConfig]] = {each.name: each.config for each in CODE_TYPES}


def check_code(dataflow: Dataflow, raw: bytes, published: Published) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that runs other code."""
    configs = {
        id_: _CONFIGS[dataflow.tasks[place].type.name].model_validate_json(json.dumps(dataflow.tasks[place].config))
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name in _CONFIGS
    }
    unknown = {id_ for id_, config in configs.items() if not published(dataflow.tenant, config)}
    if not unknown:
        return
    raise InvalidDataflow(
        Problem(
            pointer=pointer("tasks", at, "config"),
            code="code-not-published",
            message="the config is not that of published code which you may run",
            remedy="publish the source as a module, and name the module at an open place of a pipeline",
        )
        for at, task in enumerate(json.loads(raw)["tasks"])
        if task["id"] in unknown
    )
