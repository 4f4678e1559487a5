"""The supply of machines: what starts and stops those that the service adds by itself."""

from typing import Protocol


class SupplyFailed(RuntimeError):
    """A machine could not be started or stopped; says why, and where more is said."""


class MachineSupply(Protocol):
    """Starts and stops machines by name; one thread's. All of it is idempotent, and raises `SupplyFailed`."""

    def start(self, machine: str, why: str) -> None:
        """Have a machine that should run."""

    def stop(self, machine: str, why: str) -> None:
        """Have a machine no more, which carries nothing any more."""

    def end(self) -> None:
        """Stop what cannot run without this service, because it ends in order."""
