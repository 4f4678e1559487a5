"""Routes of what runs, for operators: the running graph, running DAGs, jobs, derived streams, hosts."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import HostAnswer, JobAnswer, Page, RunningDagAnswer, RunningTaskAnswer, StreamAnswer
from manager.problem import Forbidden, NotFound, StateNotReady
from manager.rest.dependencies import Named, Text, TheCaller, ThePage, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import running

router = APIRouter(prefix="/v1", tags=["running"])


@router.get("/running/tasks", **told(running.RUNNING_TASK_PAGE, Forbidden, StateNotReady))
def running_tasks(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    job: Annotated[Text | None, Query(description="Of this job only.")] = None,
) -> Page[RunningTaskAnswer]:
    """List the running graph, by instance; operators only."""
    return service.running.tasks(caller, page, job=job)


@router.get("/running/dags", **told(running.RUNNING_DAG_PAGE, Forbidden, StateNotReady))
def running_dags(service: TheService, caller: TheCaller, page: ThePage) -> Page[RunningDagAnswer]:
    """List the running DAGs; operators only."""
    return service.running.dags(caller, page)


@router.get("/jobs", **told(running.JOB_PAGE, Forbidden, StateNotReady))
def jobs(service: TheService, caller: TheCaller, page: ThePage) -> Page[JobAnswer]:
    """List the jobs: what is wanted of each, and what its host says of it; operators only."""
    return service.running.jobs(caller, page)


@router.get("/jobs/{job}", **told(running.JOB, Forbidden, NotFound, StateNotReady))
def job(service: TheService, caller: TheCaller, job: Named) -> JobAnswer:
    """Show one job; operators only."""
    return service.running.job(caller, job)


@router.get("/streams", **told(running.STREAM_PAGE, Forbidden, StateNotReady))
def streams(service: TheService, caller: TheCaller, page: ThePage) -> Page[StreamAnswer]:
    """List the derived streams that cross jobs; operators only."""
    return service.running.streams(caller, page)


@router.get("/hosts", **told(running.HOST_PAGE, Forbidden))
def hosts(service: TheService, caller: TheCaller, page: ThePage) -> Page[HostAnswer]:
    """List the hosts; operators only."""
    return service.running.hosts(caller, page)
