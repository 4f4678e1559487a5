"""Hosts of several images in one service, on the real parts: a dataflow that needs both is cut, and nobody notices."""

from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.jobs import ImageForm
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
