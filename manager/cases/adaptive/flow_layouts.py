"""The layouts of dynamic dataflows: the jobs, streams and cores of each at the moment of one look."""

from manager.cases.adaptive.adapted_dataflow import AdaptedDataflow
from manager.cases.adaptive.flow_measurement import FlowLayout
from manager.cases.tools import Tools
from manager.committed.state import running_id
from manager.defragmentation.measurement import batches
from manager.observations.reports import JobSeen
from merge import Instance


class FlowLayouts:
    """Made for one look."""

    def __init__(self, tools: Tools, now: float) -> None:
        self._tools = tools
        self._cores = {host.host: host.cores for host in tools.seeing.hosts() if host.alive and host.cores is not None}
        with tools.committer.looking() as state:
            self._jobs = state.jobs
            self._plans = {str(job): plan for job, plan in state.plans.items()}
            self._sources = state.sources
        self.seen: dict[str, JobSeen] = {
            job: seen for job in self._plans if (seen := tools.seeing.job(job)) is not None
        }
        """What is seen of jobs."""
        paid, _ = tools.chooser.paid()
        self._batch_cores = {str(job): rate * paid.batch for job, rate in batches(self._jobs, self.seen, now).items()}

    def of(self, each: AdaptedDataflow) -> FlowLayout | None:
        """The layout of a dataflow; None while it is not running as its row says."""
        row = each.as_of.row
        instances = dict(zip(row.task_ids, row.instances, strict=True))
        with self._tools.committer.looking() as state:
            running = state.running.dataflows.get(running_id(row.id, row.revision))
            if running is None:
                return None
            tasks = {task: state.running.tasks[Instance(each)] for task, each in instances.items()}
        homes = {each: str(home.job) for each in instances.values() if (home := self._jobs.homes.get(Instance(each)))}
        working = {task for task, found in tasks.items() if found.inputs}
        jobs = {homes[instances[task]] for task in working if instances[task] in homes}
        return FlowLayout(
            dataflow=row.id,
            instances={task: instance for task, instance in instances.items() if instance in homes},
            homes=homes,
            streams={
                task: self._sources[found.config["source"]].supplied.stream
                for task, found in tasks.items()
                if not found.inputs
            },
            plans={job: self._plans[job] for job in jobs if job in self._plans},
            host_cores=self._cores,
            batch_cores={job: self._batch_cores[job] for job in jobs if job in self._batch_cores},
        )
