"""The journal of operations, and live events."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from manager.answers.base import Answer


class OperationKind(StrEnum):
    """The kind of an operation."""

    SUBMIT = "submit"
    REMOVE = "remove"
    DRAIN = "drain"
    REPLACE = "replace"
    REGISTER = "register source"
    CHANGE_SOURCE = "change source"
    REVOKE = "revoke source"
    ADMIT = "admit tenant"
    QUOTA = "set quota"
    MAKE_KEY = "make key"
    REVOKE_KEY = "revoke key"
    CREDENTIALS = "make broker credentials"
    PUT_SECRET = "put secret"  # noqa: S105 - the name of an operation, not a password
    REMOVE_SECRET = "remove secret"  # noqa: S105 - as above
    DISCARD = "discard dead letters"
    REPLAY = "replay dead letters"
    RESTORE = "restore backup"
    MOVE = "move tasks"
    RESCALE = "rescale job"
    REPACE = "repace job"
    WOULD_REPACE = "would repace job"
    RECONFIGURE = "reconfigure"
    REPLAN = "replan"
    ADAPT = "adapt"
    SET_POLICY = "set policy"
    CHOOSE = "choose"
    PUBLISH = "publish module"
    DEPRECATE = "deprecate module"
    VOUCH = "vouch for module"
    WITHDRAW = "withdraw vouch"
    PUBLISHING = "set publishing"
    QUARANTINE = "quarantine tenant"
    BOUND_STATES = "bound states"
    PUT_WHEEL = "put wheel"
    REMOVE_WHEEL = "remove wheel"
    TAKE_OVER = "take over host"
    HAND_OVER = "hand over host"
    MACHINE_WAITS = "machine waits"
    ADMIT_MACHINE = "admit machine"
    DRAIN_MACHINE = "drain machine"
    UNDRAIN_MACHINE = "undrain machine"
    FORGET_MACHINE = "forget machine"
    BALANCE = "balance load"
    ADD_MACHINE = "add machine"
    WOULD_ADD_MACHINE = "would add machine"
    REMOVE_MACHINE = "remove machine"
    WOULD_REMOVE_MACHINE = "would remove machine"
    SCALING_FAILS = "scaling fails"
    PUT_IMAGE = "put image"
    REMOVE_IMAGE = "remove image"


class OperationAnswer(Answer):
    """One entry of the journal."""

    id: int
    at: datetime
    kind: OperationKind
    who: str
    """A tenant, "operator", or "the service" for what Braid does by itself."""
    subject: str
    """The dataflow, source, module, wheel, tenant, key, secret, host, machine or image."""
    started: int = 0
    reused: int = 0
    paused: int = 0
    jobs_started: tuple[str, ...] = ()
    jobs_stopped: tuple[str, ...] = ()
    seconds: float
    """The time that it took to commit; for a move, the time that it took in all."""
    note: str = ""
    """The reason and the result, if the other fields do not say them."""


class EventAnswer(Answer):
    """One event of the live stream: an operation, or a new state of a job or a dataflow."""

    id: int
    kind: Literal["operation", "job", "dataflow"]
    told: dict[str, Any]
