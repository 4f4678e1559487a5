"""Images, which hosts are made from; for operators."""

from typing import Annotated

from pydantic import Field

from dags.document import MOST_TAGS, HostTag
from manager.answers.base import Answer, Form


class ImageForm(Form):
    """An image: what each of its hosts offers, has and costs."""

    tags: Annotated[frozenset[HostTag], Field(max_length=MOST_TAGS)] = frozenset()
    cores: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    start: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds until a new host is there."""
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Of a host for an hour, in any currency."""
    most: Annotated[int | None, Field(ge=0)] = None
    """How many hosts there may be; any number if it is left out."""


class ImageAnswer(Answer):
    """A registered image, and the hosts that were made from it."""

    name: str
    tags: tuple[str, ...]
    cores: float
    start: float
    price: float
    most: int | None
    hosts: tuple[str, ...] = ()
    """Those that are alive."""
