"""Hosts of several images in one service, on the real parts: a dataflow that needs both is cut, and nobody notices."""

import re
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.jobs import ImageForm
from braid_client.answers.machines import MachineClassForm
from braid_client.answers.overview import OperationKind
from braid_client.errors import Refused
from tests.integration.machines import ManyMachines
from tests.integration.serving import counting, street

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.mosquitto]

MANY = 60


def tagged(tags: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    """The document that counts, with tags at some of its tasks."""
    document = counting("street")
    tasks = [
        {**task, **more, **({"tags": tags[task["id"]]} if task["id"] in tags else {})} for task in document["tasks"]
    ]
    return {**document, "tasks": tasks}


def test_a_dataflow_over_two_images_has_the_outputs_of_one_host(tmp_path: Path) -> None:
    """It is refused until what it needs is registered; then it is cut by `plan`, and a fresh one beside it is not."""
    settings = {"BRAID_PLACEMENT": "plan", "BRAID_PACE": "0.25"}
    with ManyMachines(tmp_path, replicas=0, copies=False, settings=settings) as served:
        served.add("ash", image="cuda")
        served.add("elm", image="xilinx")
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            served.until(lambda: sum(host.alive for host in operator.hosts()) == 2, "both hosts")
            ann.register_source(street())
            cut = tagged({"low": ["gpu"], "count": ["fpga"]})
            operator.put_image("cuda", ImageForm(tags=frozenset({"gpu"})))
            with pytest.raises(Refused, match="fpga"):
                ann.submit(cut)
            operator.put_image("xilinx", ImageForm(tags=frozenset({"fpga"})))
            over_two = ann.submit(cut)
            assert {"ash", "elm"} == {job.host for job in operator.jobs()}
            assert 1 == len(list(operator.streams()))
            on_one = ann.submit(tagged({}, fresh=True))
            assert 2 == len(list(operator.jobs()))
            for answer in (over_two, on_one):
                served.until_state(ann, answer.id, DataflowState.RUNNING)
            served.publish("city/street", ({"n": number, "k": "abc"[number % 3]} for number in range(MANY)))
            one, other = (served.until_delivered(answer, "out", MANY) for answer in (over_two, on_one))
            assert one == other
            assert MANY == len(one)


def test_a_machine_is_started_for_what_no_host_offers(tmp_path: Path) -> None:
    """By the class whose image offers it: the dataflow is taken once it is there, runs there, and it can be removed."""
    settings = {"BRAID_HOST": "local", "BRAID_MASTER": "local[1]", "BRAID_PACE": "0.25", "BRAID_AUTOSCALE": "on"}
    with ManyMachines(tmp_path, replicas=0, copies=False, settings=settings) as served:
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            served.until(lambda: any(host.alive for host in operator.hosts()), "the host")
            ann.register_source(street())
            operator.put_image("cuda", ImageForm(tags=frozenset({"gpu"})))
            operator.put_machine_class("card", MachineClassForm(image="cuda", price=2.0, start_seconds=30.0))
            needy = tagged({"count": ["gpu"]})
            # The client asks again as long as the machine is not there.
            answer = ann.submit(needy)
            assert "added-1" in {job.host for job in operator.jobs()}
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            served.publish("city/street", ({"n": number, "k": "abc"[number % 3]} for number in range(MANY)))
            assert MANY == len(served.until_delivered(answer, "out", MANY))
            rental = served.until(lambda: next((one for one in operator.rentals() if one.ready), None), "the rental")
            assert ("added-1", "card", 1, 2.0, 1) == (
                rental.machine,
                rental.machine_class,
                rental.cores,
                rental.cost,
                rental.hours,
            )
            assert rental.speed is not None
            (card,) = operator.machine_classes()
            assert (True, rental.speed, ("added-1",)) == (card.measured, card.speed, card.machines)
            ann.remove(answer.id)
            operator.drain_machine("added-1")
            served.until(lambda: [one for one in operator.rentals() if one.ended], "its end")
            served.until(lambda: ["local"] == [each.name for each in operator.machines()], "it to be forgotten")
            (ordered,) = operator.operations(kind=OperationKind.ADD_MACHINE)
            assert re.fullmatch("a dataflow needs 'gpu', .*; class card, at 2 an hour", ordered.note)
