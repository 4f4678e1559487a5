"""Machines and workers that the service adds and removes by itself while dataflows run, on the real parts."""

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.machines import MachineClassForm, SupplyKind
from braid_client.answers.overview import OperationKind
from manager.machines.supplies import COMMAND_FOLDER
from tests.documentation.pages import ROOT, Page
from tests.integration.clusters import SPARK, cluster_in
from tests.integration.hosting import numbers
from tests.integration.machines import Counted, ManyMachines
from tests.integration.serving import runs, street

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto]

SCALING = {
    "BRAID_HOST": "local",
    "BRAID_MASTER": "local[1,8]",
    "BRAID_PLACEMENT": "launch",
    "BRAID_PACE": "0.2",
    "BRAID_AUTOSCALE": "on",
    "BRAID_PROVISION": "reactive",
    # It rests for five times as long.
    "BRAID_SETTLED_AFTER": "2",
}


def test_a_wave_of_load_adds_a_machine_and_its_end_removes_it(tmp_path: Path) -> None:
    """What is submitted meanwhile runs there, goes on elsewhere once it is gone, and counts every event once."""
    with ManyMachines(tmp_path, replicas=0, copies=False, settings=SCALING) as served:
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            operator.put_machine_class("dear", MachineClassForm(cores=1, price=0.3))
            operator.put_machine_class("cheap", MachineClassForm(cores=1, price=0.1))
            wave = [Counted(served, ann, f"street-{number}") for number in range(4)]
            # On a busy computer jobs get little of it, and have to fall behind first.
            served.until(lambda: "added-1" in served.orders, "another machine", bound=400.0)
            served.until(lambda: "added-1" in {host.name for host in operator.hosts() if host.alive}, "its host")
            record = json.loads((served.root / "added" / "added-1.json").read_text())
            added = psutil.Process(record["pid"])
            (machine,) = (each for each in operator.machines() if each.name == "added-1")
            assert 1.0 == machine.cores
            assert [("cheap", ("added-1",)), ("dear", ())] == [
                (each.name, each.machines) for each in operator.machine_classes()
            ]
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
            (cheap, _) = operator.machine_classes()
            assert (True, ()) == (cheap.measured, cheap.machines)
            noted = {each.kind: each.note for each in operator.operations() if each.subject == "added-1"}
    assert "of 1 cores, 70% or more, for 2 s; class cheap, at 0.1 an hour" in noted[OperationKind.ADD_MACHINE]
    assert "no more than 40% of the 1 that are left without added-1" in noted[OperationKind.REMOVE_MACHINE]
    assert OperationKind.FORGET_MACHINE in noted


def test_a_wave_of_load_adds_a_worker_of_spark_by_the_documented_command(tmp_path: Path) -> None:
    """The host has its cores while it is there; what runs goes on once it is gone, and counts every event once."""
    with cluster_in(tmp_path / "cluster", workers=1) as cluster:
        settings = {
            **SCALING,
            "BRAID_MASTER": cluster.url,
            # A batch takes 180 ms of CPU on a cluster, so five jobs take most of the only core, and one a fifth.
            "BRAID_PACE": "1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_MEMORY": "1g",
        }
        served = ManyMachines(tmp_path, replicas=0, copies=False, settings=settings)
        _documented_command(tmp_path, served.root / COMMAND_FOLDER, cluster.url)
        with served:
            served.until(served.ready, "the service to be ready")
            with served.admit("ann") as ann, served.client() as operator:
                operator.put_machine_class(
                    "worker", MachineClassForm(supply=SupplyKind.COMMAND, command="spark-worker", price=0.1)
                )
                wave = [Counted(served, ann, f"street-{number}") for number in range(5)]
                worker = psutil.Process(
                    int(served.until(lambda: _written(tmp_path / "added-1.pid"), "a worker", bound=400.0))
                )

                def cores() -> float | None:
                    (host,) = operator.hosts()
                    return host.cores

                served.until(lambda: cores() == 2, "the host to have its core")
                for each in wave[1:]:
                    each.goes_on(20)
                    each.check()
                for dataflow in ann.dataflows():
                    if dataflow.name != "counts of street-0":
                        ann.remove(dataflow.id)
                served.until(lambda: not runs(worker), "the worker to be removed", bound=400.0)
                served.until(lambda: cores() == 1, "the host to have one core")
                wave[0].goes_on(20)
                wave[0].check()


def _documented_command(folder: Path, commands: Path, master: str) -> None:
    """Put the script of the page on machines where commands lie, for a cluster here."""
    page = Page(ROOT / "docs" / "machines.md")
    (script,) = (each.text for each in page.examples if "deploy.worker.Worker" in each.text)
    here = {
        "/run/braid": str(folder),
        "/var/log": str(folder),
        "spark-class": str(SPARK / "bin" / "spark-class"),
        "--cores 32": "--cores 16",
        "spark://master.example:7077": master,
    }
    for there, its in here.items():
        assert there in script
        script = script.replace(there, its)
    commands.mkdir(parents=True)
    (commands / "spark-worker").write_text(script)
    (commands / "spark-worker").chmod(0o755)


def _written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def adapting(policy: dict[str, float]) -> dict[str, Any]:
    """A dataflow whose best alternate needs some cores, as it says, and which begins with the other one."""
    levels = [
        {"name": "quick", "type": "pi_viete", "config": {"iterations": 10}, "value": 0.1, "cost": 20},
        {"name": "precise", "type": "pi_viete", "config": {"iterations": 20}, "value": 1, "cost": 30_000},
    ]
    return {
        "version": 1,
        "name": "adapting",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "street"}},
            {"id": "work", "alternates": levels},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "work"}, {"from": "work", "to": "out"}],
        "policy": policy,
    }


def test_a_machine_is_rented_for_value_that_is_worth_it(tmp_path: Path) -> None:
    """By the plan of machines and alternates; the journal says what is needed and what it costs."""
    settings = {**SCALING, "BRAID_PROVISION": "horizon"}
    with ManyMachines(tmp_path, replicas=0, copies=False, settings=settings) as served:
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann, served.client() as operator:
            operator.put_machine_class("cheap", MachineClassForm(cores=4, price=0.1, most=4))
            ann.register_source(street("street"))
            flow = ann.submit(adapting({"worth": 0.001}))
            served.until_state(ann, flow.id, DataflowState.RUNNING)
            sent = 0

            def goes_on() -> None:
                nonlocal sent
                served.publish("city/street", numbers(sent, sent + 10))
                sent += 10

            def needs_no_machine() -> bool:
                goes_on()
                answer = ann.adaptation(flow.id)
                return answer.rate is not None and answer.rate > 5

            served.until(needs_no_machine, "the rate to be measured")
            assert ["local"] == [each.name for each in operator.machines()]
            ann.set_policy(flow.id, json.dumps({"worth": 100.0}).encode())

            def is_rented() -> bool:
                goes_on()
                return any(each.machines for each in operator.machine_classes())

            served.until(is_rented, "a machine", bound=120.0)
            (entry, *_) = [each for each in operator.operations() if each.kind is OperationKind.ADD_MACHINE]
    assert "tasks need up to" in entry.note
    assert "class cheap" in entry.note
    assert "for 0.1 an hour" in entry.note
