"""Answers about machines that can be had: their classes, how machines of each are started, and rentals."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from braid_client.answers.base import Answer, Form, ImageName
from dags.document import MOST_TAGS, HostTag
from dags.vocabulary import MOST_FIGURE

_MOST_CORES = 4_096
_MOST_MACHINES = 1_000
_NICEST = 19


class SupplyKind(StrEnum):
    """How machines of a class are started and stopped."""

    PROCESS = "process"
    """As processes on the service's computer, in its root."""
    COMMAND = "command"
    """By a command: a file in the folder `commands` of the service's root."""


ClassName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
"""Commands are called with it."""
CommandName = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")]
"""A file's name without a folder, so that a request can only have run what is there."""


class MachineClassForm(Form):
    """A class of machines: what each has, offers and costs, how many there may be, and how one is started."""

    cores: Annotated[int, Field(ge=1, le=_MOST_CORES)] = 1
    memory_gb: Annotated[float | None, Field(gt=0, le=MOST_FIGURE)] = None
    price: Annotated[float, Field(ge=0, le=MOST_FIGURE)] = 0.0
    """The price of a started hour."""
    tags: Annotated[frozenset[HostTag], Field(max_length=MOST_TAGS)] = frozenset()
    """The tags that its hosts offer, beside those of the image."""
    image: ImageName | None = None
    """The registered image that its hosts are made from."""
    start_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How long a machine takes from its order until it works, until that was measured."""
    least: Annotated[int, Field(ge=0, le=_MOST_MACHINES)] = 0
    """How many there always are, while the service scales."""
    most: Annotated[int, Field(ge=0, le=_MOST_MACHINES)] = 1
    """How many there may be."""
    supply: SupplyKind = SupplyKind.PROCESS
    command: CommandName = ""
    """The file in the folder `commands` of the service's root that starts and stops them."""
    nice: Annotated[int, Field(ge=0, le=_NICEST)] = 0
    """How far a process gives way to others; for trying what slow machines do."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.least > self.most:
            raise ValueError("least is above most; give the number that there always are, then the most")
        if (self.supply is SupplyKind.COMMAND) is not bool(self.command):
            raise ValueError("a command goes with the supply `command`; give both, or neither")
        if self.nice and self.supply is not SupplyKind.PROCESS:
            raise ValueError("only processes here can be nice; leave it out")
        return self


class MachineClassAnswer(Answer):
    """A class of machines as it is stored, with what was measured of its machines."""

    name: str
    cores: int
    memory_gb: float | None = None
    price: float
    speed: float | None = None
    """How fast a core is, by the reference core; None until a machine of the class was measured."""
    tags: tuple[str, ...] = ()
    image: str | None = None
    start_seconds: float
    """As it was given, until it was measured."""
    measured: bool = False
    """Whether it was."""
    least: int
    most: int
    supply: SupplyKind
    command: str = ""
    nice: int = 0
    machines: tuple[str, ...] = ()
    """The machines of it that the service has started."""


class RentalAnswer(Answer):
    """A machine that the service started by itself, from its order to its end."""

    number: int
    machine: str
    machine_class: str
    cores: int
    price: float
    """The price of a started hour, as it was when the machine was ordered."""
    why: str
    """Why it was ordered."""
    ordered: datetime
    ready: datetime | None = None
    """When it first reported; None if it has not, as workers of a cluster never do."""
    ended: datetime | None = None
    speed: float | None = None
    """How fast its cores are, by the reference core; None if it was not measured."""
    hours: int
    """The started hours so far."""
    cost: float
    """What they cost."""
