"""The part of a client that is about machines, the hosts that they carry, and the images of these."""

from collections.abc import AsyncIterator

from manager.answers import (
    ImageAnswer,
    ImageForm,
    MachineAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
)
from manager.client.async_connection import AsyncServiceConnection
from manager.client.requests import machines


class AsyncMachineClient(AsyncServiceConnection):
    """Sees to the machines of one service with one API key."""

    def machines(self) -> AsyncIterator[MachineAnswer]:
        """The machines with the hosts that they carry; operators only."""
        return self._items(machines.machines())

    async def admit_machine(self, name: str, *, key: str | None = None) -> MachineAnswer:
        """Admit a machine that waits, if it has this public key; operators only."""
        return await self.send(machines.admit_machine(name, key))

    async def drain_machine(self, name: str) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; operators only."""
        return await self.send(machines.drain_machine(name))

    async def undrain_machine(self, name: str) -> MachineAnswer:
        """Let a machine take hosts again; operators only."""
        return await self.send(machines.undrain_machine(name))

    async def forget_machine(self, name: str) -> MachineAnswer:
        """Forget a machine that is gone for good; operators only. The machine as it was."""
        return await self.send(machines.forget_machine(name))

    def images(self) -> AsyncIterator[ImageAnswer]:
        """The registered images with their hosts; operators only."""
        return self._items(machines.images())

    async def put_image(self, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; operators only."""
        return await self.send(machines.put_image(name, form))

    async def remove_image(self, name: str) -> ImageAnswer:
        """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
        return await self.send(machines.remove_image(name))

    async def explain_placement(self, dataflow: str, *, task: str | None = None) -> PlacementAnswer:
        """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

        For one task that only this dataflow uses, also where else it could be.
        """
        return await self.send(machines.explain_placement(dataflow, task))

    async def export_placement(self, dataflow: str) -> PlacementPddlAnswer:
        """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
        return await self.send(machines.export_placement(dataflow))

    async def check_placement_plan(self, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
        return await self.send(machines.check_placement_plan(dataflow, form))
