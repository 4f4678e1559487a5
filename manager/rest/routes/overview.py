"""The route of the overview, the first page of the console."""

from fastapi import APIRouter

from manager.answers import DataflowState, JobsOverview, OverviewAnswer, TroubledJobAnswer
from manager.problem import StateNotReady
from manager.rest.dependencies import TheCaller, TheService
from manager.rest.openapi import documented

EXAMPLE = OverviewAnswer(
    dataflows={DataflowState.RUNNING: 41, DataflowState.DEGRADED: 1},
    tasks_submitted=312,
    tasks_running=87,
    jobs=JobsOverview(
        states={"died": 1, "running": 2},
        troubled=(TroubledJobAnswer(job="3", state="died", trouble="disk full"),),
        in_trouble=1,
        bridges=4,
        lag_events=120,
        lag_seconds=0.4,
    ),
)

router = APIRouter(prefix="/v1", tags=["overview"])


@router.get("/overview", **documented(EXAMPLE, StateNotReady))
def overview(service: TheService, caller: TheCaller) -> OverviewAnswer:
    """Count dataflows, tasks and jobs. A tenant sees only its own."""
    return service.overview.counts(caller)
