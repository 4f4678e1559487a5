"""The command that draws a trace: `braid trace`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from manager.cli import Shown, WrongUsage, printed
from workloads.traces import (
    ARRIVALS,
    BETWEEN,
    LIFETIME,
    LIFETIME_SPREAD,
    WALK,
    Trace,
    poisson,
    random_walk,
    sequential,
    write_trace,
)
from workloads.workload import WrongWorkload, load_workload

Model = Literal["seq", "rw", "poisson"]
Draw = Callable[[str, Sequence[str], int], Trace]


@printed
def trace(  # noqa: PLR0913 - the options of all models
    workload: Annotated[str, typer.Argument(help="opmw, opmw-join or riotbench, also with :SEED; or a folder.")],
    *,
    into: Annotated[Path, typer.Option(help="The file for the trace.")],
    model: Annotated[Model, typer.Option(help="In and out in order, a random walk, or random arrivals.")] = "seq",
    seed: Annotated[int, typer.Option(help="The same seed draws the same trace.")] = 1,
    steps: Annotated[int, typer.Option(min=0, help="rw: number of steps of the walk.")] = WALK,
    arrivals: Annotated[int, typer.Option(min=1, help="poisson: number of arrivals.")] = ARRIVALS,
    between: Annotated[float, typer.Option(min=1e-3, help="poisson: mean seconds between arrivals.")] = BETWEEN,
    lifetime: Annotated[float, typer.Option(min=1e-3, help="poisson: median seconds of a stay.")] = LIFETIME,
    spread: Annotated[float, typer.Option(min=0.0, help="poisson: deviation of log(lifetime).")] = LIFETIME_SPREAD,
) -> Shown:
    """Draw a trace over a workload: the order in which its dataflows are submitted and removed."""
    draws: dict[Model, Draw] = {
        "seq": sequential,
        "rw": partial(random_walk, steps=steps),
        "poisson": partial(poisson, arrivals=arrivals, between=between, lifetime=lifetime, spread=spread),
    }
    try:
        drawn = draws[model](workload, tuple(load_workload(workload).dataflows), seed)
        write_trace(drawn, into)
    except (WrongWorkload, ValueError) as error:
        raise WrongUsage(str(error)) from None
    except OSError as error:
        raise WrongUsage(f"{into}: {error.strerror}; name a file that can be written") from None
    return Shown(
        data={"name": drawn.name, "steps": len(drawn.steps), "into": str(into)},
        text=f"{into}: {drawn.name}, {len(drawn.steps)} steps over {workload}; replay it with braid replay {into}",
    )
