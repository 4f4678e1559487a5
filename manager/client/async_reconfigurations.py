"""The part of a client that changes running dataflows: reconfigurations, and pipelines planned anew."""

from collections.abc import AsyncIterator

from manager.answers import ReconfigurationAnswer, ReconfigurationForm, ReplanAnswer, ReplanForm
from manager.client.async_administration import AsyncAdministrationClient
from manager.client.requests import pipelines, reconfigurations


class AsyncReconfigurationClient(AsyncAdministrationClient):
    """Changes the running dataflows of one service with one API key."""

    async def reconfigure(
        self, dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False
    ) -> ReconfigurationAnswer:
        """Change tasks of a dataflow while they run, with their states; or preview that."""
        return await self.send(reconfigurations.reconfigure(dataflow, form, dry_run=dry_run))

    def reconfigurations(self, dataflow: str) -> AsyncIterator[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        return self._items(reconfigurations.reconfigurations(dataflow))

    async def reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return await self.send(reconfigurations.reconfiguration(dataflow, number))

    async def cancel_reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration, which is possible until its first task has switched."""
        return await self.send(reconfigurations.cancellation(dataflow, number))

    async def undo_reconfiguration(self, dataflow: str, number: str, *, dry_run: bool = False) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        return await self.send(reconfigurations.undoing(dataflow, number, dry_run=dry_run))

    async def replan(self, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew and apply the difference; or preview that."""
        return await self.send(pipelines.replan(dataflow, form, dry_run=dry_run))
