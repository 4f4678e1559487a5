"""Ways to replay a trace, and their names in results, figures and messages."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from manager.settings import Placement

Mode: TypeAlias = Literal["default", "reuse"]
"""Nothing is shared, or everything that can be."""
Defragment: TypeAlias = Literal["off", "itself", "step"]
"""Never, when the service decides, or on request after each step."""
_PLACED: Mapping[Placement, str] = MappingProxyType(
    {"launch": "", "graft": "-grafted", "pack": "-packed", "plan": "-planned"}
)
_DEFRAGMENTED: Mapping[Defragment, str] = MappingProxyType(
    {"off": "", "step": "-defragmented", "itself": "-defragmented-by-itself"}
)


class Way(NamedTuple):
    """A mode, a placement and a way of defragmentation, compared with other ways on the same trace."""

    mode: Mode
    placement: Placement = "launch"
    defragment: Defragment = "off"

    @property
    def name(self) -> str:
        """The name in results, figures and messages.

        >>> Way("reuse").name, Way("default", "pack").name, Way("reuse", "launch", "step").name
        ('reuse', 'default-packed', 'reuse-defragmented')
        >>> Way("reuse", "plan").name
        'reuse-planned'
        """
        return self.mode + _PLACED[self.placement] + _DEFRAGMENTED[self.defragment]

    @property
    def baseline(self) -> "Way":
        """The way that this one is compared with: the same placement without sharing."""
        return Way("default", self.placement)


DEFAULT, REUSE = Way("default"), Way("reuse")
DEFRAGMENTED = Way("reuse", "launch", "step")
DEFAULT_PACKED, REUSE_PACKED = Way("default", "pack"), Way("reuse", "pack")
