"""A finding of the doctor: what was checked, the outcome, and the remedy."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class FindingState(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


class Finding(BaseModel):
    """The finding of one check."""

    model_config = ConfigDict(frozen=True)

    what: str
    state: FindingState
    told: str
    remedy: str = ""


def ok(what: str, found: str) -> Finding:
    """Nothing is wrong."""
    return Finding(what=what, state=FindingState.OK, told=found)


def warn(what: str, found: str, remedy: str) -> Finding:
    """Braid runs, but something should be seen to."""
    return Finding(what=what, state=FindingState.WARN, told=found, remedy=remedy)


def wrong(what: str, found: str, remedy: str) -> Finding:
    """Braid cannot run so."""
    return Finding(what=what, state=FindingState.WRONG, told=found, remedy=remedy)
