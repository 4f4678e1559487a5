"""A player: one service on which a trace is replayed, controlled and measured over REST and MQTT.

Cores come from two readings of the CPU time of its process tree. A service that is behind processes less than arrives,
so its cores do not show the cost of the work, and its window is discarded. There are three signs, in the service's
figures of its jobs: events wait too long, batches take too long, or events pile up.

The savings and shares that the service reports are added to the results of each step. It meters whole minutes, which
are longer than windows and may begin before them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

import psutil

from braid_client import Client, Refused
from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.answers.jobs import JobAnswer
from braid_client.answers.savings import SavingsAnswer
from braid_client.answers.tenants import Quota, TenantForm
from engine import installed_catalogue
from engine.host.cpu_meter import DRIVER, JVM, WORKER, Tree, look, part_below, spent_between
from engine.job.lifecycle import JobState
from manager.savings.counters import BROKER
from merge import counted
from workloads.replay.plan import AssignedWorkload, Pacing, source_form, submitted, tenant_names
from workloads.results import StepResult, StepRow, TenantCoresRow, UsersRow, WindowRow
from workloads.service import Outputs, RunFailed, ServiceProcess, connected_tenants, served
from workloads.traces import Action, TraceStep, Way

MANAGER = "manager"
PARTS = (BROKER, DRIVER, JVM, WORKER, MANAGER)
_KEEPER, _HOST = "manager.process.keeper_process", "engine.machines.process"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresReading:
    """The CPU time used so far; made by `read_cores`."""

    at: float
    """The moment, by the clock of `time.monotonic`."""
    used: Tree


def read_cores(process: psutil.Process) -> CoresReading:
    """Read the CPU time of a service; `process` is its manager, with the broker and the host below it."""
    return CoresReading(at=time.monotonic(), used=look(process, MANAGER, _part))


def cores_between(begun: CoresReading, ended: CoresReading) -> Mapping[str, float]:
    """Mean cores by part between two readings."""
    spent = spent_between(begun.used, ended.used)
    return {part: spent.get(part, 0.0) / (ended.at - begun.at) for part in PARTS}


def _part(process: psutil.Process, parent: psutil.Process, above: str) -> str:
    """The part of a process, by its command and its parent."""
    if above != MANAGER:
        return part_below(process, parent, above)
    command = _command(process)
    if _HOST in command:
        return DRIVER
    return BROKER if _KEEPER not in command and _KEEPER in _command(parent) else MANAGER


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        # It has ended, but its parent has not noticed yet.
        return []


LATE = 3.0
"""Paces that an event may wait: until its batch begins, until that ends, and until the job reports it."""
LATE_AT_LEAST = 5.0
"""Seconds that it may wait at any pace, since the reports of jobs can be that old."""
DONE = 0.8
"""The part of the arrived events that must be processed."""


def why_behind(before: Sequence[JobAnswer], after: Sequence[JobAnswer], *, pace: float, seconds: float) -> str:
    """The reason to discard a window, by the jobs at its start and its end; empty if the window is valid."""
    lag, late = max(((job.lag_seconds or 0.0, job.job) for job in after), default=(0.0, ""))
    if lag > max(LATE * pace, LATE_AT_LEAST):
        return f"an event waited {lag:.0f} s for job {late}, at a pace of {pace:g} s"
    took, slow = max(((job.batch_seconds_p50 or 0.0, job.job) for job in after), default=(0.0, ""))
    if took > pace:
        return f"a batch of job {slow} took {took:.1f} s, at a pace of {pace:g} s"
    return _piling(before, after, pace, seconds)


def _piling(before: Sequence[JobAnswer], after: Sequence[JobAnswer], pace: float, seconds: float) -> str:
    """All jobs together; jobs have different batch times, so one pace's events more or less are allowed."""
    done = seconds * sum(job.events_in_per_second or 0.0 for job in after)
    piled = sum(job.lag_events or 0 for job in after) - sum(job.lag_events or 0 for job in before)
    due = done + max(0, piled)
    if piled <= 0 or done >= DONE * (due - due * pace / seconds):
        return ""
    return f"only {done:.0f} of {due:.0f} events were processed"


