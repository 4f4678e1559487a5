"""The progress of a replay: a bar with the time left on a terminal, else a line for each step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress(out: Console, name: str, seconds: float) -> Iterator[Callable[[str, float], None]]:
    """Show a replay of so many planned seconds; yields the callback for what it does and how much is done."""
    if not out.is_terminal:
        yield _lines(out, name)
        return
    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=out, transient=True, speed_estimate_period=300.0) as bar:
        task = bar.add_task("", total=seconds, name=name)

        def on_progress(what: str, done: float) -> None:
            bar.update(task, advance=done, description=what or None)

        yield on_progress


def _lines(out: Console, name: str) -> Callable[[str, float], None]:
    shown = [""]

    def on_progress(what: str, _done: float) -> None:
        if what and what != shown[-1]:
            shown.append(what)
            out.print(escape(f"{name}: {what}"), soft_wrap=True)

    return on_progress
