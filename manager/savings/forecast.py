"""The saving of sharing, predicted: the cores that a dataflow's reused tasks, and a job of its own, would have taken.

A job costs something for each of its batches, whatever these hold; a dataflow that opens no job saves that. The work
saved is the part that the reused tasks take of what all would take.
"""

from collections import Counter
from collections.abc import Sequence

from dags import Dataflow
from manager.answers import Saving
from merge import Basis, Instance, MeasuredCosts, estimated


def saving(
    dataflow: Dataflow,
    instances: Sequence[Instance | None],
    measured: MeasuredCosts,
    *,
    opened: int,
    job: float,
) -> Saving:
    """The saving of a dataflow whose distinct tasks run as these instances, or would start, and open so many jobs.

    `job` is the cores that the batches of a job cost whatever they hold. A source does nothing itself.
    """
    reused, every = Counter[Basis](), Counter[Basis]()
    saved = whole = 0.0
    tasks = zip(dataflow.tasks, instances, estimated(dataflow, instances, measured), strict=True)
    for task, instance, estimate in tasks:
        if task.type.is_source:
            continue
        whole += estimate.busy
        every[estimate.basis] += 1
        if instance is not None:
            saved += estimate.busy
            reused[estimate.basis] += 1
    batches = job * max(0, 1 - opened)
    return Saving(
        tasks=sum(each is not None for each in instances),
        of_tasks=len(instances),
        cores=round(saved + batches, 6),
        task_cores=round(saved, 6),
        batch_cores=round(batches, 6),
        rests_on={basis: reused[basis] for basis in Basis},
        work=round(saved / whole, 6) if whole else None,
        work_rests_on={basis: every[basis] for basis in Basis},
    )
