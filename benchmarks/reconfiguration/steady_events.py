"""A thread that sends numbered events at a rate, and knows when each was sent."""

import json
import threading
import time

from benchmarks.documents import topic_source
from benchmarks.instruments import Figures
from benchmarks.manager_test_bed import MeasuredService
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from benchmarks.reconfiguration.workflows import PAYMENT
from manager.answers.dataflows import SubmitAnswer
from manager.client import Client

_USERS = 50


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
