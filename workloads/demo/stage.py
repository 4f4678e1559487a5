"""What the demo does as its tenants and as its operator, by the typed client."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from manager.answers import (
    BrokerCredentials,
    DataflowState,
    KeyForm,
    SourceForm,
    SubmitAnswer,
    TaskAnswer,
    TenantForm,
)
from manager.client import Client
from workloads.examples import EXAMPLES, SOURCES, TRACES
from workloads.outputs import Heard, Outputs
from workloads.service import RunFailed, Service

_PATIENCE = 60.0
_LOOKING = 0.2
MODEL = {
    "tasks": (
        {"id": "model", "type": "pi_viete", "config": {"iterations": 350}},
        {"id": "mean score", "type": "block_window_average", "config": {"field": "pi", "window": 100}},
        {"id": "scores", "type": "output"},
    ),
    "streams": ({"from": "model", "to": "mean score"}, {"from": "mean score", "to": "scores"}),
}
"""What the demo adds to each example: a task that works some 0.1 ms on each event, as a model would, and its output."""
PLAUSIBLE = -12.5
"""From which temperature on the examples take a reading for plausible."""
_MORE = 30
"""How many events more an output gets where it has to go on; the slowest gets some 10 in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What runs in all."""

    dataflows: int
    submitted: int
    """Tasks that would run if nothing was shared."""
    running: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What the removal of a dataflow did."""

    stopped: tuple[str, ...]
    """Its tasks that nobody else needs."""
    released: tuple[str, ...]
    """Its tasks that run on for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How an output went on while and after another dataflow was removed."""

    tenant: str
    sink: str
    before: int
    """Events until the removal was asked for."""
    after: int
    longest: float
    """The longest time between two messages since, in seconds."""


