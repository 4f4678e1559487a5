"""What hosts say, read: statuses, refusals, metrics and plans as they come over the broker, made records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from engine.plan import Plan, Port
from engine.supply import Bridged
from manager.observations.reports import HostSeen, JobSeen, Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWiring:
    """A plan as far as order matters: which version it is, and the streams between jobs that it reads and forwards."""

    term: int
    version: int
    host: str
    reads: frozenset[Port] = frozenset()
    forwards: frozenset[Port] = frozenset()

    @property
    def key(self) -> tuple[int, int]:
        """What tells a newer plan from an older one."""
        return self.term, self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMessage:
    """The status of a job; made by `read_status`."""

    seen: JobSeen
    unconfirmed: frozenset[Port]
    """The streams that it forwards, or has ended without its consumer having said that it knows."""
    run: int | None
    """Which start of it that is; None where its host cannot tell."""


@dataclass(slots=True, kw_only=True)
class _Failed:
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class _Cut:
    name: str
    instances: tuple[int, ...]
    positions: Mapping[str, int] = field(default_factory=dict)
    batch: int = -1


@dataclass(slots=True, kw_only=True)
class _Status:
    host: str
    state: str
    trouble: str = ""
    back_off: float | None = None
    run: int | None = None
    version: int = 0
    term: int = 0
    in_effect: int = 0
    batch: int = -1
    published: int = 0
    cuts: tuple[_Cut, ...] = ()
    given_up: frozenset[str] = frozenset()
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[int, _Failed] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _HostStatus:
    alive: bool
    jobs: tuple[str, ...] = ()
    spools: Mapping[str, str] = field(default_factory=dict)
    spool_bytes: int | None = None
    dropped: int = 0
    passed_over: Mapping[str, int] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    cores: float | None = None
    tags: frozenset[str] = frozenset()
    release: str = ""


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
_HOST_STATUS = TypeAdapter(_HostStatus)
_REFUSAL = TypeAdapter(_Refusal)
_METRICS = TypeAdapter(Measured)
_PLAN = TypeAdapter(_Plan)


def read_status(job: str, payload: bytes, now: datetime) -> StatusMessage:
    """The status of a job; raises ValueError where it is none."""
    told = _STATUS.validate_json(payload)
    seen = JobSeen(
        job=job,
        host=told.host,
        state=told.state,
        trouble=told.trouble,
        back_off=told.back_off,
        version=told.version,
        term=told.term,
        in_effect=told.in_effect,
        batch=told.batch,
        failed={instance: failed.reason for instance, failed in told.failed.items()},
        cuts=_passed(told.cuts),
        cut_positions=_positions(told.cuts),
        cut_batches={cut.name: max(each.batch for each in told.cuts if each.name == cut.name) for cut in told.cuts},
        published=told.published,
        given_up=told.given_up,
        seen=now,
    )
    return StatusMessage(seen=seen, unconfirmed=frozenset(map(_port, told.unconfirmed)), run=told.run)


def _passed(cuts: Iterable[_Cut]) -> dict[str, frozenset[int]]:
    # A cut passes the connected parts of a plan one by one.
    passed: dict[str, frozenset[int]] = {}
    for cut in cuts:
        passed[cut.name] = passed.get(cut.name, frozenset()).union(cut.instances)
    return passed


def _positions(cuts: Iterable[_Cut]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for cut in cuts:
        found.setdefault(cut.name, {}).update(cut.positions)
    return found


def read_host_status(host: str, payload: bytes, now: datetime) -> HostSeen:
    """The status of a host; raises ValueError where it is none."""
    told = _HOST_STATUS.validate_json(payload)
    return HostSeen(
        host=host,
        alive=told.alive,
        jobs=told.jobs,
        spools=told.spools,
        spool_bytes=told.spool_bytes,
        dropped=told.dropped,
        passed_over=told.passed_over,
        cpu=told.cpu,
        cores=told.cores,
        tags=told.tags,
        release=told.release,
        seen=now,
    )


def read_refusal(payload: bytes) -> str:
    """Why something was refused; raises ValueError where that is not said."""
    told = _REFUSAL.validate_json(payload)
    return told.why


def read_metrics(payload: bytes, now: float) -> Measured:
    """What a job has done by now; raises ValueError where that is not said."""
    return replace(_METRICS.validate_json(payload), at=now)


def read_wiring(payload: bytes) -> PlanWiring:
    """The wiring of a plan that somebody published; raises ValueError where it is none."""
    told = _PLAN.validate_json(payload)
    return PlanWiring(
        term=told.term,
        version=told.version,
        host=told.host,
        reads=frozenset(Port(each.instance, each.port) for each in told.ingress if each.supply.get("kind") == "bridge"),
        forwards=frozenset(Port(each.instance, each.port) for each in told.forwards),
    )


def wiring(plan: Plan) -> PlanWiring:
    """The wiring of a plan."""
    return PlanWiring(
        term=plan.term,
        version=plan.version,
        host=plan.host,
        reads=frozenset(each.origin for each in plan.ingress if isinstance(each.supply, Bridged)),
        forwards=frozenset(each.origin for each in plan.forwards),
    )


def _port(text: str) -> Port:
    instance, _, port = text.partition(":")
    return Port(int(instance), port)
