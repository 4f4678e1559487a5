"""Routes of defragmentation, for operators: how scattered the jobs are, and to have tasks moved."""

from fastapi import APIRouter

from manager.answers import FragmentationAnswer, MoveAnswer
from manager.problem import Conflict, Forbidden, StateNotReady
from manager.rest.dependencies import TheCaller, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import running

router = APIRouter(prefix="/v1", tags=["running"])


@router.get("/fragmentation", **told(running.FRAGMENTATION, Forbidden, StateNotReady))
def fragmentation(service: TheService, caller: TheCaller) -> FragmentationAnswer:
    """Say how scattered the jobs are, and what moves tasks right now; operators only."""
    return service.defragmentation.fragmentation(caller)


@router.post("/defragmentations", **told(running.MOVE, Conflict, Forbidden, StateNotReady, status=202))
def defragment(service: TheService, caller: TheCaller) -> MoveAnswer:
    """Consolidate the jobs now, or relieve one that is overloaded; the journal says what came of it; operators only."""
    return service.defragmentation.begin(caller)
