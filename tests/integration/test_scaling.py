"""Machines that the service adds and removes by itself while dataflows run, on the real parts."""

import json
from pathlib import Path

import psutil
import pytest

from manager.answers import OperationKind
from tests.integration.machines import Counted, ManyMachines
from tests.integration.serving import runs

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto]

SCALING = {
    "BRAID_HOST": "local",
    "BRAID_MASTER": "local[1,8]",
    "BRAID_PLACEMENT": "launch",
    "BRAID_PACE": "0.2",
    "BRAID_AUTOSCALE": "on",
    "BRAID_ADDED_MACHINES": "1",
    # It rests for five times as long.
    "BRAID_SETTLED_AFTER": "2",
}


def test_a_wave_of_load_adds_a_machine_and_its_end_removes_it(tmp_path: Path) -> None:
    """What is submitted meanwhile runs there, goes on elsewhere once it is gone, and counts every event once."""
    with ManyMachines(tmp_path, replicas=0, copies=False, settings=SCALING) as served:
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            wave = [Counted(served, ann, f"street-{number}") for number in range(4)]
            # On a busy computer jobs get little of it, and have to fall behind first.
            served.until(lambda: "added-1" in served.orders, "another machine", bound=400.0)
            served.until(lambda: "added-1" in {host.name for host in operator.hosts() if host.alive}, "its host")
            record = json.loads((served.root / "added" / "added-1.json").read_text())
            added = psutil.Process(record["pid"])
            late = Counted(served, ann, "canal")
            assert "added-1" == late.host
            for each in wave:
                each.check()
            for dataflow in ann.dataflows():
                if dataflow.name != "counts of canal":
                    ann.remove(dataflow.id)
            served.until_carried("added-1", "local")
            late.goes_on(20)
            served.until(lambda: ["local"] == [each.name for each in operator.machines()], "it to be forgotten")
            assert not runs(added)
            late.goes_on(20)
            late.check()
            noted = {each.kind: each.note for each in operator.operations() if each.subject == "added-1"}
    assert "of 1 cores, 70% or more, for 2 s" in noted[OperationKind.ADD_MACHINE]
    assert "no more than 40% of the 1 that are left without added-1" in noted[OperationKind.REMOVE_MACHINE]
    assert OperationKind.FORGET_MACHINE in noted
