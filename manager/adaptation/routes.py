"""The routes of dynamic dataflows: what they have chosen, their policy, and choices by hand."""

from typing import Annotated

from fastapi import APIRouter, Depends

from braid_client.answers.adaptations import AdaptationAnswer, ChoiceForm, PolicyForm
from manager.problem import Conflict, NotFound, StateNotReady
from manager.rest.bodies import document, form
from manager.rest.dependencies import TheCaller, TheDataflow, TheService, in_turn
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1/dataflows/{id}", tags=["dataflows"])


@router.get("/adaptation", **documented(Conflict, NotFound))
def adaptation(service: TheService, caller: TheCaller, dataflow: TheDataflow) -> AdaptationAnswer:
    """Show what a dynamic dataflow has chosen, and by which figures."""
    return service.adaptations.get(caller, dataflow)


@router.put("/policy", **documented(Conflict, NotFound, StateNotReady, body=PolicyForm))
def set_policy(
    service: TheService, caller: TheCaller, dataflow: TheDataflow, raw: Annotated[bytes, in_turn(document)]
) -> AdaptationAnswer:
    """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
    return service.adaptations.set_policy(caller, dataflow, raw)


@router.put("/choice", **documented(Conflict, NotFound, StateNotReady, body=ChoiceForm))
def choose(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    sent: Annotated[ChoiceForm, Depends(form(ChoiceForm))],
) -> AdaptationAnswer:
    """Choose alternates and streams by hand. What is left out is left to the service again."""
    return service.adaptations.choose(caller, dataflow, sent.choose)
