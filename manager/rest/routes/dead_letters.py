"""Routes of dead letters: list, replay, discard."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Page, Replayed
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady
from manager.rest.dependencies import Text, TheCaller, TheId, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["dead letters"])
Alike = Annotated[bool, Query(description="All dead letters of the same task with the same reason, too.")]


@router.get("/dead-letters", **documented(resources.DEAD_LETTER_PAGE))
def dead_letters(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    dataflow: Annotated[Text | None, Query(description="Only those of this dataflow. It may be removed.")] = None,
) -> Page[DeadLetterAnswer]:
    """List events that tasks of the caller's dataflows failed on, newest first."""
    return service.dead_letters.page(caller, page, dataflow=dataflow)


@router.get("/dead-letters/groups", **documented(resources.DEAD_LETTER_GROUP_PAGE))
def dead_letter_groups(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    dataflow: Annotated[Text | None, Query(description="Only those of this dataflow. It may be removed.")] = None,
) -> Page[DeadLetterGroupAnswer]:
    """List the same by task and reason: how many, and when the first and the last came; newest first."""
    return service.dead_letters.groups(caller, page, dataflow=dataflow)


@router.post("/dead-letters/replay", **documented(resources.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="The dataflow.")],
) -> Replayed:
    """Send the dead letters of a dataflow to its tasks again, oldest first, each once."""
    return service.dead_letters.replay_all(caller, dataflow)


@router.post(
    "/dead-letters/{id}/replay", **documented(resources.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady)
)
def replay_dead_letter(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    alike: Alike = False,  # noqa: FBT002 - a query parameter
) -> Replayed:
    """Send one dead letter to its task again, once. If other tenants share the task, only an operator may."""
    return service.dead_letters.replay(caller, id, alike=alike)


@router.delete("/dead-letters", **documented(resources.DISCARDED, NotFound))
def discard_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="The dataflow. It may be removed.")],
) -> Discarded:
    """Discard the dead letters of a dataflow: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard_all(caller, dataflow)


@router.delete("/dead-letters/{id}", **documented(resources.DISCARDED, NotFound))
def discard_dead_letter(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    alike: Alike = False,  # noqa: FBT002 - a query parameter
) -> Discarded:
    """Discard one dead letter: a tenant for itself, an operator for everyone."""
    return service.dead_letters.discard(caller, id, alike=alike)
