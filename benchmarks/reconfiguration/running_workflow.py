"""A workflow that runs on a service: bursts of events for it, its outputs, and the delays of its reconfigurations."""

import json
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.manager_test_bed import MeasuredService
from benchmarks.reconfiguration.workflows import PAYMENT, Workflow
from manager.answers.reconfigurations import ReconfigurationForm, ReconfigurationState
from manager.answers.sources import SourceForm
from manager.client import Client
from merge.reconfiguration.switches import Scheduler

_BOUND = 300.0
_USERS = 50


class RunningWorkflow:
    """One workflow; started when it is made."""

    def __init__(self, service: MeasuredService, ann: Client, operator: Client, workflow: Workflow, work: int) -> None:
        self.workflow = workflow
        self._service = service
        self._operator = operator
        self._sent = 0
        self._generation = 0
        self._proving: list[str] = []
        for name in workflow.sources:
            topic = workflow.source(name)
            ann.register_source(
                SourceForm.model_validate(
                    {"name": topic, "connection": {"kind": "topic", "topic": topic}, "schema": PAYMENT}
                )
            )
        self._flow = ann.submit(workflow.document(work))
        wait_until_runs(ann, self._flow.id)

    def burst(self, many: int) -> None:
        """Send so many events at once to each source."""
        for _ in range(many):
            event = {"n": self._sent, "user": self._sent % _USERS, "amount": float(self._sent % 97), "time": 0}
            for name in self.workflow.sources:
                self._service.publish(self.workflow.source(name), json.dumps(event).encode())
            self._sent += 1

    @property
    def left(self) -> int:
        """The events that left so far."""
        came = (self._service.events or {}).get(self._flow.outputs[0].topic, ())
        return sum(len(each) for _, each in came)

    def drain(self) -> float:
        """Wait until every event has left; when the last one did."""

        def last() -> float | None:
            came = (self._service.events or {}).get(self._flow.outputs[0].topic, [])
            return came[-1][0] if self.left >= self._sent * self.workflow.leaving else None

        return self._service.wait(last, f"all events of {self.workflow.name} to have left")

    def prove(self) -> None:
        """Wait until earlier reconfigurations are done: a task that is on proof counts as if it changed again."""
        for number in self._proving:
            while self._operator.reconfiguration(self._flow.id, number).state is ReconfigurationState.SWITCHED:
                time.sleep(0.1)
        self._proving.clear()

    def delay(self, changed: str, scheduler: Scheduler, config: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Milliseconds until all jobs have switched, and the components."""
        self._generation += 1
        patch = {"config": {"generation": self._generation, **(config or {})}}
        form = ReconfigurationForm(tasks=dict.fromkeys(changed.split(), patch), scheduler=scheduler)
        answer = self._operator.reconfigure(self._flow.id, form)
        ended = settled(self._operator, self._flow.id, answer.id)
        if ended.switched is None or ended.scope is None:
            raise TimeoutError(f"the reconfiguration did not switch: {ended}")
        self._proving.append(answer.id)
        took = round((ended.switched - ended.begun).total_seconds() * 1_000)
        return took, ", ".join(f"{{{' '.join(component.tasks)}}}" for component in ended.scope.components)


def settled(client: Client, flow: str, number: str) -> Any:
    """The reconfiguration, once it has switched."""
    until = time.monotonic() + _BOUND
    while (answer := client.reconfiguration(flow, number)).state in {
        ReconfigurationState.WAITING,
        ReconfigurationState.PREPARING,
        ReconfigurationState.SWITCHING,
    }:
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_BOUND:g} s: {answer}")
        time.sleep(0.02)
    return answer


def wait_until_runs(client: Client, flow: str) -> None:
    """Wait until a dataflow runs."""
    until = time.monotonic() + _BOUND
    while client.dataflow(flow).state != "running":
        if time.monotonic() > until:
            raise TimeoutError(f"{flow} does not run")
        time.sleep(0.05)
