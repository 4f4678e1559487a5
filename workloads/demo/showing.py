"""How the demo shows what it did and heard."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from manager.answers import SubmitAnswer
from workloads.demo.cores import Measured
from workloads.demo.stage import Progress, Removal, Sums, in_order
from workloads.outputs import Outputs

_LABEL = 18


def show_submission(out: Console, flow: SubmitAnswer, sums: Sums) -> None:
    """What a submission reused and started."""
    out.rule(escape(f"{flow.tenant} submits “{flow.name}”"), align="left")
    _named(out, "reused", [task.id for task in in_order(flow.reused)])
    _named(out, "started", [task.id for task in in_order(flow.started)])
    _show_sums(out, sums)


def show_removal(out: Console, flow: SubmitAnswer, removal: Removal, sums: Sums) -> None:
    """What a removal stopped and left."""
    out.rule(escape(f"{flow.tenant} removes “{flow.name}”"), align="left")
    _named(out, "stopped", removal.stopped)
    _named(out, "runs on for others", removal.released)
    _show_sums(out, sums)


def show_progress(out: Console, progress: Iterable[Progress]) -> None:
    """How the other outputs went on."""
    table = _table("tenant", "output", "events before", "events by now", "numbers missing", "longest wait")
    for each in progress:
        table.add_row(
            escape(each.tenant),
            escape(each.sink),
            f"{each.before:,}",
            f"{each.after:,}",
            "none",
            f"{each.longest:.1f} s",
        )
    out.print("The others never stopped. Their outputs while and after the removal, at one batch a second:")
    out.print(table)


def outputs_table(flows: Sequence[SubmitAnswer], outputs: Outputs) -> Table:
    """What has come of each output by now."""
    table = _table("tenant", "dataflow", "output", "events", "the newest")
    for column, least in zip(table.columns, (6, 12, 8, 8, 12), strict=True):
        column.overflow, column.no_wrap, column.min_width = "ellipsis", True, least
    for flow in flows:
        for output in flow.outputs:
            heard = outputs[output.topic]
            newest = json.dumps(_short(heard.last), ensure_ascii=False) if heard.events else ""
            row = (flow.tenant, flow.name, output.sink, f"{heard.events:,}", newest)
            table.add_row(*map(escape, row))
    return table


def show_cores(out: Console, shared: Measured, alone: Measured) -> None:
    """What sharing costs and saves, as measured."""
    out.rule("What it cost", align="left")
    table = _table("", "with sharing", "without")
    for column in table.columns[1:]:
        column.justify = "right"
    both = (shared, alone)
    table.add_row("dataflows", *(str(each.sums.dataflows) for each in both))
    table.add_row("running tasks", *(str(each.sums.running) for each in both))
    table.add_row("jobs", *(str(each.sums.jobs) for each in both))
    table.add_row("events a second at the outputs", *(f"{each.events:,.0f}" for each in both))
    for part in sorted(shared.cores.keys() | alone.cores.keys()):
        table.add_row(f"cores: {escape(part)}", *(f"{each.cores.get(part, 0.0):.2f}" for each in both))
    table.add_row("[bold]cores in all[/]", *(f"[bold]{sum(each.cores.values()):.2f}[/]" for each in both))
    out.print(table)
    out.print(
        f"Measured on this machine for {shared.seconds:.0f} and {alone.seconds:.0f} seconds, one after the other, with "
        "whatever else it did meanwhile: an example, no benchmark. It is the CPU of the host, which is its driver, its "
        "JVM and its Python workers; broker and manager are not in it. Events come in batches of a second, so their "
        "rate is right to within a tenth or two.\n"
        "Packing is in both: either way all tasks run as one Spark job and share the cost of its batches. What differs "
        "is that equivalent tasks run once, or again for each dataflow. Here it is the model that counts, which ran "
        "once instead of three times; tasks as cheap as the others cost little beside their batch.\n"
    )


def _named(out: Console, what: str, names: Sequence[str]) -> None:
    out.print(f"  [bold]{what:>{_LABEL}}[/]  {escape(', '.join(names)) or '-'}")


def _show_sums(out: Console, sums: Sums) -> None:
    saved = 1 - sums.running / sums.submitted if sums.submitted else 0.0
    out.print(
        f"  [bold]{'in all':>{_LABEL}}[/]  {_counted(sums.dataflows, 'dataflow')}, {sums.running} running tasks "
        f"instead of {sums.submitted} ([green]{saved:.0%} saved[/]), {_counted(sums.jobs, 'job')}\n"
    )


def _short(event: dict[str, Any]) -> dict[str, Any]:
    """An event with its numbers as exact as anybody wants to read them."""
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in event.items()}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _table(*columns: str) -> Table:
    return Table(*columns, box=SIMPLE_HEAD)
