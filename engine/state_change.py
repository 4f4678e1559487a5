"""The changes of an instance's state when a plan takes effect."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerTask:
    """The task that made a state."""

    type: str
    version: int = 1
    config: str = "{}"
    """As in a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The change of one instance's state, once, when the plan takes effect; made by the manager."""

    instance: int
    source: int | None = None
    """The instance of the same job with whose state and numbers it begins; None for its own."""
    former: FormerTask | None = None
    """The task that made the state, if that is transformed; None to take the state as it is."""
    fresh: bool = False
    """The state is dropped. The numbers of its ports go on all the same."""
