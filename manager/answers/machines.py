"""Machines, the hosts that they carry, and the images that these are made from; for operators."""

from typing import Annotated

from pydantic import Field

from dags.document import MOST_TAGS, HostTag
from manager.answers.base import Answer, Form
from merge.capacity import LEAST_FIGURE, MOST_FIGURE


class CarriedHostAnswer(Answer):
    """A host at the machine that carries it."""

    name: str
    home: str = ""
    """The machine that it goes to when that can have it: the owner of its point on the ring."""
    load: float | None = None
    """The cores that its jobs took in the last minute; None if none of them has reported."""
    heir: str = ""
    """The machine that it is being handed to."""
    peers: tuple[str, ...] = ()
    """The machines that its files are sent to."""
    kept_by: tuple[str, ...] = ()
    """The peers that have everything anybody outside has seen."""
    standby: tuple[str, ...] = ()
    """The machines that could go on with it at once: those that have everything and are alive."""
    behind_bytes: int | None = None
    """The bytes that the slowest peer does not have yet; None if its machine does not report them."""
    troubles: dict[str, str] = Field(default_factory=dict)
    """What is wrong with its copies, by peer."""
    under_replicated: bool = False
    """Whether fewer machines have everything than the setting `replicas` asks for."""
    stays: str = ""
    """Why it cannot leave a machine that drains or is lost, and what to do."""


class MachineAnswer(Answer):
    """A machine."""

    name: str
    alive: bool
    waits: str = ""
    """Why a process of this name waits to be admitted, and what to do; empty if none does."""
    key: str = ""
    """The public key of what waits, else that of the machine."""
    draining: bool = False
    """Whether it gives up all hosts that it carries, and takes none."""
    zone: str = ""
    """The failure zone; machines of one zone may be lost together."""
    shares_root_with: tuple[str, ...] = ()
    """The other machines with the same root, which need no copies of its hosts."""
    takes_copies: bool = False
    at: str = ""
    """The address, as host:port, at which it takes copies; empty if it takes none."""
    full: str = ""
    """Why copies leave it; empty if its disk has room for them."""
    cores: float | None = None
    share: float | None = None
    """Its part of the ring; None before it has a place there."""
    load: float | None = None
    """The cores that its hosts' jobs took in the last minute; None if none of them has reported."""
    tags: tuple[str, ...] = ()
    image: str = ""
    """The image that its hosts were made from; they offer the tags of that, too."""
    hosts: tuple[CarriedHostAnswer, ...] = ()
    """The hosts that it carries."""
    keeps: tuple[str, ...] = ()
    """The hosts of others that it has everything of."""


class ImageForm(Form):
    """An image: what each of its hosts offers, has and costs."""

    tags: Annotated[frozenset[HostTag], Field(max_length=MOST_TAGS)] = frozenset()
    cores: Annotated[float, Field(ge=LEAST_FIGURE, le=MOST_FIGURE)] = 1.0
    start: Annotated[float, Field(ge=0, le=MOST_FIGURE)] = 0.0
    """Seconds until a new host is there."""
    price: Annotated[float, Field(ge=0, le=MOST_FIGURE)] = 0.0
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
