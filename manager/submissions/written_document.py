"""Written documents: what a tenant wrote, where the document that runs was made of it."""

from dataclasses import dataclass
from enum import StrEnum


class WrittenKind(StrEnum):
    """How the document that runs was made."""

    PIPELINE = "pipeline"
    """Planned, since it has open places."""
    DYNAMIC = "dynamic"
    """Resolved, since it has alternates, guarded streams or a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDocument:
    """A document that does not run as it was written; made where one is planned or resolved."""

    kind: WrittenKind
    written: bytes
