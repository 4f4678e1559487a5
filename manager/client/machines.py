# Generated from async_machines.py by `make client`: edit that file.
"""The part of a client that is about machines, the hosts that they carry, and the images of these."""

from collections.abc import Iterator

from manager.answers import (
    ImageAnswer,
    ImageForm,
    MachineAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
)
from manager.client.connection import ServiceConnection
from manager.client.requests import machines


class MachineClient(ServiceConnection):
    """Sees to the machines of one service with one API key."""

    def machines(self) -> Iterator[MachineAnswer]:
        """The machines with the hosts that they carry; operators only."""
        return self._items(machines.machines())

    def admit_machine(self, name: str, *, key: str | None = None) -> MachineAnswer:
        """Admit a machine that waits, if it has this public key; operators only."""
        return self.send(machines.admit_machine(name, key))

    def drain_machine(self, name: str) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; operators only."""
        return self.send(machines.drain_machine(name))

    def undrain_machine(self, name: str) -> MachineAnswer:
        """Let a machine take hosts again; operators only."""
        return self.send(machines.undrain_machine(name))

    def forget_machine(self, name: str) -> MachineAnswer:
        """Forget a machine that is gone for good; operators only. The machine as it was."""
        return self.send(machines.forget_machine(name))

    def images(self) -> Iterator[ImageAnswer]:
        """The registered images with their hosts; operators only."""
        return self._items(machines.images())

    def put_image(self, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; operators only."""
        return self.send(machines.put_image(name, form))

    def remove_image(self, name: str) -> ImageAnswer:
        """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
        return self.send(machines.remove_image(name))

    def explain_placement(self, dataflow: str, *, task: str | None = None) -> PlacementAnswer:
        """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

        For one task that only this dataflow uses, also where else it could be.
        """
        return self.send(machines.explain_placement(dataflow, task))

    def export_placement(self, dataflow: str) -> PlacementPddlAnswer:
        """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
        return self.send(machines.export_placement(dataflow))

    def check_placement_plan(self, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
        return self.send(machines.check_placement_plan(dataflow, form))
