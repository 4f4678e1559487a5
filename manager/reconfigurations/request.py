"""What is asked for of a reconfiguration, also as it is written down; and whom it waits for. Pure."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from dags.vocabulary import Scheduler
from manager.kernel.transitions import MEETINGS, Comer, Phase, Reconfiguration, Resolution, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationRequest:
    """The wish to reconfigure some dataflows: by patches of tasks, or by one whole document for each."""

    dataflows: tuple[str, ...]
    patches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each task its JSON merge patch (RFC 7396)."""
    documents: Mapping[str, str] = field(default_factory=dict)
    """Whole documents, by dataflow; instead of patches."""
    fresh: frozenset[str] = frozenset()
    """The tasks that begin without state."""
    undoes: int | None = None
    scheduler: Scheduler = Scheduler.FRIES
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The tasks that may switch before or after the others, by dataflow."""
    lenient: bool = False
    """Whether states of which nobody knows what becomes are dropped."""
    revisions: Mapping[str, int] = field(default_factory=dict)
    """The revisions that dataflows must still have, because what is wanted was made from these."""

    def written(self) -> str:
        """Return the request as text, for `read_request`."""
        # Infinities too: JSON libraries that leave them out would make another patch of it.
        return json.dumps({part.name: getattr(self, part.name) for part in fields(self)}, default=_plain)


def read_request(text: str) -> ReconfigurationRequest:
    """The request that was written down."""
    values: dict[str, Any] = json.loads(text)
    return ReconfigurationRequest(
        **values
        | {
            "dataflows": tuple(values["dataflows"]),
            "fresh": frozenset(values["fresh"]),
            "scheduler": Scheduler(values["scheduler"]),
            "apart": {dataflow: frozenset(tasks) for dataflow, tasks in values["apart"].items()},
        }
    )


def _plain(value: Any) -> object:
    return dict(value) if isinstance(value, Mapping) else sorted(value)


class RequestKey(NamedTuple):
    """The idempotency key of a request."""

    tenant: str
    key: str
    """As it was sent."""
    digest: str
    """Of what was sent with it."""

    @property
    def stored(self) -> str:
        """The key as it is kept beside those of submissions. No key that somebody sends has a space."""
        return f"{self.key} reconfiguration"


def request_key(tenant: str, key: str | None, *sent: object) -> RequestKey | None:
    """The key under which something is sent, if there is one."""
    if key is None:
        return None
    return RequestKey(tenant, key, hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReconfiguration:
    """A request as it was made: by whom, and what may become of it."""

    request: ReconfigurationRequest
    who: str
    key: RequestKey | None = None
    comer: Comer = Comer.RECONFIGURATION
    begun: float = field(default_factory=time.monotonic)
    """When it came, by the monotonic clock."""
    waited: int | None = None
    """Its number, if it has waited."""
    waits: bool = True
    """Whether it waits for what is in its way; else it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The place of a reconfiguration that waits."""

    place: int
    """1 if none that waits goes before it."""
    behind: tuple[Reconfiguration, ...]
    """The reconfigurations that it waits for, directly or because one of these does, in the order of the requests."""
    behind_moves: bool
    """Whether tasks that are being moved are in the way as well."""


def ahead(waiting: Reconfiguration, under_way: Iterable[Transition]) -> tuple[Transition, ...]:
    """The transitions that one that waits may have to wait for: all but those that wait since later."""
    return tuple(transition for transition in under_way if not _is_behind(transition, waiting))


def in_the_way(waiting: Reconfiguration, under_way: Iterable[Transition]) -> tuple[Transition, ...]:
    """The transitions that one that waits does wait for."""
    return tuple(
        transition
        for transition in ahead(waiting, under_way)
        if MEETINGS[Comer.RECONFIGURATION, transition.kind][transition.phase] is Resolution.WAIT
        and transition.scope.meets(waiting.scope)
    )


def queue_place(waiting: Reconfiguration, under_way: Iterable[Transition]) -> QueuePlace:
    """The place of one that waits among all that are under way."""
    every = tuple(under_way)
    behind: dict[int, Reconfiguration] = {}
    behind_moves = False
    ends = [waiting]
    while ends:
        for transition in in_the_way(ends.pop(), every):
            if not isinstance(transition, Reconfiguration):
                behind_moves = True
            elif transition.id not in behind:
                behind[transition.id] = transition
                if transition.phase is Phase.WAITING:
                    ends.append(transition)
    return QueuePlace(
        place=1 + sum(transition.phase is Phase.WAITING for transition in behind.values()),
        behind=tuple(behind[number] for number in sorted(behind)),
        behind_moves=behind_moves,
    )


def _is_behind(other: Transition, waiting: Reconfiguration) -> bool:
    return isinstance(other, Reconfiguration) and other.phase is Phase.WAITING and other.id >= waiting.id