def with_savings(result: StepResult, savings: SavingsAnswer) -> StepResult:
    """A measured step with the estimated cores of separate execution and each tenant's share.

    Both are from the minutes around its windows; without a metered minute the step stays as it is.
    """
    whole = savings.whole
    if whole is None or not savings.metered_seconds or not result.windows:
        return result
    launched, packed = whole.alone_launched.likely, whole.alone_packed.likely
    shares = {share.tenant: share.share.cores for share in savings.shares}
    return replace(
        result,
        windows=tuple(replace(window, alone_launched=launched, alone_packed=packed) for window in result.windows),
        tenants=tuple(
            TenantCoresRow(step=result.step.step, tenant=tenant, cores=cores)
            for tenant, cores in (*sorted(shares.items()), (None, whole.overhead.cores + whole.others.cores))
        ),
    )


_PATIENCE = 300.0
"""Seconds to wait before a replay fails; a step takes about 60 where many jobs start at once on few cores."""
CATCHING_UP = 60.0
"""Seconds to wait for jobs that process what arrived while they started; then the replay measures anyway."""
_POLL_INTERVAL = 0.3
PLENTY = Quota(**dict.fromkeys(Quota.model_fields, 10**9))
"""A quota that nothing exhausts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """A window that has begun; made by `Player.open_window`."""

    cores: CoresReading
    events: int
    jobs: tuple[JobAnswer, ...]


class Player:
    """Does the steps of a trace on its service; made by `player_on_service`."""

    def __init__(
        self,
        way: Way,
        service: ServiceProcess,
        operator: Client,
        assigned: AssignedWorkload,
    ) -> None:
        self.way = way
        self.service = service
        self.operator = operator
        self.outputs = Outputs()
        self._assigned = assigned
        self._catalogue = installed_catalogue()
        self._ids: dict[str, str] = {}
        """The ids of submitted dataflows, by their names within the workload."""

    def commit(self, step: TraceStep) -> SubmitAnswer | None:
        """Submit or remove the dataflow of a step without waiting for the effect; return the answer to a submission."""
        if step.action is Action.REMOVE:
            self._remove(self._ids.pop(step.dataflow))
            return None
        document = submitted(self._assigned.workload.dataflows[step.dataflow], self.way.mode)
        answer = self.operator.submit(document, tenant=self._assigned.tenants[step.dataflow])
        self._ids[step.dataflow] = answer.id
        return answer

    def wait_until_settled(self) -> None:
        """Wait until all submitted dataflows run and all removed ones are gone."""
        self._until("all dataflows to run", lambda: unsettled(self.operator))

    def catch_up(self, pace: float) -> None:
        """Wait until no job is more than two batches behind; give up after `CATCHING_UP`."""
        deadline = time.monotonic() + CATCHING_UP
        while any((job.lag_seconds or 0.0) > 2 * pace for job in self.operator.jobs()) and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)

    def defragment(self) -> None:
        """Ask the service to consolidate its jobs, and wait for the end."""
        try:
            self.operator.defragment()
        except Refused as error:
            # The service refuses when there is nothing to consolidate.
            if error.status != 409:  # noqa: PLR2004 - the status of a conflict
                raise
        self._until("the defragmentation to end", lambda: "a move" if self.operator.fragmentation().move else "")

    def count(self, dry: StepRow, *, measured: bool, seconds: float) -> tuple[StepRow, tuple[UsersRow, ...]]:
        """The counts after a step, from the service; submitted tasks and work are those of the dry row."""
        fragmentation, tasks = self.operator.fragmentation(), list(self.operator.running_tasks())
        users = Counter(task.dataflows for task in tasks)
        kinds = counted(kind for task in tasks if (kind := self._catalogue.find(task.type)) is not None)
        row = replace(
            dry,
            dataflows=len(self._ids),
            running_tasks=users.total(),
            running_sources=kinds.sources,
            running_outputs=kinds.outputs,
            paused_tasks=fragmentation.paused,
            jobs=fragmentation.jobs,
            bridges=fragmentation.bridges,
            measured=measured,
            seconds=round(seconds, 3),
        )
        return row, tuple(UsersRow(step=dry.step, users=many, tasks=tasks) for many, tasks in sorted(users.items()))

    def open_window(self) -> OpenWindow:
        """Begin a window."""
        jobs = tuple(self.operator.jobs())
        return OpenWindow(cores=read_cores(self.service.process), events=self._events(), jobs=jobs)

    def close_window(self, opened: OpenWindow, step: int, window: int, pace: float) -> WindowRow:
        """End a window and return its measurements."""
        ended = read_cores(self.service.process)
        events = self._events()
        cores = cores_between(opened.cores, ended)
        took = ended.at - opened.cores.at
        jobs = tuple(self.operator.jobs())
        p50, p99 = self._latencies()
        return WindowRow(
            step=step,
            window=window,
            seconds=round(took, 3),
            cores=sum(taken for part, taken in cores.items() if part != "manager"),
            cores_broker=cores["broker"],
            cores_driver=cores["driver"],
            cores_jvm=cores["jvm"],
            cores_workers=cores["worker"],
            cores_manager=cores["manager"],
            latency_p50=p50,
            latency_p99=p99,
            lag_events=sum(job.lag_events or 0 for job in jobs),
            events_out=(events - opened.events) / took,
            alone_launched=None,
            alone_packed=None,
            behind=why_behind(opened.jobs, jobs, pace=pace, seconds=took),
        )

    def with_metered_savings(self, result: StepResult) -> StepResult:
        """A step's result with the savings that the service metered during its windows."""
        return result if result.between is None else with_savings(result, self.savings(*result.between))

    def savings(self, since: float, until: float) -> SavingsAnswer:
        """The savings metered in the whole minutes around two moments, which are by the clock of `time.time`."""
        return self.operator.savings(since=datetime.fromtimestamp(since, UTC), until=datetime.fromtimestamp(until, UTC))

    def _remove(self, dataflow: str) -> None:
        """Remove a dataflow; retry when the service asks for it, which it may do during a move."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.operator.remove(dataflow)
            except Refused as error:
                if error.retry_after is None or time.monotonic() > deadline:
                    raise
                time.sleep(error.retry_after)
            else:
                return

    def _events(self) -> int:
        return sum(tally.events for tally in self.outputs.all().values())

    def _latencies(self) -> tuple[float | None, float | None]:
        """The median of all outputs' medians, and the highest of their 99th percentiles, over the last minute."""
        outputs = [output for dataflow in self.operator.dataflows() for output in dataflow.outputs]
        p50 = [output.latency_seconds_p50 for output in outputs if output.latency_seconds_p50 is not None]
        p99 = [output.latency_seconds_p99 for output in outputs if output.latency_seconds_p99 is not None]
        return median(p50) if p50 else None, max(p99, default=None)

    def _until(self, what: str, look: Callable[[], str]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while waits_for := look():
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.way.name}: waited {_PATIENCE:g} s in vain for {what}: {waits_for}")
            time.sleep(_POLL_INTERVAL)


