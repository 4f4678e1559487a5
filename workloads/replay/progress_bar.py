"""How far a replay is: a bar with the time left on a terminal, a line for each step elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress(out: Console, name: str, seconds: float) -> Iterator[Callable[[str, float], None]]:
    """Show a replay of so many seconds, by its plan; what is yielded hears what it does, and how much of it is done."""
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

        def told(what: str, done: float) -> None:
            bar.update(task, advance=done, description=what or None)

        yield told


def _lines(out: Console, name: str) -> Callable[[str, float], None]:
    said = [""]

    def told(what: str, _done: float) -> None:
        if what and what != said[-1]:
            said.append(what)
            out.print(escape(f"{name}: {what}"), soft_wrap=True)

    return told
