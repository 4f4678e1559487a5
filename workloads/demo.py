"""The demo: four tenants submit dataflows, two leave, and what runs is shown at each step."""

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dags import Dataflow, canonicalise
from engine import installed_catalogue
from manager.source_file import read_sources
from merge import Change, Costs, Host, Instance, Jobs, RunningGraph, RunningTask, merge, place, release, unmerge
from workloads.examples import EXAMPLES, SOURCES

_HOSTS = (Host(name="this machine", cores=2.0),)
_BUSY = 0.01
"""How busy the demo takes each task to be: nothing is executed yet that could be measured."""


class _Stage:
    """The running graph and its jobs, with a console to show them on."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.running = RunningGraph()
        self.jobs = Jobs()
        self.alone = 0
        """Tasks that would run if every dataflow ran by itself."""

    def submit(self, dataflow: Dataflow) -> None:
        """Merge a dataflow, place its residue, and show both."""
        change = merge(self.running, dataflow, datetime.now(UTC))
        self.running.advance(change)
        costs = Costs(pace=1.0, batch=0.06, busy=dict.fromkeys(self.running.tasks, _BUSY))
        self.jobs = self.jobs.apply(
            place(
                "pack",
                residue=change.residue,
                running=self.running,
                jobs=self.jobs,
                hosts=_HOSTS,
                costs=costs,
            )
        )
        self.alone += len(dataflow.tasks)
        self.out.rule(escape(f"{dataflow.tenant} submits “{dataflow.name}”"), align="left")
        self._names("reused", (self.running.tasks[instance] for instance in change.reuses))
        self._names("started", change.starts)
        self._sums(change)

    def remove(self, dataflow: Dataflow) -> None:
        """Unmerge a dataflow, pause what nobody needs, and show both."""
        change = unmerge(self.running, dataflow.id)
        self.jobs = self.jobs.apply(release(change.stops, self.jobs))
        self.running.advance(change)
        self.alone -= len(dataflow.tasks)
        self.out.rule(escape(f"{dataflow.tenant} removes “{dataflow.name}”"), align="left")
        self._names("stopped", change.stops)
        self._names("run on for others", (self.running.tasks[instance] for instance in change.releases))
        self._sums(change)

    def show_tasks(self) -> None:
        """The running tasks with whom they serve."""
        table = Table("instance", "task", "reads from", "serves", title="What runs", title_justify="left")
        for instance, task in self.running.tasks.items():
            reads = ", ".join(str(edge.parent) for edge in task.inputs)
            tenants = sorted(self.running.dataflow(user).tenant for user in self.running.serves(instance))
            table.add_row(str(instance), escape(_name(task)), reads, escape(", ".join(tenants)))
        self.out.print(table)

    def outputs(self, dataflow: Dataflow) -> dict[str, Instance]:
        """Where the dataflow's sinks are produced."""
        return self.running.produced(dataflow.id)

    def _names(self, what: str, tasks: Iterable[RunningTask]) -> None:
        named = ", ".join(_name(task) for task in tasks)
        self.out.print(f"  [bold]{what:>18}[/]  {escape(named) or '-'}")

    def _sums(self, change: Change) -> None:
        for kept, absorbed in change.joined:
            self.out.print(f"  [bold]{'joined':>18}[/]  running DAG {absorbed} into {kept}")
        for kept, parted in change.split:
            self.out.print(f"  [bold]{'split':>18}[/]  running DAG {kept} into {kept} and {parted}")
        tasks, jobs = len(self.running.tasks), len(self.jobs.jobs)
        saved = 1 - tasks / self.alone if self.alone else 0.0
        self.out.print(
            f"  [bold]{'in all':>18}[/]  {len(self.running.dataflows)} dataflows, {tasks} running tasks instead of "
            f"{self.alone} ([green]{saved:.0%} saved[/]), {jobs} {'job' if jobs == 1 else 'jobs'}\n"
        )


def demo() -> None:
    """Show the core at work: merge four dataflows, say what was reused, remove two."""
    out = Console(soft_wrap=True)
    catalogue, sources = installed_catalogue(), read_sources(SOURCES)
    flows = {
        tenant: canonicalise(file.read_bytes(), dataflow=tenant, tenant=tenant, catalogue=catalogue, sources=sources)
        for tenant, file in EXAMPLES.items()
    }
    stage = _Stage(out)
    for dataflow in flows.values():
        stage.submit(dataflow)
    stage.show_tasks()
    out.print()
    left = {tenant: stage.outputs(flow) for tenant, flow in flows.items()}
    for tenant in ("school", "planning"):
        stage.remove(flows[tenant])
        del left[tenant]
    stage.show_tasks()
    if all(stage.outputs(flows[tenant]) == outputs for tenant, outputs in left.items()):
        out.print("\nThe other two dataflows kept their outputs: the instances that produce them never stopped.")


def _name(task: RunningTask) -> str:
    """A task as a reader of the demo would call it."""
    match task.type.name, task.config:
        case "source", {"source": source}:
            return f"source {source}"
        case "range_filter", {"field": field, "min": low, "max": high}:
            return f"{field} in {low}..{high}"
        case "block_window_average", {"field": field, "window": window}:
            return f"mean {field} of {window}"
        case name, _:
            return name