class Stage:
    """The service with two tenants and their dataflows."""

    def __init__(self, service: Service, operator: Client, outputs: Outputs) -> None:
        self.operator = operator
        self.outputs = outputs
        self._service = service
        self._tenants: dict[str, Client] = {}
        self._flows: dict[str, SubmitAnswer] = {}
        """The dataflows that are submitted and not removed, by id."""

    def admit(self, tenants: Iterable[str]) -> dict[str, BrokerCredentials]:
        """Admit tenants, each with an API key of its own; with what each connects to the broker."""
        credentials: dict[str, BrokerCredentials] = {}
        for tenant in tenants:
            self.operator.admit(TenantForm(name=tenant))
            client = self._service.client(self.operator.make_key(KeyForm(tenant=tenant)).key)
            self._tenants[tenant] = client
            credentials[tenant] = client.make_credentials(tenant)
        return credentials

    def register_sources(self, per_second: float) -> tuple[str, ...]:
        """Register the sources of the examples, replayed over and over; their full names."""
        described = json.loads(SOURCES.read_bytes())
        return tuple(
            self.operator.register_source(
                SourceForm.model_validate(
                    {
                        **described[name],
                        "name": name,
                        "connection": {"kind": "replay", "path": str(trace), "per_second": per_second, "repeat": True},
                    }
                )
            ).name
            for name, trace in TRACES.items()
        )

    def submit(self, tenant: str, example: str, *, alone: bool = False) -> SubmitAnswer:
        """Submit an example; alone, it has every task fresh, and so shares none."""
        answer = self._tenants[tenant].submit(_document(example, fresh=alone))
        self._flows[answer.id] = answer
        return answer

    def remove(self, flow: SubmitAnswer) -> Removal:
        """Remove a dataflow, as its tenant."""
        self._tenants[flow.tenant].remove(flow.id)
        del self._flows[flow.id]
        running = {task.instance for task in self.operator.running_tasks()}
        return Removal(
            stopped=tuple(task.id for task in tasks_of(flow) if task.instance not in running),
            released=tuple(task.id for task in tasks_of(flow) if task.instance in running),
        )

    def remove_all(self) -> None:
        """Remove every dataflow, and wait until no job is left."""
        for flow in tuple(self._flows.values()):
            self.remove(flow)
        self._until("the jobs to stop", lambda: not list(self.operator.jobs()))

    def sums(self) -> Sums:
        """What runs now."""
        return Sums(
            dataflows=len(self._flows),
            submitted=sum(len(tasks_of(flow)) for flow in self._flows.values()),
            running=sum(1 for _ in self.operator.running_tasks()),
            jobs=sum(1 for _ in self.operator.jobs()),
        )

    def await_outputs(self, flows: Sequence[SubmitAnswer]) -> None:
        """Wait until every dataflow runs, and something came of each of its outputs."""
        for flow in flows:
            self._until(f"dataflow {flow.id} to run", partial(self._runs, flow))
        self.outputs.wait_for_more(dict.fromkeys(topics_of(flows), 1))

    def await_progress(
        self, gone: SubmitAnswer, others: Sequence[SubmitAnswer], before: Mapping[str, Heard]
    ) -> tuple[Progress, ...]:
        """Wait until the others' outputs have gone on after a removal; fails where one missed an event."""
        self._until("the new plan", lambda: all(job.in_effect == job.version for job in self.operator.jobs()))
        self._go_on(others)
        silent = self.events([gone])
        self._go_on(others)
        if (more := self.events([gone]) - silent) > 0:
            raise RunFailed(f"{more} events came of dataflow {gone.id} after its removal had taken effect")
        self.check_numbers()
        return tuple(
            Progress(
                tenant=flow.tenant,
                sink=output.sink,
                before=before[output.topic].events,
                after=self.outputs[output.topic].events,
                longest=self.outputs[output.topic].longest,
            )
            for flow in others
            for output in flow.outputs
        )

    def events(self, flows: Sequence[SubmitAnswer]) -> int:
        """How many events came of the outputs of dataflows."""
        return sum(self.outputs[topic].events for topic in topics_of(flows))

    def check_numbers(self) -> None:
        """Fail where a number is missing in any output."""
        if missing := {topic: heard.missing for topic, heard in self.outputs.all().items() if heard.missing}:
            told = ", ".join(f"{number} of {topic}" for topic, number in missing.items())
            raise RunFailed(f"events did not arrive: {told}")

    def close(self) -> None:
        """Give up the tenants' clients."""
        for client in self._tenants.values():
            client.close()

    def _runs(self, flow: SubmitAnswer) -> bool:
        return self._tenants[flow.tenant].dataflow(flow.id).state is DataflowState.RUNNING

    def _go_on(self, flows: Sequence[SubmitAnswer]) -> None:
        """Wait until each output of dataflows has got some more events."""
        self.outputs.wait_for_more(dict.fromkeys(topics_of(flows), _MORE))

    def _until(self, what: str, test: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not test():
            if time.monotonic() > deadline:
                raise RunFailed(f"the demo waited {_PATIENCE:g} s for {what}, in vain")
            time.sleep(_LOOKING)


def tasks_of(flow: SubmitAnswer) -> tuple[TaskAnswer, ...]:
    """All tasks of a dataflow."""
    return in_order((*flow.reused, *flow.started))


def in_order(tasks: Iterable[TaskAnswer]) -> tuple[TaskAnswer, ...]:
    """Tasks as the events meet them: instances are numbered from the sources down."""
    return tuple(sorted(tasks, key=lambda task: task.instance))


def topics_of(flows: Iterable[SubmitAnswer]) -> tuple[str, ...]:
    """The topics of dataflows' outputs."""
    return tuple(output.topic for flow in flows for output in flow.outputs)


def _document(example: str, *, fresh: bool) -> dict[str, Any]:
    """An example as it is submitted, with the model after its plausible readings.

    Sources have their full names, since not every tenant owns them.
    """
    document: dict[str, Any] = json.loads(EXAMPLES[example].read_bytes())
    owners = {name: described["owner"] for name, described in json.loads(SOURCES.read_bytes()).items()}
    plausible = next(task["id"] for task in document["tasks"] if task.get("config", {}).get("min") == PLAUSIBLE)
    tasks = [*document["tasks"], *MODEL["tasks"]]
    for task in tasks:
        if task["type"] == "source":
            name = task["config"]["source"]
            task["config"]["source"] = f"{owners[name]}:{name}"
    return {
        **document,
        "tasks": [{**task, "fresh": fresh} for task in tasks],
        "streams": [*document["streams"], {"from": plausible, "to": "model"}, *MODEL["streams"]],
    }
