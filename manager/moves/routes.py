"""Routes of defragmentation: measure how scattered the jobs are, and move tasks together."""

from fastapi import APIRouter

from braid_client.answers.jobs import DefragmentationPreviewAnswer, FragmentationAnswer, MoveAnswer
from manager.problem import Conflict, Forbidden, StateNotReady
from manager.rest.dependencies import TheCaller, TheService
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1", tags=["running"])


@router.get("/fragmentation", **documented(Forbidden, StateNotReady))
def fragmentation(service: TheService, caller: TheCaller) -> FragmentationAnswer:
    """Measure how scattered the jobs are, and show the move under way; operators only."""
    return service.defragmentation.fragmentation(caller)


@router.get("/defragmentations/preview", **documented(Forbidden, StateNotReady))
def preview_defragmentation(service: TheService, caller: TheCaller) -> DefragmentationPreviewAnswer:
    """Show what a defragmentation would do now, and whether it is worth it. Nothing is moved. Operators only."""
    return service.defragmentation.preview(caller)


@router.post("/defragmentations", **documented(Conflict, Forbidden, StateNotReady, status=202))
def defragment(service: TheService, caller: TheCaller) -> MoveAnswer:
    """Consolidate the jobs now, or relieve an overloaded one. The journal records the result. Operators only."""
    return service.defragmentation.begin(caller)
