"""The requests about what runs: the running graph, jobs, hosts, defragmentation."""

from manager.answers import (
    DefragmentationPreviewAnswer,
    FragmentationAnswer,
    HostAnswer,
    JobAnswer,
    MoveAnswer,
    OverviewAnswer,
    Page,
    RunningDagAnswer,
    RunningTaskAnswer,
    StreamAnswer,
)
from manager.client.requests.request import Request, given, list_request, path_to


def running_tasks(job: str | None) -> Request[Page[RunningTaskAnswer]]:
    """The running graph."""
    return list_request("/v1/running/tasks", Page[RunningTaskAnswer], given(job=job))


def running_dags() -> Request[Page[RunningDagAnswer]]:
    """The running DAGs."""
    return list_request("/v1/running/dags", Page[RunningDagAnswer])


def jobs() -> Request[Page[JobAnswer]]:
    """The jobs."""
    return list_request("/v1/jobs", Page[JobAnswer])


def job(name: str) -> Request[JobAnswer]:
    """One job."""
    return Request(path=path_to("jobs", name), answer=JobAnswer)


def streams() -> Request[Page[StreamAnswer]]:
    """The derived streams that cross jobs."""
    return list_request("/v1/streams", Page[StreamAnswer])


def hosts() -> Request[Page[HostAnswer]]:
    """The hosts."""
    return list_request("/v1/hosts", Page[HostAnswer])


def overview() -> Request[OverviewAnswer]:
    """Counts of dataflows, tasks and jobs."""
    return Request(path="/v1/overview", answer=OverviewAnswer)


def fragmentation() -> Request[FragmentationAnswer]:
    """The fragmentation of the jobs."""
    return Request(path="/v1/fragmentation", answer=FragmentationAnswer)


def preview_defragmentation() -> Request[DefragmentationPreviewAnswer]:
    """What a defragmentation would do."""
    return Request(path="/v1/defragmentations/preview", answer=DefragmentationPreviewAnswer)


def defragment() -> Request[MoveAnswer]:
    """Consolidate the jobs, or relieve an overloaded one."""
    return Request(method="POST", path="/v1/defragmentations", answer=MoveAnswer)
