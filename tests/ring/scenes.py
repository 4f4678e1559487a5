"""Machines and carriages as tests of decisions need them, in few words."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ring.decision import decide
from ring.fleet import Carriage, CarriageTurn, Fleet, HostReport, MachineSeen
from ring.tokens import Ring

NAMES = ("a", "b", "c", "d")
NOW = 1_000.0
LONG_AGO = 0.0
POINTS = {name: place * 2**30 for place, name in enumerate(NAMES)}
"""The places of the machines, and of the hosts of their names."""


def machine(name: str, **facts: object) -> MachineSeen:
    """A machine that is there, on a disk of its own, and takes copies."""
    return replace(MachineSeen(name=name, alive=True, root=f"root-{name}", at=f"{name}:1"), **facts)  # type: ignore[arg-type]  # facts are its fields


def carriage(
    host: str = "a", at: str = "", peers: Collection[str] = (), kept_by: Collection[str] = (), **facts: object
) -> Carriage:
    """A host at a machine, with peers on the disks that their machines have by default; at home where it is named."""
    made = Carriage(
        host=host,
        point=POINTS.get(host, 2**31 + 1),
        machine=at or host,
        root=f"root-{at or host}",
        peers=tuple(peers),
        roots=tuple(f"root-{name}" for name in peers),
        kept_by=frozenset(kept_by),
        version=7,
        term=3,
    )
    return replace(made, **facts)  # type: ignore[arg-type]  # facts are its fields


def reporting(one: Carriage, **facts: object) -> dict[str, HostReport]:
    """What its carrier reports about a host, on its version."""
    return {one.host: replace(HostReport(version=one.version), **facts)}  # type: ignore[arg-type]  # facts are its fields


@dataclass
class Scene:
    """Machines a, b, c and d in this order on the ring, and what is committed about hosts."""

    carriages: dict[str, Carriage] = field(default_factory=dict)
    machines: dict[str, MachineSeen] = field(default_factory=lambda: {name: machine(name) for name in NAMES})
    ring: Ring = field(default_factory=lambda: Ring(POINTS))
    replicas: int = 1
    draining: set[str] = field(default_factory=set)
    lost_since: dict[str, float] = field(default_factory=dict)
    alive_since: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, *carriages: Carriage, **facts: object) -> "Scene":
        """A scene in which these hosts are carried."""
        made = cls(**facts)  # type: ignore[arg-type]  # facts are its fields
        made.carriages = {one.host: one for one in carriages}
        return made

    def lose(self, *names: str, since: float = LONG_AGO) -> None:
        for name in names:
            self.machines[name] = replace(self.machines[name], alive=False)
            self.lost_since[name] = since

    def report(self, one: Carriage, **facts: object) -> None:
        at = self.machines[one.machine]
        self.machines[one.machine] = replace(at, hosts={**at.hosts, **reporting(one, **facts)})

    def fleet(self) -> Fleet:
        return Fleet(
            machines=self.machines,
            ring=self.ring,
            replicas=self.replicas,
            draining=frozenset(self.draining),
            now=NOW,
            lost_since=self.lost_since,
            alive_since=self.alive_since,
        )

    def decided(self) -> tuple[CarriageTurn, ...]:
        return decide(self.carriages, self.fleet())

    def turn(self, host: str = "a") -> Carriage | None:
        """What becomes of a host, if anything."""
        return next((turn.carriage for turn in self.decided() if turn.carriage.host == host), None)

    def next(self, host: str = "a") -> Carriage:
        """What becomes of a host, which changes."""
        turn = self.turn(host)
        assert turn is not None
        return turn

    def settle(self) -> list[CarriageTurn]:
        """All that is decided in a row on what is seen, while carriers report nothing new."""
        turns: list[CarriageTurn] = []
        while step := self.decided():
            assert len(turns) < 200, f"nothing settles: {[turn.why for turn in turns[-6:]]}"
            self.carriages |= {turn.carriage.host: turn.carriage for turn in step}
            turns += step
        return turns
