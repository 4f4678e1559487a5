"""The command that consolidates scattered jobs: `braid defragment`."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from braid_client.answers.jobs import DefragmentationPreviewAnswer, FragmentationAnswer, MoveAnswer
from braid_client.client import Client
from manager.cli import Shown, client_command, counted, number, waited
from manager.exit_codes import ExitCode

_OVER = "over"
"""The phase of a move that is not under way any more; whether it took effect is among the operations."""


@client_command
def defragment(
    client: Client,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how scattered the jobs are, and what it would do.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is over, for two minutes at most.")] = False,
) -> Iterator[Shown]:
    """Consolidate scattered jobs, or relieve an overloaded one. No event and no state is lost.

    The outcome is among the operations: `braid operations`.
    """
    if dry_run:
        answer, preview = client.fragmentation(), client.preview_defragmentation()
        yield Shown(
            data={**answer.model_dump(mode="json"), "preview": preview.model_dump(mode="json")},
            text=Text(f"{_text(answer)}\n{_previewed(preview)}"),
        )
        return
    move = client.defragment()
    latest = waited(move, lambda _: _under_way(client, move), _phase) if wait else None
    leaves, joins = ", ".join(move.leaves), ", ".join(move.joins)
    so_far = "follow it with: braid watch" if latest is None else f"it is {latest.phase}"
    what = f"{move.id}: {counted(move.tasks, 'task')} from {leaves} to {joins}; {so_far}"
    yield Shown(data=latest or move, text=Text(what))
    if latest is not None and latest.phase != _OVER:
        raise typer.Exit(ExitCode.LATER)


def _under_way(client: Client, move: MoveAnswer) -> MoveAnswer:
    """A move as it stands now."""
    now = client.fragmentation().move
    return now if now is not None and now.id == move.id else move.model_copy(update={"phase": _OVER})


def _phase(move: MoveAnswer) -> str | None:
    return None if move.phase == _OVER else f"{move.id} is {move.phase}"


def _text(answer: FragmentationAnswer) -> str:
    jobs, bridges = counted(answer.jobs, "job"), counted(answer.bridges, "bridge")
    paused = counted(answer.paused, "paused task")
    move = "" if answer.move is None else f"{answer.move.id} is {answer.move.phase}\n"
    saves = answer.saves
    sharing = "" if saves.sharing is None else f" by sharing {number(saves.sharing)},"
    return (
        f"{jobs}, {answer.fewest} needed; {bridges}, at most {answer.hops} in a row; {paused}\n"
        f"estimated cost: {number(answer.cores)} cores, {number(answer.latency_seconds)} s of latency\n"
        f"{move}cores saved{sharing} by packing {number(saves.packing)}; "
        f"defragmenting would save {number(saves.defragmenting)}; the most: {saves.most or 'none'}"
    )


def _previewed(answer: DefragmentationPreviewAnswer) -> str:
    if not answer.tasks:
        return f"nothing would move: {answer.why}"
    opens = ", ".join(answer.opens)
    return (
        f"{counted(answer.tasks, 'task')} would leave jobs {', '.join(answer.leaves)} for new ones on {opens}"
        f"{', as planned' if answer.planned else ''}; then there are {counted(answer.jobs, 'job')} and "
        f"{counted(answer.bridges, 'bridge')}\n{answer.why}"
    )
