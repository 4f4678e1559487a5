"""Examples of what runs: tasks, DAGs, jobs, streams, hosts, and the fragmentation of jobs."""

from datetime import UTC, datetime

from manager.answers import (
    DefragmentationPreviewAnswer,
    FragmentationAnswer,
    HostAnswer,
    JobAnswer,
    MoveAnswer,
    Page,
    RunningDagAnswer,
    RunningTaskAnswer,
    SavesAnswer,
    StreamAnswer,
)

_THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUNNING_TASK_PAGE = Page[RunningTaskAnswer](
    items=(
        RunningTaskAnswer(
            instance=2,
            type="range_filter",
            job="1",
            state="active",
            inputs=(1,),
            dataflows=2,
            since=_THEN,
            dag=1,
            cpu_seconds=0.41,
            events_in=81_200,
            events_out=80_964,
            events_dead=0,
            state_bytes=0,
        ),
    )
)
RUNNING_DAG_PAGE = Page[RunningDagAnswer](items=(RunningDagAnswer(id=1, tasks=8, dataflows=3, jobs=("1",)),))
JOB = JobAnswer(
    job="1",
    host="main",
    version=3,
    in_effect=3,
    state="running",
    trouble="",
    active=8,
    paused=0,
    batch=812,
    batch_seconds_p50=0.061,
    batch_seconds_p99=0.118,
    events_in_per_second=99.8,
    events_out_per_second=1.7,
    lag_events=0,
    lag_seconds=0.0,
    latency_seconds_p50=0.713,
    latency_seconds_p99=1.281,
    seen=_THEN,
)
JOB_PAGE = Page[JobAnswer](items=(JOB,))
STREAM_PAGE = Page[StreamAnswer](items=(StreamAnswer(instance=2, port="out", producer="1", consumers=("2",)),))
HOST_PAGE = Page[HostAnswer](
    items=(
        HostAnswer(
            name="main",
            alive=True,
            jobs=("1", "2"),
            spools={},
            dropped=0,
            cpu={},
            cores=8.0,
            tags=("gpu",),
            image="gpu-large",
            release="1.0",
            seen=_THEN,
        ),
    )
)

MOVE = MoveAnswer(id="move-3", phase="preparing", since=_THEN, tasks=12, leaves=("1", "2", "5"), joins=("9",))
FRAGMENTATION = FragmentationAnswer(
    jobs=3,
    fewest=1,
    bridges=4,
    paused=2,
    hops=2,
    cores=0.14,
    latency_seconds=2.0,
    saves=SavesAnswer(
        sharing=0.31,
        packing=0.54,
        defragmenting=0.14,
        most="packing",
        work_per_batch_seconds=0.07,
        crossover_seconds=0.2,
    ),
    move=MOVE,
)
DEFRAGMENTATION_PREVIEW = DefragmentationPreviewAnswer(
    tasks=12,
    leaves=("1", "2", "5"),
    opens=("north",),
    jobs=1,
    bridges=0,
    planned=False,
    why="it was asked for. It is worth it: 0.310 cores become 0.170 and 2 bridges in a row become 0, which saves "
    "504.0 CPU seconds in 3600 s. Jobs to start: 1, tasks to move: 12, which costs 6.1 CPU seconds and interrupts "
    "these for 1.2 s.",
)
