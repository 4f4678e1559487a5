"""The whole service on hosts of two images: what `pack` and `plan` cost for dataflows whose tasks need random tags.

    python -m benchmarks.placement.service [--quick]

A quarter of the tasks needs one of three tags, drawn by a seed. First come the jobs and bridges that the service
decides on, over several draws. Then each workload runs on two services at once, one for each strategy, which are
measured in the same windows. Prints a line per workload; the last is one JSON object.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import MeasuredService, serving
from benchmarks.placement.decided import decided
from benchmarks.placement.tagged_workloads import COMPARED, IMAGES, tagged
from engine.host.cpu_meter import CpuMeter
from engine.host.keeper import HostKeeper, MachineOptions
from engine.job.lifecycle import JobState
from manager.answers.dataflows import DataflowState
from manager.answers.jobs import ImageForm
from manager.answers.tenants import Quota, TenantForm
from manager.client import Client, NotDone
from workloads.opmw.builtin_workload import opmw
from workloads.replay.measurement import cores_between
from workloads.replay.plan import source_form, submitted, tenant_names, tenants_of
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
_PLENTY = Quota(**dict.fromkeys(Quota.model_fields, 10**9))


class TaggedService:
    """A service with a host of each image; made by `tagged_service`."""

    def __init__(self, service: MeasuredService, keepers: Mapping[str, HostKeeper], operator: Client) -> None:
        self._service = service
        self._meters = [CpuMeter(keeper.pid) for keeper in keepers.values()]
        self.operator = operator

    def submit(self, workload: Workload, files: Mapping[str, str]) -> None:
        """Submit all dataflows of a workload, in order."""
        for tenant in tenant_names(_TENANTS):
            self.operator.admit(TenantForm(name=tenant, quota=_PLENTY))
        for source in workload.sources:
            self.operator.register_source(source_form(source, files.get(source.name), 1.0))
        tenants = tenants_of(workload, _TENANTS, _SEED)
        for name, document in workload.dataflows.items():
            self.operator.submit(submitted(document, "reuse"), tenant=tenants[name])

    def settle(self) -> None:
        """Wait until everything runs."""
        deadline = time.monotonic() + _BOUND
        while unsettled := self._unsettled():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {_BOUND:g} s: {unsettled}")
            time.sleep(0.5)

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """The cores that hosts and broker take meanwhile; there at the end."""
        found: dict[str, float] = {}
        begun, before, reading = time.monotonic(), self._spent(), self._service.reading()
        yield found
        found["hosts"] = (self._spent() - before) / (time.monotonic() - begun)
        found["broker"] = cores_between(reading, self._service.reading())["broker"]

    def counts(self) -> Mapping[str, int]:
        """The jobs and bridges."""
        found = self.operator.fragmentation()
        return {"jobs": found.jobs, "bridges": found.bridges}

    def _spent(self) -> float:
        return sum(sum(meter.cpu().values()) for meter in self._meters)

    def _unsettled(self) -> str:
        for each in self.operator.dataflows():
            if each.state is not DataflowState.RUNNING:
                return f"dataflow {each.name!r} is {each.state}: {each.reason}"
        for job in self.operator.jobs():
            if job.state != JobState.RUNNING or job.in_effect != job.version:
                return f"job {job.job} is {job.state} on {job.host}; {job.trouble}"
        return ""


@contextmanager
def tagged_service(folder: Path, strategy: str) -> Iterator[TaggedService]:
    """A service for a while, with nothing submitted; its hosts share its root."""
    settings = {"BRAID_REPLICAS": "0", "BRAID_ADMISSION": "open"}
    with serving(folder, host="none", placement=strategy, settings=settings) as service, ExitStack() as held:
        service.begin()
        _await(lambda: (service.root / "key").exists() and _broker(service) != "", "the broker")
        keepers = {
            name: held.enter_context(
                HostKeeper(name, service.root, service.broker, MachineOptions(master="local[2,8]", image=name))
            )
            for name in IMAGES
        }
        operator = held.enter_context(service.operator())
        _await(lambda: _alive(operator) == len(IMAGES), "the hosts")
        for name, tags in IMAGES.items():
            operator.put_image(name, ImageForm(tags=tags, cores=2.0))
        yield TaggedService(service, keepers, operator)


def compared(workload: Workload, windows: int) -> Mapping[str, Any]:
    """A workload under both strategies, side by side."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as name, ExitStack() as held:
        folder = Path(name)
        files = _written(workload, folder)
        beside = {strategy: held.enter_context(tagged_service(folder / strategy, strategy)) for strategy in COMPARED}
        for each in beside.values():
            each.submit(workload, files)
        for each in beside.values():
            each.settle()
        time.sleep(_SETTLING)
        cores: dict[str, list[float]] = {strategy: [] for strategy in COMPARED}
        for _ in range(windows):
            with ExitStack() as measuring:
                found = {strategy: measuring.enter_context(each.measured()) for strategy, each in beside.items()}
                time.sleep(_WINDOW)
            for strategy, parts in found.items():
                cores[strategy].append(sum(parts.values()))
        counts = {strategy: each.counts() for strategy, each in beside.items()}
    ratios = [plan / pack for pack, plan in zip(*(cores[strategy] for strategy in COMPARED), strict=True)]
    return {
        "workload": workload.name,
        "dataflows": len(workload.dataflows),
        **{
            strategy: {**counts[strategy], "cores": round(statistics.median(cores[strategy]), 3)}
            for strategy in COMPARED
        },
        "cores_ratio": {
            name: round(value, 3)
            for name, value in (
                ("median", statistics.median(ratios)),
                ("least", min(ratios)),
                ("most", max(ratios)),
            )
        },
    }


def service(*, quick: bool) -> Mapping[str, Any]:
    """A row for each workload, decided and measured; quickly, fewer draws, and a few dataflows of one."""
    draws = []
    for workload in (opmw(), riotbench()):
        row = decided(workload, 2 if quick else _DRAWS)
        draws.append(row)
        shown = "; ".join(f"{each} {row[each]['jobs']} jobs, {row[each]['bridges']} bridges" for each in COMPARED)
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


def _shown(found: Mapping[str, Any]) -> str:
    return f"{found['cores']} cores, {found['jobs']} jobs, {found['bridges']} bridges"


def _written(workload: Workload, folder: Path) -> Mapping[str, str]:
    """The files with the sources' events."""
    found = {}
    for number, source in enumerate(workload.sources):
        if source.events is not None:
            path = folder / f"{number}.jsonl"
            lines = (f"{json.dumps(event)}\n" for event in islice(source.events(_SEED), _EVENTS))
            path.write_text("".join(lines), encoding="utf-8")
            found[source.name] = str(path)
    return found


def _await(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _BOUND
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_BOUND:g} s: {what}")
        time.sleep(0.1)


def _broker(service: MeasuredService) -> str:
    with suppress(TimeoutError):
        return service.broker.url
    return ""


def _alive(operator: Client) -> int:
    with suppress(NotDone):
        return sum(host.alive for host in operator.hosts())
    return 0


if __name__ == "__main__":
    print(json.dumps({"service": service(quick="--quick" in sys.argv[1:])}))
