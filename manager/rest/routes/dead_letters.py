"""Routes of dead letters: list, replay, discard."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import DeadLetterAnswer, Discarded, Page, Replayed
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady
from manager.rest.dependencies import Named, Text, TheCaller, ThePage, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["dead letters"])


@router.get("/dead-letters", **told(resources.DEAD_LETTER_PAGE))
def dead_letters(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    dataflow: Annotated[Text | None, Query(description="Of this dataflow's tasks only; it may be removed.")] = None,
) -> Page[DeadLetterAnswer]:
    """List events that tasks of the caller's dataflows could not take, newest first."""
    return service.dead_letters.page(caller, page, dataflow=dataflow)


@router.post("/dead-letters/replay", **told(resources.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="Of this dataflow's tasks.")],
) -> Replayed:
    """Feed the dead letters of a dataflow to its tasks again, the oldest first, each once."""
    return service.dead_letters.replay_all(caller, dataflow)


@router.post("/dead-letters/{id}/replay", **told(resources.REPLAYED, Conflict, Forbidden, NotFound, StateNotReady))
def replay_dead_letter(service: TheService, caller: TheCaller, id: Named) -> Replayed:  # noqa: A002 - its public name
    """Feed one dead letter to its task again, once; a task that serves others as well is an operator's to feed."""
    return service.dead_letters.replay(caller, id)


@router.delete("/dead-letters", **told(resources.DISCARDED, NotFound))
def discard_dead_letters(
    service: TheService,
    caller: TheCaller,
    dataflow: Annotated[Text, Query(description="Of this dataflow's tasks; it may be removed.")],
) -> Discarded:
    """Discard the dead letters of a dataflow: for the caller, or where that is an operator for everybody."""
    return service.dead_letters.discard_all(caller, dataflow)


@router.delete("/dead-letters/{id}", **told(resources.DISCARDED, NotFound))
def discard_dead_letter(service: TheService, caller: TheCaller, id: Named) -> Discarded:  # noqa: A002 - its public name
    """Discard one dead letter: for the caller, or where that is an operator for everybody."""
    return service.dead_letters.discard(caller, id)
