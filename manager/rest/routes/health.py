"""Routes that need no API key: whether the manager lives, whether it is ready, and what problems mean."""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from manager.problem import TROUBLES, InvalidRequest, NotFound, StateNotReady
from manager.rest.dependencies import Text
from manager.rest.openapi import problems

router = APIRouter(tags=["open"])
_ABOUT = {trouble.code: trouble for trouble in TROUBLES}


class Alive(BaseModel):
    """The process answers."""

    alive: Literal[True] = True


class Ready(BaseModel):
    """This manager leads, and what runs is what was committed."""

    ready: Literal[True] = True


@router.get("/healthz", responses=problems(InvalidRequest))
async def healthz() -> Alive:
    """Whether the manager lives; it may not be ready."""
    return Alive()


# Not async: whoever knows may have to look.
@router.get("/readyz", responses=problems(InvalidRequest, StateNotReady))
def readyz(request: Request) -> Ready:
    """Whether the manager is ready: it leads, and has reconciled what runs with what was committed."""
    awaits: Callable[[], str | None] = request.app.state.awaits
    if (what := awaits()) is not None:
        raise StateNotReady(what)
    return Ready()


@router.get("/problems/{code}", response_class=PlainTextResponse, responses=problems(NotFound, InvalidRequest))
async def about(code: Annotated[Text, Path(description="The last part of a problem's type.")]) -> PlainTextResponse:
    """What a problem means, and what to do about it."""
    if (trouble := _ABOUT.get(code)) is None:
        raise NotFound("problem", code)
    return PlainTextResponse(f"{trouble.title} ({trouble.status})\n\n{trouble.about}\n")
