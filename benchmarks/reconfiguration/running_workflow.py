"""A workflow that runs on a service: events for it, its outputs, and the delays of its reconfigurations."""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.documents import topic_source
from benchmarks.instruments import Figures, awaited
from benchmarks.manager_test_bed import MeasuredService
from benchmarks.reconfiguration.workflows import PAYMENT, Workflow
from braid_client import Client
from braid_client.answers.dataflows import SubmitAnswer
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from dags.vocabulary import Scheduler

_BOUND = 300.0
_USERS = 50
_UNDER_WAY = {ReconfigurationState.WAITING, ReconfigurationState.PREPARING, ReconfigurationState.SWITCHING}


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
            ann.register_source(topic_source(workflow.source(name), PAYMENT))
        self._flow = ann.submit(workflow.document(work))
        wait_until_runs(ann, self._flow.id)

    def burst(self, many: int) -> None:
        """Send so many events at once to each source."""
        for _ in range(many):
            event = {"n": self._sent, "user": self._sent % _USERS, "amount": float(self._sent % 97), "time": 0}
            for name in self.workflow.sources:
                self._service.publish(self.workflow.source(name), json.dumps(event).encode())
            self._sent += 1

    def drain(self) -> float:
        """Wait until every event has left; when the last one did."""
        came = self._service.events[self._flow.outputs[0].topic]
        due = self._sent * self.workflow.leaving
        what = f"all events of {self.workflow.name} to have left"
        return self._service.wait(lambda: came[-1][0] if len(came) >= due else None, what)

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


def settled(client: Client, flow: str, number: str) -> ReconfigurationAnswer:
    """The reconfiguration, once it has switched."""

    def look() -> ReconfigurationAnswer | None:
        answer = client.reconfiguration(flow, number)
        return None if answer.state in _UNDER_WAY else answer

    return awaited(look, f"the switch of {flow}", within=_BOUND, every=0.02)


def wait_until_runs(client: Client, flow: str) -> None:
    """Wait until a dataflow runs."""
    awaited(lambda: client.dataflow(flow).state == "running", f"{flow} to run", within=_BOUND)


class SteadyEvents(threading.Thread):
    """Events of one source, from `begin` or `start` to `stop`."""

    TOPIC = "payments"

    def __init__(self, service: MeasuredService, per_second: float) -> None:
        super().__init__(daemon=True)
        self.per_second = per_second
        self.sent: list[float] = []
        """When each was sent, by number."""
        self._service = service
        self._stopping = threading.Event()

    def register(self, client: Client) -> None:
        """Register its source."""
        client.register_source(topic_source(self.TOPIC, PAYMENT))

    def begin(self, client: Client, document: Figures) -> SubmitAnswer:
        """Send for a dataflow that is submitted and runs by then; returns at its first output."""
        self.register(client)
        flow = client.submit(document)
        wait_until_runs(client, flow.id)
        self.start()
        self._service.first_output(flow.outputs[0].topic)
        return flow

    def run(self) -> None:
        """Send until it is stopped."""
        due = time.perf_counter()
        while not self._stopping.is_set():
            now = time.perf_counter()
            while due <= now:
                number = len(self.sent)
                self.sent.append(time.perf_counter())
                event = {"n": number, "user": number % _USERS, "amount": float(number % 97), "time": 0}
                self._service.publish(self.TOPIC, json.dumps(event).encode())
                due += 1 / self.per_second
            self._stopping.wait(0.01)

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self.join()
