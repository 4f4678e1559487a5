"""Several machines of one service, here: each a process with a root of its own, which can be lost with its disk."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from braid_client.answers.dataflows import DataflowState
from braid_client.client import Client
from braid_client.errors import NotDone, Refused, Unreachable
from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from tests.integration.machine_process import MachineProcess, MachineWays
from tests.integration.serving import Served, counting, street
from workloads.service import free_port

_AT_ONCE = 3


class ManyMachines(Served):
    """A service without a host of its own, and machines that are started and lost."""

    def __init__(  # noqa: PLR0913 - where they lie, what keeps copies, what breaks, and what is set
        self,
        folder: Path,
        *,
        replicas: int,
        copies: bool = True,
        store: str = "",
        faulty: bool = False,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Without `copies` and without the URL of a store, all machines share one root.

        With `faulty`, the ways of machines can be broken. Nobody has to admit them, unless `settings` say so.
        """
        replicated = {"BRAID_REPLICAS": str(replicas), "BRAID_ADMISSION": "open"}
        super().__init__(folder, host="none", settings={**replicated, **settings})
        self._asks = settings.get("BRAID_ADMISSION") == "operator"
        self._folder = folder
        self._copies = copies
        self._store = store
        self._faulty = faulty
        self.ways: dict[str, MachineWays] = {}
        self.machines: dict[str, MachineProcess] = {}
        self.orders: dict[str, Any] = {}
        """Who carries each host, as the leading manager last said."""
        self._watching: MqttClient | None = None

    def __enter__(self) -> Self:
        self.begin()
        # It is ready only once a host is.
        self.until(self.answers, "the service to answer")
        broker = self.until(lambda: self.broker, "the broker")
        self._watching = MqttClient(
            Address.parse(broker),
            "watcher",
            topics=[topics.host("+", "carrier")],
            on_message=self._hear,
            lasting=False,
        )
        self._watching.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for machine in self.machines.values():
            if machine.runs:
                machine.resume()
                machine.kill()
        for ways in self.ways.values():
            ways.close()
        if self._watching is not None:
            self._watching.stop()
        self.close()

    def add(
        self, name: str, zone: str = "", *, hosts: int = 1, image: str = "", restore: bool = False
    ) -> MachineProcess:
        """Start a machine."""
        root = self._folder / "disks" / name if self._copies or self._store else self.root
        broker = Address.parse(self.broker)
        options = [f"--zone={zone}", f"--hosts={hosts}"]
        if self._faulty:
            if name not in self.ways:
                self.ways[name] = MachineWays(broker)
            ways = self.ways[name]
            broker = replace(broker, port=ways.to_broker.port)
            options += [f"--copies-at=127.0.0.1:{ways.to_copies.port}", f"--copies-listen=127.0.0.1:{ways.listens}"]
        elif self._copies:
            options += [f"--copies-at=127.0.0.1:{free_port()}"]
        options += [f"--store={self._store}"] if self._store else []
        options += ["--restore"] if restore else []
        options += [f"--image={image}"] if image else []
        machine = MachineProcess(name, root, broker.url, options=options)
        self.machines[name] = machine
        return machine

    def welcome(self, name: str) -> None:
        """Have a machine admitted, where that is asked for, once it waits."""
        if not self._asks:
            return

        def waits() -> bool:
            # The first key comes a moment after the service answers.
            with suppress(NotDone, FileNotFoundError), self.client() as operator:
                return name in {each.name for each in operator.machines() if each.waits}
            return False

        self.until(waits, f"{name} to wait")
        with self.client() as operator:
            operator.admit_machine(name)

    def host_of_newest(self) -> str:
        """The host of the job that was opened last."""
        with self.client() as operator:
            return max(operator.jobs(), key=lambda job: int(job.job)).host

    def other_than(self, name: str) -> str:
        """Another machine."""
        return next(each for each in self.machines if each != name)

    def until_carried(self, host: str, machine: str, *, kept_by: int = 0) -> None:
        """Wait until a machine carries a host, with complete copies at so many others."""

        def carried() -> bool:
            order = self.orders.get(host, {})
            return order.get("machine") == machine and len(order["kept_by"]) >= kept_by and not order["heir"]

        self.until(carried, f"{machine} to carry {host}, with {kept_by} copies: {self.orders}")

    def until_kept(self, hosts: Sequence[str]) -> None:
        """Wait until each host has a carrier that runs and, where there are copies, a whole one on another machine."""

        def kept() -> bool:
            orders = [self.orders.get(host, {}) for host in hosts]
            running = {name for name, machine in self.machines.items() if machine.runs}
            return all(
                order and order["machine"] in running and (running & set(order["kept_by"]) or not self._copies)
                for order in orders
            )

        self.until(kept, f"copies of all hosts: {self.orders}")

    def _hear(self, message: Message) -> None:
        if message.payload:
            self.orders[message.topic.split("/")[3]] = json.loads(message.payload)
        assert self._watching is not None
        self._watching.acknowledge([message.token])


