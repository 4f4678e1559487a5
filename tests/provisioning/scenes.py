"""Dataflows in figures, machines and goals: by hand, and drawn."""

from collections.abc import Iterator

from hypothesis import strategies as st

from provisioning.deployment import Deployment
from provisioning.figures import AlternateFigures, DataflowFigures, MachineClass, ProfitGoal, TaskFigures

SMALL = MachineClass(name="small", cores=1, speed=1.0, price=0.06, start_seconds=120.0)
MEDIUM = MachineClass(name="medium", cores=1, speed=2.0, price=0.12, start_seconds=120.0)
LARGE = MachineClass(name="large", cores=2, speed=2.0, price=0.24, start_seconds=120.0)
GPU = MachineClass(name="gpu", cores=2, speed=2.0, price=0.5, start_seconds=120.0, tags=frozenset({"gpu"}))
CLASSES = (SMALL, MEDIUM, LARGE)


def task(name: str, *alternates: tuple[float, float, float], after: tuple[str, ...] = ()) -> TaskFigures:
    """A task with alternates as (value, cost, selectivity)."""
    figures = (AlternateFigures(value=value, cost=cost, selectivity=given) for value, cost, given in alternates)
    return TaskFigures(name=name, alternates=tuple(figures), inputs=after)


def problems(deployment: Deployment, dataflow: DataflowFigures) -> Iterator[str]:
    """Why this cannot be: a task that runs nowhere or where its tags are missing, too many cores of a machine."""
    known = {rental.number: rental.machine_class for rental in deployment.rentals}
    somewhere = {task for tasks in deployment.cores.values() for task, count in tasks.items() if count}
    for at, one in enumerate(dataflow.tasks):
        if at not in somewhere:
            yield f"{one.name} runs nowhere"
    if len(known) < len(deployment.rentals):
        yield "two rentals have one number"
    for number, tasks in deployment.cores.items():
        if number not in known:
            yield f"rental {number} has work, but is not there"
            continue
        if sum(tasks.values()) > known[number].cores or min(tasks.values(), default=0) < 0:
            yield f"rental {number} has {known[number].cores} cores, not {sum(tasks.values())}"
        for task in tasks:
            if missing := dataflow.tasks[task].tags - known[number].tags:
                yield f"{dataflow.tasks[task].name} needs {', '.join(sorted(missing))}, which {number} lacks"


CHAIN = DataflowFigures(
    tasks=(
        task("read", (1.0, 0.01, 1.0)),
        task("score", (1.0, 0.2, 1.0), (0.7, 0.05, 1.0), after=("read",)),
        task("write", (1.0, 0.01, 1.0), after=("score",)),
    )
)

values = st.sampled_from([0.2, 0.5, 0.8, 1.0])
costs = st.sampled_from([0.0, 0.01, 0.02, 0.05, 0.1, 0.2])
selectivities = st.sampled_from([0.1, 0.5, 1.0, 1.0, 2.0])
alternates = st.builds(AlternateFigures, value=values, cost=costs, selectivity=selectivities)


@st.composite
def dataflows(draw: st.DrawFn, most: int = 5) -> DataflowFigures:
    """Any small dataflow: a DAG, each task with one to three alternates."""
    tasks: list[TaskFigures] = []
    for at in range(draw(st.integers(1, most))):
        names = [one.name for one in tasks]
        inputs = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
        choice = draw(st.lists(alternates, min_size=1, max_size=3))
        tasks.append(TaskFigures(name=f"t{at}", alternates=tuple(choice), inputs=tuple(inputs)))
    return DataflowFigures(tasks=tuple(tasks))


def rates_of(dataflow: DataflowFigures, rate: float) -> dict[str, float]:
    """The rate at each task that takes from none."""
    return {one.name: rate for one in dataflow.tasks if not one.inputs}


def goal(rate: float = 10.0) -> ProfitGoal:
    """Linear Road's break-even costs."""
    return ProfitGoal(best_cost=1.2 * rate, least_cost=0.6 * rate)
