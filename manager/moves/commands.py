"""The command that consolidates scattered jobs: `braid defragment`."""

from typing import Annotated

import typer
from rich.text import Text

from manager.answers.jobs import DefragmentationPreviewAnswer, FragmentationAnswer
from manager.cli import Shown, client_command, counted, number
from manager.client.client import Client


@client_command
def defragment(
    client: Client,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how scattered the jobs are, and what it would do.")
    ] = False,
) -> Shown:
    """Consolidate scattered jobs, or relieve an overloaded one. No event and no state is lost.

    The outcome is among the operations: `braid operations`.
    """
    if dry_run:
        found, preview = client.fragmentation(), client.preview_defragmentation()
        return Shown(
            data={**found.model_dump(mode="json"), "preview": preview.model_dump(mode="json")},
            text=Text(f"{_text(found)}\n{_previewed(preview)}"),
        )
    move = client.defragment()
    leaves, joins = ", ".join(move.leaves), ", ".join(move.joins)
    return Shown(
        data=move,
        text=Text(f"{move.id}: {counted(move.tasks, 'task')} from {leaves} to {joins}; follow it with: braid watch"),
    )


def _text(found: FragmentationAnswer) -> str:
    jobs, bridges, paused = (
        counted(count, noun)
        for count, noun in ((found.jobs, "job"), (found.bridges, "bridge"), (found.paused, "paused task"))
    )
    move = "" if found.move is None else f"{found.move.id} is {found.move.phase}\n"
    saves = found.saves
    sharing = "" if saves.sharing is None else f" by sharing {number(saves.sharing)},"
    return (
        f"{jobs}, {found.fewest} needed; {bridges}, at most {found.hops} in a row; {paused}\n"
        f"estimated cost: {number(found.cores)} cores, {number(found.latency_seconds)} s of latency\n"
        f"{move}cores saved{sharing} by packing {number(saves.packing)}; "
        f"defragmenting would save {number(saves.defragmenting)}; the most: {saves.most or 'none'}"
    )


def _previewed(found: DefragmentationPreviewAnswer) -> str:
    if not found.tasks:
        return f"nothing would move: {found.why}"
    opens = ", ".join(found.opens)
    return (
        f"{counted(found.tasks, 'task')} would leave jobs {', '.join(found.leaves)} for new ones on {opens}"
        f"{', as planned' if found.planned else ''}; then there are {counted(found.jobs, 'job')} and "
        f"{counted(found.bridges, 'bridge')}\n{found.why}"
    )
