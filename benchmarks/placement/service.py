"""The whole service on hosts of two images: what `pack` and `plan` cost for dataflows whose tasks need random tags.

    python -m benchmarks.placement.service [--quick]

A quarter of the tasks needs one of three tags, drawn by a seed. First come the jobs and bridges that the service
decides on, over several draws. Then each workload runs on two services at once, one for each strategy, which are
measured in the same windows. Prints a line per workload; the last is one JSON object.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.instruments import awaited, extremes, scratch_folder
from benchmarks.manager_test_bed import MeasuredService, wait_until_settled
from benchmarks.placement.tagged_workloads import COMPARED, IMAGES, decided, tagged
from braid_client import Client, NotDone
from braid_client.answers.jobs import ImageForm
from braid_client.answers.tenants import TenantForm
from engine.host.cpu_meter import CpuMeter
from engine.host.keeper import HostKeeper, MachineOptions
from manager.process.keeper_process import read_record
from workloads.opmw.builtin_workload import opmw
from workloads.replay.live_replay import written_events
from workloads.replay.plan import source_form, submitted, tenant_names, tenants_of
from workloads.replay.player import PLENTY, cores_between
from workloads.riotbench.builtin_workload import riotbench
from workloads.workload import Workload

_SEED = 1
_DRAWS = 10
_TENANTS = 5
_EVENTS = 5_000
"""Of each source, again and again."""
_WINDOW = 10.0
_SETTLING = 10.0
_BOUND = 180.0


class TaggedService:
    """A service with a host of each image; made by `tagged_service`."""

    def __init__(self, service: MeasuredService, keepers: Mapping[str, HostKeeper], operator: Client) -> None:
        self._service = service
        self._meters = [CpuMeter(keeper.pid) for keeper in keepers.values()]
        self.operator = operator

    def submit(self, workload: Workload, files: Mapping[str, str]) -> None:
        """Submit all dataflows of a workload, in order."""
        for tenant in tenant_names(_TENANTS):
            self.operator.admit(TenantForm(name=tenant, quota=PLENTY))
        for source in workload.sources:
            self.operator.register_source(source_form(source, files.get(source.name), 1.0))
        tenants = tenants_of(workload, _TENANTS, _SEED)
        for name, document in workload.dataflows.items():
            self.operator.submit(submitted(document, "reuse"), tenant=tenants[name])

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """The cores that hosts and broker take meanwhile; there at the end."""
        cores: dict[str, float] = {}
        begun, before, reading = time.monotonic(), self._spent(), self._service.reading()
        yield cores
        cores["hosts"] = (self._spent() - before) / (time.monotonic() - begun)
        cores["broker"] = cores_between(reading, self._service.reading())["broker"]

    def counts(self) -> Mapping[str, int]:
        """The jobs and bridges."""
        fragmentation = self.operator.fragmentation()
        return {"jobs": fragmentation.jobs, "bridges": fragmentation.bridges}

    def _spent(self) -> float:
        return sum(sum(meter.cpu().values()) for meter in self._meters)


@contextmanager
def tagged_service(folder: Path, strategy: str) -> Iterator[TaggedService]:
    """A service for a while, with nothing submitted; its hosts share its root."""
    settings = {"BRAID_REPLICAS": "0", "BRAID_ADMISSION": "open"}
    with MeasuredService(folder, host="none", placement=strategy, settings=settings) as service, ExitStack() as held:
        service.begin()
        awaited(lambda: (service.root / "key").exists() and read_record(service.root), "the broker", within=_BOUND)
        keepers = {
            name: held.enter_context(
                HostKeeper(name, service.root, service.broker, MachineOptions(master="local[2,8]", image=name))
            )
            for name in IMAGES
        }
        operator = held.enter_context(service.operator())
        awaited(lambda: _alive(operator) == len(IMAGES), "the hosts", within=_BOUND)
        for name, tags in IMAGES.items():
            operator.put_image(name, ImageForm(tags=tags, cores=2.0))
        yield TaggedService(service, keepers, operator)


def compared(workload: Workload, windows: int) -> Mapping[str, Any]:
    """A workload under both strategies, side by side."""
    with scratch_folder() as folder, ExitStack() as held:
        files = written_events(workload, folder, _SEED, lambda _source: _EVENTS)
        beside = {strategy: held.enter_context(tagged_service(folder / strategy, strategy)) for strategy in COMPARED}
        for running in beside.values():
            running.submit(workload, files)
        for running in beside.values():
            wait_until_settled(running.operator, within=_BOUND)
        time.sleep(_SETTLING)
        cores: dict[str, list[float]] = {strategy: [] for strategy in COMPARED}
        for _ in range(windows):
            with ExitStack() as measuring:
                used = {strategy: measuring.enter_context(running.measured()) for strategy, running in beside.items()}
                time.sleep(_WINDOW)
            for strategy, parts in used.items():
                cores[strategy].append(sum(parts.values()))
        counts = {strategy: running.counts() for strategy, running in beside.items()}
    ratios = [plan / pack for pack, plan in zip(*(cores[strategy] for strategy in COMPARED), strict=True)]
    return {
        "workload": workload.name,
        "dataflows": len(workload.dataflows),
        **{
            strategy: {**counts[strategy], "cores": round(statistics.median(cores[strategy]), 3)}
            for strategy in COMPARED
        },
        "cores_ratio": extremes(ratios, 3),
    }


def service(*, quick: bool) -> Mapping[str, Any]:
    """A row for each workload, decided and measured; quickly, fewer draws, and a few dataflows of one."""
    draws = []
    for workload in (opmw(), riotbench()):
        row = decided(workload, 2 if quick else _DRAWS)
        draws.append(row)
        shown = "; ".join(
            f"{strategy} {row[strategy]['jobs']} jobs, {row[strategy]['bridges']} bridges" for strategy in COMPARED
        )
        print(f"{row['workload']}, decided: {shown}; modelled cores {row['modelled_cores_ratio']}", flush=True)
    rows = []
    for workload in (riotbench(),) if quick else (opmw(), riotbench()):
        row = compared(tagged(workload, _SEED, 6 if quick else None), 2 if quick else 6)
        rows.append(row)
        print(
            f"{row['workload']}, {row['dataflows']} dataflows: "
            + "; ".join(f"{strategy} {_shown(row[strategy])}" for strategy in COMPARED)
            + f"; cores of plan against pack {row['cores_ratio']}",
            flush=True,
        )
    return {"decided": draws, "measured": rows}


def _shown(row: Mapping[str, Any]) -> str:
    return f"{row['cores']} cores, {row['jobs']} jobs, {row['bridges']} bridges"


def _alive(operator: Client) -> int:
    with suppress(NotDone):
        return sum(host.alive for host in operator.hosts())
    return 0


if __name__ == "__main__":
    print(json.dumps({"service": service(quick="--quick" in sys.argv[1:])}))
