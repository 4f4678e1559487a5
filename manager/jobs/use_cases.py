"""Looking: what runs, where, how it is, and what was done."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC
from itertools import chain
from typing import Any, Literal

from braid_client.answers.base import Page
from braid_client.answers.jobs import HostAnswer, JobAnswer, RunningDagAnswer, RunningTaskAnswer, StreamAnswer
from engine.plan import Plan, SlotState
from manager.kernel.state import CommittedState
from manager.machines.use_cases import registered_images
from manager.observations.figures import figures_of, running_task_figures, shard_figures
from manager.observations.reports import Measured
from manager.problem import NotFound
from manager.use_case import Base, Caller, Paging, hour, number_in, operators_only, paged
from merge import DagId, Instance, JobId
from merge.tasks import downwards


class RunningJobs(Base):
    """Jobs, hosts, running tasks, running DAGs and streams, as they are."""

    def tasks(self, caller: Caller, paging: Paging, *, job: str | None = None) -> Page[RunningTaskAnswer]:
        """The running graph, or what of it a job has, by instance; a tenant's own tasks, and of others only counts."""
        after = paging.after_number
        with self._committer.looking() as state:
            running = state.running.tasks if job is None else _active(state, job)
            if caller.tenant is not None:
                running = _serving(state, caller.tenant).intersection(running)
            instances = sorted(instance for instance in running if instance > after)
            return paged(
                instances[: paging.limit + 1],
                paging.limit,
                cursor=lambda instance: instance,
                answer=lambda instance: self._running_task(state, instance, caller),
            )

    def dags(self, caller: Caller, paging: Paging) -> Page[RunningDagAnswer]:
        """The running DAGs; operators only."""
        operators_only(caller)
        after = paging.after_number
        with self._committer.looking() as state:
            answers = [answer for answer in _dags(state) if answer.id > after]
        return paged(
            answers[: paging.limit + 1], paging.limit, cursor=lambda answer: answer.id, answer=lambda answer: answer
        )

    def jobs(self, caller: Caller, paging: Paging) -> Page[JobAnswer]:
        """The jobs; operators only."""
        operators_only(caller)
        after = paging.after_number
        with self._committer.looking() as state:
            plans = sorted((job, plan) for job, plan in state.plans.items() if job > after)
        shown = plans[: paging.limit + 1]
        return paged(shown, paging.limit, cursor=lambda entry: entry[0], answer=lambda entry: self._job(entry[1]))

    def job(self, caller: Caller, job: str) -> JobAnswer:
        """One job; operators only."""
        operators_only(caller)
        with self._committer.looking() as state:
            plan = state.plans.get(JobId(number_in(job) or 0))
        if plan is None:
            raise NotFound("job", job)
        return self._job(plan)

    def streams(self, caller: Caller, paging: Paging) -> Page[StreamAnswer]:
        """The derived streams that cross jobs; operators only."""
        operators_only(caller)
        after = paging.after_number
        consumers: dict[tuple[Instance, str], list[str]] = {}
        with self._committer.looking() as state:
            for bridge in sorted(state.jobs.bridges):
                if state.running.tasks[bridge.parent].inputs and bridge.parent > after:
                    consumers.setdefault((bridge.parent, bridge.port), []).append(str(bridge.to))
            answers = [
                StreamAnswer(
                    instance=instance,
                    port=port,
                    producer=str(state.jobs.homes[instance].job),
                    consumers=tuple(jobs),
                )
                for (instance, port), jobs in consumers.items()
            ]
        end = _whole_instances(answers, paging.limit)
        return paged(answers[: end + 1], end, cursor=lambda stream: stream.instance, answer=lambda stream: stream)

    def hosts(self, caller: Caller, paging: Paging) -> Page[HostAnswer]:
        """The hosts; operators only."""
        operators_only(caller)
        seen = [host for host in self._seeing.hosts() if host.host > (paging.after or "")]
        images = registered_images(self._store)
        return paged(
            sorted(seen, key=lambda host: host.host)[: paging.limit + 1],
            paging.limit,
            cursor=lambda host: host.host,
            answer=lambda host: HostAnswer(
                name=host.host,
                alive=host.alive,
                jobs=host.jobs,
                spools=dict(host.spools),
                dropped=host.dropped,
                cpu=dict(host.cpu),
                cores=host.cores,
                tags=tuple(sorted(host.tags.union(images[host.image].tags if host.image in images else ()))),
                image=host.image,
                trouble=_UNKNOWN_IMAGE.format(host.image) if host.image and host.image not in images else "",
                release=host.release,
                seen=host.seen.astimezone(UTC),
            ),
        )

    def _running_task(self, state: CommittedState, instance: Instance, caller: Caller) -> RunningTaskAnswer:
        task, job = state.running.tasks[instance], str(state.jobs.homes[instance].job)
        users = [state.running.dataflows[user] for user in state.running.users[instance]]
        tenants = {user.tenant for user in users}
        # A tenant learns no word of another's documents.
        known = min((user for user in users if caller.tenant in {None, user.tenant}), key=lambda user: user.id)
        seen = self._seeing.job(job)
        reason = seen.failed.get(instance) if seen is not None else None
        how: Literal["active", "failed"] = "active" if reason is None else "failed"
        last = seen.measured[-1] if seen is not None and seen.measured else Measured()
        did = last.instances.get(instance)
        measured = seen.measured if seen is not None and did is not None else ()
        return RunningTaskAnswer(
            instance=instance,
            type=task.type.name,
            name=known.task_ids[known.instances.index(instance)] if task.inputs else task.config["source"],
            job=job,
            state=how,
            inputs=tuple(edge.parent for edge in task.inputs),
            dataflows=len(users),
            tenants=len(tenants),
            tenant=known.tenant if len(tenants) == 1 else "",
            since=task.since if caller.is_operator else hour(task.since),
            dag=state.running.dag_of(instance),
            failed=reason or "",
            cpu_seconds=did and round(did.cpu_ns / 1e9, 6),
            events_in=did and did.taken,
            events_out=did and did.emitted,
            events_dead=did and did.dead,
            state_bytes=None if last.states is None else last.states.get(instance, 0),
            **dict(running_task_figures(measured, instance, time.monotonic())),
        )

    def _job(self, plan: Plan) -> JobAnswer:
        states = [slot.state for slot in plan.slots]
        names = ("job", "host", "version", "pace", "shards", "workers")
        wanted: dict[str, Any] = {name: getattr(plan, name) for name in names}
        wanted |= {"active": states.count(SlotState.ACTIVE), "paused": states.count(SlotState.PAUSED)}
        seen = self._seeing.job(plan.job)
        if seen is None:
            return JobAnswer(**wanted, in_effect=0, state="awaited", trouble="", batch=-1)
        return JobAnswer(
            **wanted,
            in_effect=seen.in_effect,
            state=seen.state,
            trouble=seen.trouble or seen.refused,
            batch=seen.batch,
            **dict(figures_of(seen.measured, time.monotonic())),
            **dict(shard_figures(seen.measured, plan.shards, time.monotonic())),
            restarts=seen.restarts,
            seen=seen.seen,
        )