class EventSender:
    """Sends numbered events to a source over REST, a few at a time, until stopped.

    What was not answered is sent again, so none depends on whether the broker has a session for its host yet.
    """

    def __init__(self, served: Served, client: Client, source: str, keys: int = 3) -> None:
        self.sent = 0
        self.client = client
        self._served = served
        self._source = source
        self._keys = keys
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sends", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Stop; how many events were sent."""
        self._over.set()
        self._thread.join()
        return self.sent

    def _run(self) -> None:
        while not self._over.wait(0.05):
            events = [{"n": n, "k": f"k{n % self._keys}"} for n in range(self.sent, self.sent + _AT_ONCE)]
            lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
            # Nobody answers while a host changes its machine; what is sent again counts once.
            with suppress(Refused, Unreachable):
                self.client.send_events(self._source, lines, producer="tester", first=self.sent)
                self.sent += _AT_ONCE


class Counted:
    """A dataflow that counts on machines, and what sends it events."""

    def __init__(self, served: ManyMachines, ann: Client, source: str = "street") -> None:
        ann.register_source(street(source))
        self._served = served
        self._answer = ann.submit(counting(source, f"counts of {source}"))
        served.until_state(ann, self._answer.id, DataflowState.RUNNING)
        # It listens from the first output on.
        assert served.line.is_connected
        self._sender = EventSender(served, ann, source)
        self.goes_on(20)
        self.host = served.host_of_newest()

    def goes_on(self, more: int = 0) -> None:
        """Wait for the outputs of all that was sent so far, or for so many more."""
        self._served.until_delivered(self._answer, "out", self._sender.sent + more)

    def send_by(self, ann: Client) -> None:
        """Send by another manager from now on."""
        self._sender.client = ann

    def end(self) -> None:
        """Send no more."""
        self._sender.stop()

    def check(self) -> None:
        """Send no more, and see that every event was counted once."""
        sent = self._sender.stop()
        check_counts(self._served.until_delivered(self._answer, "out", sent), sent)


@contextmanager
def counted_on(served: ManyMachines, *names: str) -> Iterator[Counted]:
    """Machines that have each other's copies, and a dataflow that counts on them."""
    with served:
        for name in names:
            served.add(name)
        for name in names:
            served.welcome(name)
        served.until(served.ready, "the service to be ready")
        served.until_kept(names)
        with served.admit("ann") as ann:
            flow = Counted(served, ann)
            try:
                yield flow
            finally:
                flow.end()


def check_counts(outputs: list[Any], sent: int, keys: int = 3) -> None:
    """See that every event was counted once, in order within its key, by a state that was never lost."""
    counts: dict[str, list[int]] = {}
    for each in outputs:
        counts.setdefault(each["k"], []).append(each["count"])
    wanted = {f"k{key}": list(range(1, len(range(key, sent, keys)) + 1)) for key in range(keys)}
    # The lists are long: what differs shows at their ends.
    assert {key: (len(each), each[-3:]) for key, each in wanted.items()} == {
        key: (len(each), each[-3:]) for key, each in counts.items()
    }
    assert wanted == counts
