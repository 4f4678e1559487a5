"""What choosing an alternate costs: its own work (sharded), or with the work that it causes below (centralised)."""

from provisioning.dataflow_figures import Active, DataflowFigures


def selected(dataflow: DataflowFigures, *, central: bool) -> Active:
    """The alternate with the highest ratio of value to cost of each task; of equals, the last."""
    active = [0] * len(dataflow.tasks)
    below = [0.0] * len(dataflow.tasks)
    for at in reversed(range(len(dataflow.tasks))):
        costs = _costs(dataflow, at, below, central=central)
        ratios = [one.value / max(cost, 1e-12) for one, cost in zip(dataflow.tasks[at].alternates, costs, strict=True)]
        active[at] = max(range(len(ratios)), key=lambda each: (ratios[each], each))
        below[at] = _costs(dataflow, at, below, central=True)[active[at]]
    return tuple(active)


def causes(dataflow: DataflowFigures, active: Active) -> list[float]:
    """The reference cores that an event a second into each task takes there and below, with these alternates."""
    below = [0.0] * len(dataflow.tasks)
    for at in range(len(dataflow.tasks) - 1, -1, -1):
        one = dataflow.tasks[at].alternates[active[at]]
        under = 0.0
        for child in dataflow.children[at]:
            under += below[child]
        below[at] = one.cost + one.selectivity * under
    return below


def _costs(dataflow: DataflowFigures, at: int, below: list[float], *, central: bool) -> list[float]:
    under = sum(below[child] for child in dataflow.children[at]) if central else 0.0
    return [one.cost + one.selectivity * under for one in dataflow.tasks[at].alternates]
