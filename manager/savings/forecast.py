"""The forecast of a dataflow's saving: the cores that its reused tasks, and a job of its own, would take.

Every batch of a job has a cost independent of its events; a dataflow that opens no job saves it by packing. The work
saved by sharing is the part of all its tasks' work that is done by the reused ones.
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
    """Forecast the saving of a dataflow; `instances` has the running instance of each distinct task, None for new ones.

    `opened` is the number of jobs that it opens, `job` the cores for the empty batches of a job. A source does no work.
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
    shares = saved > 0.0
    return Saving(
        tasks=sum(each is not None for each in instances),
        of_tasks=len(instances),
        work_by_sharing=round(saved / whole, 6) if shares else None,
        cores_by_sharing=round(saved, 6) if shares else None,
        cores_by_packing=round(job * max(0, 1 - opened), 6),
        rests_on={basis: reused[basis] for basis in Basis},
        work_rests_on={basis: every[basis] for basis in Basis},
    )