_UNKNOWN_IMAGE = (
    "its image {0!r} is not registered, so it offers nothing but tags of its own; register it, with "
    "`braid images add {0}`, or start the host with another one"
)


def _active(state: CommittedState, job: str) -> Collection[Instance]:
    """The tasks of a job; nothing where there is no job of that name."""
    placed = state.jobs.jobs.get(JobId(number_in(job) or 0))
    return () if placed is None else placed.active


def _serving(state: CommittedState, tenant: str) -> set[Instance]:
    """The tasks of a tenant's dataflows."""
    own = (dataflow.instances for dataflow in state.running.dataflows.values() if dataflow.tenant == tenant)
    return set(chain.from_iterable(own))


def _dags(state: CommittedState) -> list[RunningDagAnswer]:
    tasks = Counter[DagId]()
    jobs: defaultdict[DagId, set[JobId]] = defaultdict(set)
    dataflows: defaultdict[DagId, set[str]] = defaultdict(set)
    dag_of = dict(state.running.running_dags.of_source)
    for task in downwards(state.running.tasks.values()):
        if task.inputs:
            dag_of[task.instance] = dag_of[Instance(task.inputs[0].parent)]
        else:
            dataflows[dag_of[task.instance]].update(state.running.users[task.instance])
        tasks[dag_of[task.instance]] += 1
        jobs[dag_of[task.instance]].add(state.jobs.homes[task.instance].job)
    return [
        RunningDagAnswer(id=dag, tasks=count, dataflows=len(dataflows[dag]), jobs=tuple(map(str, sorted(jobs[dag]))))
        for dag, count in sorted(tasks.items())
    ]


def _whole_instances(answers: Sequence[StreamAnswer], limit: int) -> int:
    """The end of a part of the streams: between two instances, since one may have several ports."""
    end = min(limit, len(answers))
    while 0 < end < len(answers) and answers[end].instance == answers[end - 1].instance:
        end += 1
    return end
