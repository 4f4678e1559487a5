"""Routes of images and of what runs on their hosts, for operators: list, put, remove, explain a placement."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from manager.answers import ImageAnswer, ImageForm, ImageName, Page, PlacementAnswer
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady, TooLarge, UnsupportedMediaType
from manager.rest.bodies import form
from manager.rest.dependencies import Named, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import machines as machine_examples

router = APIRouter(prefix="/v1", tags=["running"])
_Named = Annotated[ImageName, Path(description="The name by which hosts are made from it.")]


@router.get("/images", **documented(machine_examples.IMAGE_PAGE, Forbidden))
def images(service: TheService, caller: TheCaller, page: ThePage) -> Page[ImageAnswer]:
    """List the registered images, each with its hosts; operators only."""
    return service.images.page(caller, page)


@router.put(
    "/images/{name}",
    **documented(machine_examples.IMAGE, Forbidden, StateNotReady, TooLarge, UnsupportedMediaType, body=ImageForm),
)
def put_image(
    service: TheService, caller: TheCaller, name: _Named, sent: Annotated[ImageForm, Depends(form(ImageForm))]
) -> ImageAnswer:
    """Register an image, or change it; operators only. What is placed from then on goes by it."""
    return service.images.put(caller, name, sent)


@router.delete("/images/{name}", **documented(machine_examples.IMAGE, Forbidden, NotFound, StateNotReady))
def remove_image(service: TheService, caller: TheCaller, name: _Named) -> ImageAnswer:
    """Remove an image; operators only. Its hosts run on, and offer nothing but tags of their own."""
    return service.images.remove(caller, name)


@router.get(
    "/dataflows/{dataflow}/placement",
    **documented(machine_examples.PLACEMENT, Conflict, Forbidden, NotFound, StateNotReady),
)
def explain_placement(service: TheService, caller: TheCaller, dataflow: Named) -> PlacementAnswer:
    """Explain where each task of a dataflow runs, what that costs, and what would cost less; operators only."""
    return service.placements.explain(caller, dataflow)
