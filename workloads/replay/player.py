"""A player: one service on which a trace is replayed, and what it says of itself, over REST and MQTT."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from engine import installed_catalogue
from engine.job.lifecycle import JobState
from manager.answers import DataflowState, JobAnswer, Quota, SavingsAnswer, SubmitAnswer, TenantForm
from manager.client import Client, Refused
from merge import counted
from workloads.outputs import Outputs, connected_tenants
from workloads.replay.cores import CoresReading, cores_between, look
from workloads.replay.plan import Pacing
from workloads.replay.results_folder import StepResult
from workloads.replay.service_savings import with_savings
from workloads.replay.tenant_assignment import AssignedWorkload, source_form, submitted, tenant_names
from workloads.replay.window_validity import behind
from workloads.results import StepRow, UsersRow, WindowRow
from workloads.service_process import RunFailed, ServiceProcess, served
from workloads.traces.trace_file import Action, TraceStep
from workloads.way import Way

_PATIENCE = 300.0
"""Seconds after which a replay gives up waiting; with many jobs starting at once on few cores a step takes some 60."""
CATCHING_UP = 60.0
"""Seconds after which is measured although a job has not yet worked off what came while it was being started."""
_LOOKING = 0.3
_PLENTY = Quota(dataflows=10**9, tasks=10**9, submits_per_minute=10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """A window that was begun; made by `Player.open`."""

    look: CoresReading
    events: int
    jobs: tuple[JobAnswer, ...]


class Player:
    """Replays steps on its service; made by `player_on_service`."""

    def __init__(
        self,
        way: Way,
        service: ServiceProcess,
        operator: Client,
        cast: AssignedWorkload,
    ) -> None:
        self.way = way
        self.service = service
        self.operator = operator
        self.outputs = Outputs()
        self._cast = cast
        self._catalogue = installed_catalogue()
        self._ids: dict[str, str] = {}
        """Of what is submitted, by the names within the workload."""

    def commit(self, step: TraceStep) -> SubmitAnswer | None:
        """Have the service take up a step; it runs, or is gone, a while later. Says what a submission did."""
        if step.action is Action.REMOVE:
            self._remove(self._ids.pop(step.dataflow))
            return None
        document = submitted(self._cast.workload.dataflows[step.dataflow], self.way.mode)
        answer = self.operator.submit(document, tenant=self._cast.tenants[step.dataflow])
        self._ids[step.dataflow] = answer.id
        return answer

    def settled(self) -> None:
        """Wait until all that is submitted runs, and what was removed is gone."""
        self._until("all dataflows to run", self._amiss)

    def catch_up(self, pace: float) -> None:
        """Wait until no job is more than two batches behind; where one stays behind, its row tells how far."""
        deadline = time.monotonic() + CATCHING_UP
        while any((job.lag_seconds or 0.0) > 2 * pace for job in self.operator.jobs()) and time.monotonic() < deadline:
            time.sleep(_LOOKING)

    def defragment(self) -> None:
        """Have the service consolidate its jobs, and wait until it has."""
        try:
            self.operator.defragment()
        except Refused as error:
            # Where nothing is scattered it is refused.
            if error.status != 409:  # noqa: PLR2004 - the status of a conflict
                raise
        self._until("the defragmentation to end", lambda: "a move" if self.operator.fragmentation().move else "")

    def counted(self, dry: StepRow, *, measured: bool, seconds: float) -> tuple[StepRow, tuple[UsersRow, ...]]:
        """The counts after a step, as the service tells them; what was submitted, and the work, as counted dry."""
        found, tasks = self.operator.fragmentation(), list(self.operator.running_tasks())
        users = Counter(task.dataflows for task in tasks)
        kinds = counted(kind for task in tasks if (kind := self._catalogue.find(task.type)) is not None)
        row = replace(
            dry,
            dataflows=len(self._ids),
            running_tasks=users.total(),
            running_sources=kinds.sources,
            running_outputs=kinds.outputs,
            paused_tasks=found.paused,
            jobs=found.jobs,
            bridges=found.bridges,
            measured=measured,
            seconds=round(seconds, 3),
        )
        return row, tuple(UsersRow(step=dry.step, users=many, tasks=tasks) for many, tasks in sorted(users.items()))

    def open(self) -> OpenWindow:
        """Begin a window."""
        jobs = tuple(self.operator.jobs())
        return OpenWindow(look=look(self.service.process), events=self._events(), jobs=jobs)

    def shut(self, opened: OpenWindow, step: int, window: int, pace: float) -> WindowRow:
        """End a window: what was measured in it, and whether it counts."""
        ended = look(self.service.process)
        events = self._events()
        cores = cores_between(opened.look, ended)
        took = ended.at - opened.look.at
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
            behind=behind(opened.jobs, jobs, pace=pace, seconds=took),
        )

    def accounted(self, found: StepResult) -> StepResult:
        """What was found out of a step, with what the service has settled of the time in which was measured."""
        return found if found.between is None else with_savings(found, self.savings(*found.between))

    def savings(self, since: float, until: float) -> SavingsAnswer:
        """What the service metered meanwhile, by the clock of `time.time`, in the whole minutes around it."""
        return self.operator.savings(since=datetime.fromtimestamp(since, UTC), until=datetime.fromtimestamp(until, UTC))

    def _remove(self, dataflow: str) -> None:
        """Remove a dataflow; amid a move the service may say that it is to be asked again, and nothing was done."""
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
        return sum(heard.events for heard in self.outputs.all().values())

    def _latencies(self) -> tuple[float | None, float | None]:
        """Of all outputs over the last minute: the median of their medians, and the worst of their worst hundredths."""
        outputs = [output for each in self.operator.dataflows() for output in each.outputs]
        p50 = [output.latency_seconds_p50 for output in outputs if output.latency_seconds_p50 is not None]
        p99 = [output.latency_seconds_p99 for output in outputs if output.latency_seconds_p99 is not None]
        return median(p50) if p50 else None, max(p99, default=None)

    def _amiss(self) -> str:
        """What is not yet as it should be, if something is not."""
        for each in self.operator.dataflows():
            if each.state is not DataflowState.RUNNING:
                return f"the dataflow {each.name!r} is {each.state}: {each.reason or 'no reason is known'}"
        for job in self.operator.jobs():
            if job.state != JobState.RUNNING or job.in_effect != job.version:
                return f"the job {job.job} is {job.state}, with plan {job.in_effect} of {job.version}; {job.trouble}"
        return ""

    def _until(self, what: str, amiss: Callable[[], str]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while found := amiss():
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.way.name}: waited {_PATIENCE:g} s for {what}, in vain: {found}")
            time.sleep(_LOOKING)


def measure(at: Sequence[tuple[Player, int]], window: int, pacing: Pacing) -> list[WindowRow]:
    """What services do in one window, the same for all, each at the step at which its player stands."""
    opened = [player.open() for player, _ in at]
    time.sleep(pacing.window)
    return [player.shut(begun, step, window, pacing.pace) for begun, (player, step) in zip(opened, at, strict=True)]


@contextmanager
def player_on_service(
    way: Way, pacing: Pacing, cast: AssignedWorkload, told: Callable[[str], None]
) -> Iterator[Player]:
    """A player on a service of its own while the context lasts; `told` hears what that waits for."""
    with served(told, options_of(way, pacing)) as service, ExitStack() as held:
        operator = held.enter_context(service.operator())
        names = tenant_names(pacing.tenants)
        for name in names:
            operator.admit(TenantForm(name=name, quota=_PLENTY))
        for source in cast.workload.sources:
            operator.register_source(source_form(source, cast.files.get(source.name), cast.rate))
        player = Player(way, service, operator, cast)
        credentials = {name: operator.make_credentials(name) for name in names}
        held.enter_context(connected_tenants(player.outputs, credentials))
        yield player


def options_of(way: Way, pacing: Pacing) -> Sequence[str]:
    """With which options a way's service is started."""
    return (
        *("--pace", f"{pacing.pace:g}"),
        *("--placement", way.placement),
        "--defragment" if way.defragment == "itself" else "--no-defragment",
    )
