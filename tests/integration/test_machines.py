"""Machines that are lost, held up and emptied while dataflows run, on the real parts: nothing is lost or doubled."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.overview import OperationKind
from tests.bridge.otlp import spans_of
from tests.integration.machines import Counted, ManyMachines, counted_on
from tests.tasks.receivers import Receiving, receiving

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.mosquitto]


@pytest.fixture
def collector() -> Iterator[Receiving]:
    """Who gets the traces of the service."""
    with receiving() as made:
        yield made


def test_a_lost_machine_s_host_goes_on_from_its_copy(tmp_path: Path, collector: Receiving) -> None:
    """Its disk is gone too, and every event counts once; a new machine, once admitted, takes over from the next."""
    settings = {"BRAID_ADMISSION": "operator", "BRAID_TRACES": f"http://127.0.0.1:{collector.port}"}
    served = ManyMachines(tmp_path, replicas=1, settings=settings)
    with counted_on(served, "ash", "elm") as flow:
        other = served.other_than(flow.host)
        served.machines[flow.host].kill(with_disk=True)
        served.until_carried(flow.host, other)
        flow.goes_on()
        served.add("oak")
        served.welcome("oak")
        served.until_carried(flow.host, other, kept_by=1)
        served.machines[other].kill(with_disk=True)
        served.until_carried(flow.host, "oak")
        flow.check()
        ways = {(flow.host, other), (other, "oak")}

        def traced() -> set[tuple[Any, Any]]:
            """From which machine to which the host went, by the traces of take-overs."""
            spans = (span for span in spans_of(collector) if span.name == "take over host")
            seen = (span.attributes for span in spans)
            return {(at["braid.machine.before"], at["braid.machine"]) for at in seen if at["braid.host"] == flow.host}

        served.until(lambda: ways <= traced(), "the traces of both take-overs")


@pytest.mark.slow
def test_a_machine_that_was_held_up_does_nothing_more_as_its_host(tmp_path: Path) -> None:
    """It is taken over while it stands still; once it goes on it neither publishes nor takes events as that host."""
    served = ManyMachines(tmp_path, replicas=1)
    with counted_on(served, "ash", "elm") as flow:
        other = served.other_than(flow.host)
        served.machines[flow.host].pause()
        served.until_carried(flow.host, other)
        flow.goes_on()
        served.machines[flow.host].resume()
        # It starts anew, and keeps copies for the other.
        served.until_carried(flow.host, other, kept_by=1)
        flow.goes_on()
        flow.check()


@pytest.mark.slow
def test_all_machines_are_replaced_one_after_another(tmp_path: Path) -> None:
    """Each is drained, stopped, started anew and let back, while events come all the time: every event counts once."""
    served = ManyMachines(tmp_path, replicas=1)
    with counted_on(served, "ash", "elm") as flow, served.client() as operator:
        for name, other in (("ash", "elm"), ("elm", "ash")):
            operator.drain_machine(name)
            served.until_carried("ash", other)
            served.until_carried("elm", other)
            served.machines[name].stop()
            flow.goes_on()
            served.add(name)
            operator.undrain_machine(name)
            served.until_kept(["ash", "elm"])
        flow.check()


@pytest.mark.slow
def test_machines_that_share_a_root_take_over_without_copies(tmp_path: Path) -> None:
    """What a killed machine left in the shared folder, another one goes on from at once."""
    served = ManyMachines(tmp_path, replicas=0, copies=False)
    with counted_on(served, "ash", "elm") as flow:
        served.machines[flow.host].kill()
        served.until_carried(flow.host, served.other_than(flow.host))
        flow.check()


@pytest.mark.slow
def test_a_host_goes_to_a_new_machine_when_its_own_has_too_much_to_do(tmp_path: Path) -> None:
    """Of two busy hosts it gives one away, and each event of both counts once; the journal says why."""
    settings = {"BRAID_SETTLED_AFTER": "4", "BRAID_PLACEMENT": "launch", "BRAID_PACE": "0.25"}
    with ManyMachines(tmp_path, replicas=1, settings=settings) as served:
        served.add("ash", hosts=2)
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            served.until(lambda: sum(host.alive for host in operator.hosts()) == 2, "both hosts")
            flows = [Counted(served, ann, source) for source in ("street", "canal")]
            assert ["ash", "ash.2"] == sorted(flow.host for flow in flows)
            served.add("elm")
            served.until_carried("ash.2", "elm", kept_by=1)
            assert "elm" == served.orders["elm"]["machine"]
            for flow in flows:
                flow.goes_on(20)
                flow.check()
            noted = {each.kind: each.note for each in operator.operations()}
    assert "machine ash has 2.00 times the mean load" in noted[OperationKind.BALANCE]
    assert "elm is its home" in noted[OperationKind.HAND_OVER]


@pytest.mark.chaos
def test_fifty_machines_are_lost_one_after_another(tmp_path: Path) -> None:
    """Each with its disk, at any moment, and each comes back with an empty one: every event is counted once."""
    names, draw = ["ash", "elm", "oak"], random.Random(5)
    served = ManyMachines(tmp_path, replicas=1)
    with counted_on(served, *names) as flow:
        for _ in range(50):
            served.until_kept(names)
            flow.goes_on(draw.randrange(40))
            lost = draw.choice(names)
            served.machines[lost].kill(with_disk=True)
            flow.goes_on()
            served.add(lost)
        flow.check()
