"""Routes that need no API key: liveness, readiness, and what problems mean."""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from manager.problem import TROUBLES, InvalidRequest, NotFound, StateNotReady
from manager.rest.dependencies import Text
from manager.rest.openapi import problems

router = APIRouter(tags=["open"])
_BY_CODE = {trouble.code: trouble for trouble in TROUBLES}


class Alive(BaseModel):
    """The process answers."""

    alive: Literal[True] = True


class Ready(BaseModel):
    """This manager leads, and runs what was committed."""

    ready: Literal[True] = True


@router.get("/healthz", responses=problems(InvalidRequest))
async def healthz() -> Alive:
    """Answer as long as the process lives, ready or not."""
    return Alive()


# Not async: it may block.
@router.get("/readyz", responses=problems(InvalidRequest, StateNotReady))
def readyz(request: Request) -> Ready:
    """Answer 200 once the manager leads and runs what was committed."""
    awaits: Callable[[], str | None] = request.app.state.awaits
    if (why := awaits()) is not None:
        raise StateNotReady(why)
    return Ready()


@router.get("/problems/{code}", response_class=PlainTextResponse, responses=problems(NotFound, InvalidRequest))
async def about(code: Annotated[Text, Path(description="The last part of a problem's type.")]) -> PlainTextResponse:
    """Explain a problem, and what to do about it."""
    if (trouble := _BY_CODE.get(code)) is None:
        raise NotFound("problem", code)
    return PlainTextResponse(f"{trouble.title} ({trouble.status})\n\n{trouble.about}\n")
