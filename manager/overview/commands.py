"""The commands that say whether all is well, and who did what: `braid status`, `braid audit`."""

from collections.abc import Iterator
from typing import Annotated

import typer

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.overview import MOST_CONCERNS, ConcernAnswer, OverviewAnswer
from braid_client.client import Client
from manager.cli import Shown, ShownLine, client_command, counted, fields, lines, listing, moment, table
from manager.exit_codes import ExitCode
from manager.savings.commands import TIME_FORMAT, time_in

_MOST = 20
"""The most things that are shown on one screen."""


@client_command
def status(client: Client) -> Iterator[Shown]:
    """Show on one screen whether all is well, what needs attention, and what to do about it.

    It ends with 9 if something is wrong, and with 0 if there are only warnings.
    """
    overview = client.overview()
    shown, more = overview.attention[:_MOST], overview.concerns - _MOST
    rows = [(concern.urgency, _words(concern), concern.remedy) for concern in shown]
    yield Shown(
        data=overview,
        text=lines(
            _sentence(overview),
            table("", "needs attention", "what to do", rows=rows, empty=""),
            f"and {more:,} more; braid status --json lists up to {MOST_CONCERNS}" if more > 0 else None,
            *_counts(overview),
        ),
    )
    if not overview.well:
        raise typer.Exit(ExitCode.UNWELL)


def _words(concern: ConcernAnswer) -> str:
    at = f" at {moment(concern.at)}" if concern.at else ""
    return f"{concern.what}{at}{f': {concern.reason}' if concern.reason else ''}"


def _sentence(overview: OverviewAnswer) -> str:
    counts = [(overview.dataflows.get(state, 0), state) for state in DataflowState]
    dataflows = ", ".join(f"{counted(count, 'dataflow')} {state}" for count, state in counts if count)
    if wrong := overview.concerns:
        return f"{counted(wrong, 'thing')} need{'s' if wrong == 1 else ''} attention; {dataflows or 'no dataflows'}"
    return f"all is well: {dataflows}" if dataflows else "nothing runs yet, and nothing is wrong"


def _counts(overview: OverviewAnswer) -> Iterator[str]:
    """What runs, for whom it is known."""
    if overview.tasks_submitted:
        yield f"{overview.tasks_running:,} tasks run for {overview.tasks_submitted:,} that were submitted"
    if (jobs := overview.jobs) is not None and jobs.states:
        states = ", ".join(f"{count:,} {state}" for state, count in jobs.states.items())
        oldest = f", the oldest for {jobs.lag_seconds:.1f} s" if jobs.lag_events and jobs.lag_seconds else ""
        yield f"jobs: {states}; {counted(jobs.lag_events or 0, 'event')} waiting{oldest}"


@client_command
def audit(
    client: Client,
    *,
    by: Annotated[str | None, typer.Option(help="Only of this API key, or this subject at the provider.")] = None,
    since: Annotated[str | None, typer.Option("--from", help=f"Only from a time on, {TIME_FORMAT}")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only before a time.")] = None,
    as_lines: Annotated[bool, typer.Option("--lines", help="Print each as JSON on a line of its own.")] = False,
) -> Iterator[Shown]:
    """List who did what, from where, and what was refused, newest first."""
    entries = client.audit(by=by, since=time_in("--from", since), until=time_in("--to", until))
    if as_lines:
        yield from (ShownLine(data=entry, text=entry.model_dump_json()) for entry in entries)
        return
    columns = ("at", "who", "caller", "caller_name", "address", "kind", "subject", "outcome", "note")
    yield listing(entries, "nothing", lambda entry: fields(entry, *columns), wide=("caller name", "address", "note"))
