"""The routes of dynamic dataflows: what they have chosen, their policy, and choices by hand."""

from typing import Annotated

from fastapi import APIRouter, Depends

from manager.answers.adaptations import AdaptationAnswer, ChoiceForm, PolicyForm
from manager.problem import Conflict, NotFound, StateNotReady, TooLarge, UnsupportedMediaType
from manager.rest.dependencies import TheCaller, TheId, TheService, document, form, in_turn
from manager.rest.examples import ADAPTATION
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1/dataflows/{id}", tags=["dataflows"])
_CHANGED = (Conflict, NotFound, StateNotReady, TooLarge, UnsupportedMediaType)


@router.get("/adaptation", **documented(ADAPTATION, Conflict, NotFound))
def adaptation(service: TheService, caller: TheCaller, id: TheId) -> AdaptationAnswer:  # noqa: A002 - its public name
    """Show what a dynamic dataflow has chosen, and by which figures."""
    return service.adaptations.get(caller, id)


@router.put("/policy", **documented(ADAPTATION, *_CHANGED, body=PolicyForm))
def set_policy(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    raw: Annotated[bytes, in_turn(document)],
) -> AdaptationAnswer:
    """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
    return service.adaptations.set_policy(caller, id, raw)


@router.put("/choice", **documented(ADAPTATION, *_CHANGED, body=ChoiceForm))
def choose(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    sent: Annotated[ChoiceForm, Depends(form(ChoiceForm))],
) -> AdaptationAnswer:
    """Choose alternates and streams by hand. What is left out is left to the service again."""
    return service.adaptations.choose(caller, id, sent.choose)
