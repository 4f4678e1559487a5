"""The command that consolidates scattered jobs: `braid defragment`."""

from typing import Annotated

import typer
from rich.text import Text

from manager.answers import FragmentationAnswer
from manager.client.client import Client
from manager.commands.client_command import asks
from manager.commands.display import Shown


@asks
def defragment(
    client: Client,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how scattered the jobs are.")] = False,
) -> Shown:
    """Consolidate scattered jobs, or relieve one that is overloaded; nobody loses an event or a state.

    What came of it is among the operations.
    """
    if dry_run:
        found = client.fragmentation()
        return Shown(data=found, text=Text(_worded(found)))
    move = client.defragment()
    leaves, joins = ", ".join(move.leaves), ", ".join(move.joins)
    return Shown(
        data=move,
        text=Text(f"{move.id}: {move.tasks} tasks move from job {leaves} to job {joins}; follow it with watch"),
    )


def _worded(found: FragmentationAnswer) -> str:
    told = (
        f"{found.jobs} jobs where {found.fewest} would do, {found.bridges} bridges, {found.hops} in a row at most, "
        f"{found.paused} paused tasks; predicted to cost {found.cores:.3f} cores and {found.latency_seconds:.2f} s"
    )
    if found.move is not None:
        told += f"; {found.move.id} is {found.move.phase}"
    saves = found.saves
    return (
        f"{told}\nhere and now {saves.most or 'none'} counts most: sharing saves {saves.sharing:.3f} cores, packing"
        f" {saves.packing:.3f}, and defragmenting would save {saves.defragmenting:.3f}"
    )
