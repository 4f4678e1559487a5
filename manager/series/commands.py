"""The command that shows what a dataflow did over time: `braid history`."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated

import typer

from braid_client.answers.series import HistoryAnswer, HistoryRange
from braid_client.client import Client
from manager.cli import Id, Shown, client_command, lines, moment, number, table
from manager.savings.commands import TIME_FORMAT, time_in

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
"""The most bars of a line."""
_ROWS: dict[str, Callable[[HistoryAnswer], Sequence[float | None]]] = {
    "events in/s": lambda answer: answer.events_in_per_second,
    "events out/s": lambda answer: answer.events_out_per_second,
    "latency p50 s": lambda answer: answer.latency_seconds_p50,
    "latency p99 s": lambda answer: answer.latency_seconds_p99,
    "waiting": lambda answer: answer.waiting,
    "dead letters": lambda answer: answer.dead_letters,
    "cores": lambda answer: answer.cores,
    "cores alone": lambda answer: answer.cores_alone,
}


@client_command
def history(
    client: Client,
    dataflow: Id,
    reach: Annotated[HistoryRange, typer.Option("--range", help="How far back.")] = HistoryRange.HOUR,
    since: Annotated[str | None, typer.Option(help=f"Since a time instead, {TIME_FORMAT}")] = None,
) -> Shown:
    """Show what a dataflow did over time: a line for each figure, with its latest, least and largest value."""
    answer = client.history(dataflow, reach=reach, since=time_in("--since", since))
    heading = f"{moment(answer.since)} to {moment(answer.until)}, in steps of {answer.step} s"
    rows = [(name, *_row(read(answer))) for name, read in _ROWS.items()]
    return Shown(
        data=answer, text=lines(heading, table("figure", "latest", "least", "most", "over time", rows=rows, empty=""))
    )


def _row(values: Sequence[float | None]) -> tuple[object, ...]:
    known = [value for value in values if value is not None]
    if not known:
        return (None, None, None, "not known")
    return (*map(number, (known[-1], min(known), max(known))), bars(values))


def bars(values: Sequence[float | None], width: int = _WIDTH) -> str:
    """Draw values as bars, each as high as the largest of its part; a part that is not known is a gap.

    >>> bars([0.0, 1.0, None, 4.0]), bars([0.0, 0.0]), bars([1.0, 2.0, None, None, 4.0, 3.0], 3)
    ('▁▃ █', '▁▁', '▅ █')
    """
    count = min(width, len(values))
    bounds = [place * len(values) // count for place in range(count + 1)]
    peaks = [
        max((value for value in values[begin:end] if value is not None), default=None)
        for begin, end in pairwise(bounds)
    ]
    most = max((peak for peak in peaks if peak is not None), default=0.0) or 1.0
    return "".join(" " if peak is None else _BARS[round(peak / most * (len(_BARS) - 1))] for peak in peaks)
