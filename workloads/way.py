"""Ways: how a trace is replayed, and by what name that is known in results, figures and messages."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from manager.process.settings import Placement

Mode: TypeAlias = Literal["default", "reuse"]
"""Whether nothing is shared, or all that can be."""
Defragment: TypeAlias = Literal["off", "itself", "step"]
"""Never, where the service decides it, or where one is asked for after each step."""
_PLACED: Mapping[Placement, str] = MappingProxyType({"launch": "", "graft": "-grafted", "pack": "-packed"})
_DEFRAGMENTED: Mapping[Defragment, str] = MappingProxyType(
    {"off": "", "step": "-defragmented", "itself": "-defragmented-by-itself"}
)


class Way(NamedTuple):
    """How a trace is replayed; several are compared with each other."""

    mode: Mode
    placement: Placement = "launch"
    defragment: Defragment = "off"

    @property
    def name(self) -> str:
        """What it is called.

        >>> Way("reuse").name, Way("default", "pack").name, Way("reuse", "launch", "step").name
        ('reuse', 'default-packed', 'reuse-defragmented')
        """
        return self.mode + _PLACED[self.placement] + _DEFRAGMENTED[self.defragment]

    @property
    def baseline(self) -> "Way":
        """With what it is compared: the same placement without sharing."""
        return Way("default", self.placement)


DEFAULT, REUSE = Way("default"), Way("reuse")
DEFRAGMENTED = Way("reuse", "launch", "step")
DEFAULT_PACKED, REUSE_PACKED = Way("default", "pack"), Way("reuse", "pack")