def unsettled(operator: Client) -> str:
    """The first dataflow or job that is not settled, as text; empty if there is none."""
    for dataflow in operator.dataflows():
        if dataflow.state is not DataflowState.RUNNING:
            return f"the dataflow {dataflow.name!r} is {dataflow.state}: {dataflow.reason or 'no reason given'}"
    for job in operator.jobs():
        if job.state != JobState.RUNNING or job.in_effect != job.version:
            return f"the job {job.job} is {job.state}, with plan {job.in_effect} of {job.version}; {job.trouble}"
    return ""


def measure(at: Sequence[tuple[Player, int]], window: int, pacing: Pacing) -> list[WindowRow]:
    """Measure all players in the same window, each at its own step."""
    opened = [player.open_window() for player, _ in at]
    time.sleep(pacing.window)
    return [
        player.close_window(begun, step, window, pacing.pace) for begun, (player, step) in zip(opened, at, strict=True)
    ]


@contextmanager
def player_on_service(
    way: Way, pacing: Pacing, assigned: AssignedWorkload, notify: Callable[[str], None]
) -> Iterator[Player]:
    """A player on a service of its own while the context lasts; `notify` gets what the start waits for."""
    options = (
        *("--pace", f"{pacing.pace:g}"),
        *("--placement", way.placement),
        "--defragment" if way.defragment == "itself" else "--no-defragment",
    )
    with served(notify, options) as service, ExitStack() as held:
        operator = held.enter_context(service.operator())
        names = tenant_names(pacing.tenants)
        for name in names:
            operator.admit(TenantForm(name=name, quota=PLENTY))
        for source in assigned.workload.sources:
            operator.register_source(source_form(source, assigned.files.get(source.name), assigned.rate))
        player = Player(way, service, operator, assigned)
        credentials = {name: operator.make_credentials(name) for name in names}
        held.enter_context(connected_tenants(player.outputs, credentials))
        yield player
