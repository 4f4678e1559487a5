"""What benchmarks share: scratch folders, clocks, waiting, quantiles, and a printed line for each figure."""

import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Figures = dict[str, Any]
"""Figures by their names, as JSON has them."""
BOUND = 120.0
"""Seconds within which whatever is awaited has to come."""


def report(what: str, figures: Any) -> Any:
    """Print figures in a line, and hand them on."""
    print(f"{what}: {json.dumps(figures)}", flush=True)
    return figures


def named_parts(parts: Mapping[str, T], arguments: Sequence[str]) -> Mapping[str, T]:
    """The parts of a benchmark that arguments of its command name, or all if they name none."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if unknown := [name for name in names if name not in parts]:
        raise SystemExit(f"there is no part {unknown[0]}; choose from {', '.join(parts)}")
    return {name: parts[name] for name in names or parts}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for a while."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        yield Path(folder)


@contextmanager
def repeated(act: Callable[[], object], every: float) -> Iterator[None]:
    """Do something again and again, in a thread."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(every):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def alone(measure: Callable[[T], R], about: T) -> R:
    """Measure in a process of its own, whose memory nothing else has used and whose collector has nothing to walk."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(measure, (about,))


def clocked(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R, float]:
    """What a call returns and how many seconds it takes."""
    begin = time.perf_counter()
    result = work(*args, **kwargs)
    return result, time.perf_counter() - begin


def awaited(look: Callable[[], T | None], what: str, *, within: float = BOUND, every: float = 0.05) -> T:
    """Look again and again until something true is seen, and return it."""
    until = time.monotonic() + within
    while not (value := look()):
        if time.monotonic() > until:
            raise TimeoutError(f"not within {within:g} s: {what}")
        time.sleep(every)
    return value


def heard(news: threading.Condition, look: Callable[[], T | None], what: str) -> T:
    """Look after each news until something true is seen, and return it."""
    with news:
        value = news.wait_for(look, BOUND)
    if not value:
        raise TimeoutError(f"not within {BOUND:g} s: {what}")
    return value


def p99(values: Sequence[float]) -> float:
    """What all but one in a hundred are at most."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def percentiles(values: Sequence[float], digits: int | None = None) -> Figures:
    """The median and the 99th percentile, rounded."""
    return {"p50": round(statistics.median(values), digits), "p99": round(p99(values), digits)}


def extremes(values: Sequence[float], digits: int) -> Figures:
    """The median, the least and the most, rounded."""
    figures = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, digits) for name, value in figures.items()}
