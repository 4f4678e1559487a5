# Generated from async_reconfigurations.py by `make client`: edit that file.
"""The part of a client that changes running dataflows: reconfigurations, and pipelines planned anew."""

from collections.abc import Iterator

from manager.answers import ReconfigurationAnswer, ReconfigurationForm, ReplanAnswer, ReplanForm
from manager.client.administration import AdministrationClient
from manager.client.requests import pipelines, reconfigurations


class ReconfigurationClient(AdministrationClient):
    """Changes the running dataflows of one service with one API key."""

    def reconfigure(self, dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False) -> ReconfigurationAnswer:
        """Change tasks of a dataflow while they run, with their states; or preview that."""
        return self.send(reconfigurations.reconfigure(dataflow, form, dry_run=dry_run))

    def reconfigurations(self, dataflow: str) -> Iterator[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        return self._items(reconfigurations.reconfigurations(dataflow))

    def reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return self.send(reconfigurations.reconfiguration(dataflow, number))

    def cancel_reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration, which is possible until its first task has switched."""
        return self.send(reconfigurations.cancellation(dataflow, number))

    def undo_reconfiguration(self, dataflow: str, number: str, *, dry_run: bool = False) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        return self.send(reconfigurations.undoing(dataflow, number, dry_run=dry_run))

    def replan(self, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew and apply the difference; or preview that."""
        return self.send(pipelines.replan(dataflow, form, dry_run=dry_run))
