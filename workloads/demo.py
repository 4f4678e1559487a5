"""The demo: four tenants submit dataflows, which run as one Spark job; two leave, and the others notice nothing."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bridge import topics
from bridge.broker import BrokerDown
from dags import Dataflow, canonicalise
from engine import installed_catalogue
from engine.plan import Delivery, Plan, SlotState
from engine.supply import Replayed
from manager.planning import Planner, Supplied
from manager.source_file import read_sources
from merge import Change, Costs, Host, Jobs, RunningGraph, RunningTask, merge, place, release, unmerge
from workloads.demo_run import DemoFailed, Running, running, show_outputs, show_work
from workloads.examples import EXAMPLES, SOURCES, TRACES

_HOSTS = (Host(name="demo", cores=2.0),)
_BUSY = 0.01
"""How busy the demo takes each task to be before it has measured any."""
_RATE = 100.0
"""How many events of each source are replayed in a second."""


class _Stage:
    """The running graph and its jobs, with a console to show them on."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.running = RunningGraph()
        self.jobs = Jobs()
        self.alone = 0
        """Tasks that would run if every dataflow ran by itself."""
        self.names: dict[int, str] = {}
        """What each instance is called that was ever started."""

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
        self.names |= {task.instance: _name(task) for task in change.starts}
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

    def plan(self, version: int, before: Plan | None = None) -> Plan:
        """The plan of the one job that everything runs in."""
        (job,) = self.jobs.jobs
        return Planner(self.running, self.jobs, _supplies()).plan(job, version=version, before=before)

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
    """Show Braid at work: merge four dataflows, run them as one Spark job, remove two while it runs."""
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
    out.print("\nStarting a broker and Spark ...")
    try:
        with running(_HOSTS[0].name) as run:
            _show(stage, flows, run)
    except (DemoFailed, BrokerDown) as error:
        out.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(1) from None


def _show(stage: _Stage, flows: Mapping[str, Dataflow], run: Running) -> None:
    everything = stage.plan(1)
    outputs = {_topic(delivery): delivery.sink for delivery in everything.deliveries}
    run.run(everything)
    run.await_events(outputs, 20)
    stage.out.print("All of it runs as one job. Two tenants leave while it runs:\n")
    for tenant in ("school", "planning"):
        stage.remove(flows[tenant])
    rest = stage.plan(2, everything)
    run.run(rest)
    left = {_topic(delivery) for delivery in rest.deliveries}
    gone = {topic: len(run.heard.outputs[topic]) for topic in outputs.keys() - left}
    run.await_events(left, 20)
    show_work(stage.out, run.metrics(everything.job), stage.names)
    show_outputs(stage.out, run.heard, outputs)
    paused = [slot.instance for slot in rest.slots if slot.state is SlotState.PAUSED]
    if any(len(run.heard.outputs[topic]) != count for topic, count in gone.items()):
        raise DemoFailed("an output went on although its dataflow was removed")
    if run.heard.missing:
        raise DemoFailed(f"{run.heard.missing} events did not arrive")
    stage.out.print(
        f"\nInstances {', '.join(map(str, paused))} are paused: nobody needs them. "
        "The other two dataflows got every event of theirs, once and in order, and never stopped."
    )


def _topic(delivery: Delivery) -> str:
    return topics.output(delivery.tenant, delivery.dataflow, delivery.sink)


def _supplies() -> dict[str, Supplied]:
    """Where the events of the examples' sources come from: their traces, over and over."""
    return {
        name: Supplied(
            f"source/{name}",
            Replayed(
                path=str(trace), fields=dict(read_sources(SOURCES)[name].schema.fields), per_second=_RATE, repeat=True
            ),
        )
        for name, trace in TRACES.items()
    }


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
