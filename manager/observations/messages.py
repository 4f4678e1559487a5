"""Messages of hosts, parsed into records: statuses, refusals, metrics and plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from engine.plan import Bridged, Plan, Port
from manager.observations.reports import HostSeen, JobReport, JobSeen, Measured, read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWiring:
    """A plan's version, and the streams between jobs that it reads and forwards."""

    term: int
    version: int
    host: str
    reads: frozenset[Port] = frozenset()
    forwards: frozenset[Port] = frozenset()

    @property
    def key(self) -> tuple[int, int]:
        """Orders plans from old to new."""
        return self.term, self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMessage:
    """The status of a job; made by `read_status`."""

    seen: JobSeen
    unconfirmed: frozenset[Port]
    """The streams that it forwards, or whose end its consumer has not confirmed."""
    run: int | None
    """The number of its starts, this one included; None if the host does not report it."""


@dataclass(slots=True, kw_only=True)
class _Failed:
    reason: str = ""
    retry: float = 0.0
    greedy: bool = False


@dataclass(slots=True, kw_only=True)
class _Cut:
    name: str
    instances: tuple[int, ...]
    positions: Mapping[str, int] = field(default_factory=dict)
    batch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status(JobReport):
    run: int | None = None
    cuts: tuple[_Cut, ...] = ()
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[int, _Failed] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Refusal:
    why: str


@dataclass(slots=True, kw_only=True)
class _Stream:
    instance: int
    port: str = "out"
    supply: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Plan:
    host: str
    version: int
    term: int = 1
    ingress: tuple[_Stream, ...] = ()
    forwards: tuple[_Stream, ...] = ()


_STATUS = TypeAdapter(_Status)
_HOST = TypeAdapter(HostSeen)
_REFUSAL = TypeAdapter(_Refusal)
_METRICS = TypeAdapter(Measured)
_PLAN = TypeAdapter(_Plan)
_REPORTED = tuple(part.name for part in fields(JobReport))


def read_status(job: str, payload: bytes, now: datetime) -> StatusMessage:
    """Parse the status of a job; raises ValueError."""
    status = _STATUS.validate_json(payload)
    passed: dict[str, frozenset[int]] = {}
    positions: dict[str, dict[str, int]] = {}
    batches: dict[str, int] = {}
    # A cut passes the connected parts of a plan one at a time.
    for cut in status.cuts:
        passed[cut.name] = passed.get(cut.name, frozenset()).union(cut.instances)
        positions.setdefault(cut.name, {}).update(cut.positions)
        batches[cut.name] = max(cut.batch, batches.get(cut.name, cut.batch))
    seen = JobSeen(
        **{name: getattr(status, name) for name in _REPORTED},
        job=job,
        failed={instance: failed.reason for instance, failed in status.failed.items()},
        stops={instance: failed.retry for instance, failed in status.failed.items() if failed.greedy},
        cuts=passed,
        cut_positions=positions,
        cut_batches=batches,
        seen=now,
    )
    return StatusMessage(seen=seen, unconfirmed=frozenset(map(_port, status.unconfirmed)), run=status.run)


def read_host_status(host: str, payload: bytes, now: datetime) -> HostSeen:
    """Parse the status of a host; raises ValueError."""
    return _HOST.validate_python({**read_object(payload), "host": host, "seen": now})


def read_refusal(payload: bytes) -> str:
    """Parse the reason for a refusal; raises ValueError."""
    return _REFUSAL.validate_json(payload).why


def read_metrics(payload: bytes, now: float) -> Measured:
    """Parse the counters of a job; raises ValueError."""
    return replace(_METRICS.validate_json(payload), at=now)


def read_wiring(payload: bytes) -> PlanWiring:
    """Parse the wiring of a published plan; raises ValueError."""
    plan = _PLAN.validate_json(payload)
    return PlanWiring(
        term=plan.term,
        version=plan.version,
        host=plan.host,
        reads=frozenset(Port(read.instance, read.port) for read in plan.ingress if read.supply.get("kind") == "bridge"),
        forwards=frozenset(Port(forward.instance, forward.port) for forward in plan.forwards),
    )


def wiring(plan: Plan) -> PlanWiring:
    """The wiring of a plan."""
    return PlanWiring(
        term=plan.term,
        version=plan.version,
        host=plan.host,
        reads=frozenset(ingress.origin for ingress in plan.ingress if isinstance(ingress.supply, Bridged)),
        forwards=frozenset(forward.origin for forward in plan.forwards),
    )


def _port(text: str) -> Port:
    instance, _, port = text.partition(":")
    return Port(int(instance), port)
