# Generated from async_client.py by `make client`: edit that file.
"""A client of the service: a method for each request of `manager.client.requests`."""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime

from manager.answers import (
    BillAnswer,
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DeadLetterAnswer,
    DeadLetterGroupAnswer,
    DefragmentationPreviewAnswer,
    Discarded,
    EventAnswer,
    ExplainAnswer,
    FragmentationAnswer,
    HostAnswer,
    JobAnswer,
    MoveAnswer,
    OperationAnswer,
    OperationKind,
    OutputEvent,
    OverviewAnswer,
    ProducerAnswer,
    ReconfigurationAnswer,
    ReconfigurationForm,
    RemovalAnswer,
    Replayed,
    RunningDagAnswer,
    RunningTaskAnswer,
    SavingsAnswer,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SeriesAnswer,
    SourceAnswer,
    SourceForm,
    Start,
    Stop,
    Stopped,
    StreamAnswer,
    SubmitAnswer,
    TaskTypeAnswer,
    VisibilityForm,
)
from manager.client.administration import AdministrationClient
from manager.client.event_stream import EventStreamReader
from manager.client.machines import MachineClient
from manager.client.output_stream import OutputStreamReader
from manager.client.planning import PlanningClient
from manager.client.requests import (
    dataflows,
    dead_letters,
    jobs,
    reconfigurations,
    reports,
    sources,
)
from manager.client.requests.request import Document


class Client(AdministrationClient, MachineClient, PlanningClient):
    """Asks one service with one API key; close it, or use it as a context manager."""

    def submit(
        self,
        document: Document,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document, once even if it has to be sent again; operators name the tenant."""
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(dataflows.submit(document, tenant=tenant, idempotency_key=key, start=start))

    def submit_together(
        self,
        documents: Sequence[Document],
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> BundleAnswer:
        """Submit all documents or none, planned so that they share most; once even if they have to be sent again."""
        key = idempotency_key or secrets.token_urlsafe()
        request = dataflows.submit_together(documents, tenant=tenant, idempotency_key=key, start=start)
        return self.send(request)

    def explain_together(
        self, documents: Sequence[Document], *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        """Preview what submitting documents together would reuse, start and save."""
        return self.send(dataflows.explain_together(documents, tenant=tenant, start=start))

    def replace(self, dataflow: str, document: Document) -> SubmitAnswer:
        """Replace a dataflow's document by an edited one, as one change."""
        return self.send(dataflows.replacement(dataflow, document))

    def remove(self, dataflow: str, how: Stop = Stop.NOW) -> DataflowAnswer:
        """Remove a dataflow."""
        return self.send(dataflows.removal(dataflow, how))

    def preview_removal(self, dataflow: str) -> RemovalAnswer:
        """Preview a removal: the tasks that it would stop, and those that others keep."""
        return self.send(dataflows.preview_removal(dataflow))

    def reconfigure(
        self, dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Change tasks of a dataflow while they run, with their states, once even if sent again; or preview that.

        If others are in its way its state is `waiting`, and it begins by itself.
        """
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(reconfigurations.reconfigure(dataflow, form, dry_run=dry_run, idempotency_key=key))

    def reconfigurations(self, dataflow: str) -> Iterator[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        return self._items(reconfigurations.reconfigurations(dataflow))

    def reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return self.send(reconfigurations.reconfiguration(dataflow, number))

    def cancel_reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration that waits or prepares; once its first task has switched it is too late."""
        return self.send(reconfigurations.cancellation(dataflow, number))

    def undo_reconfiguration(
        self, dataflow: str, number: str, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(reconfigurations.undoing(dataflow, number, dry_run=dry_run, idempotency_key=key))

    def explain(self, document: Document, *, tenant: str | None = None, start: Start = Start.LATEST) -> ExplainAnswer:
        """Preview a submission: what it would reuse, start and save."""
        return self.send(dataflows.explain(document, tenant=tenant, start=start))

    def dataflow(self, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        return self.send(dataflows.dataflow(dataflow))

    def dataflows(
        self,
        *,
        tenant: str | None = None,
        state: DataflowState | None = None,
        name: str | None = None,
        source: str | None = None,
        search: str | None = None,
    ) -> Iterator[DataflowAnswer]:
        """The caller's dataflows, oldest first."""
        return self._items(dataflows.dataflows(tenant=tenant, state=state, name=name, source=source, search=search))

    def register_source(self, form: SourceForm | bytes) -> SourceAnswer:
        """Register a source; bytes, such as those of a file, are sent as they are."""
        return self.send(sources.register_source(form))

    def sources(self) -> Iterator[SourceAnswer]:
        """The sources that the caller may read."""
        return self._items(sources.sources())

    def source(self, name: str) -> SourceAnswer:
        """One source."""
        return self.send(sources.source(name))

    def task_types(self, *, name: str | None = None) -> Iterator[TaskTypeAnswer]:
        """The installed task types, or the one of that name, which may be in a namespace."""
        return self._items(dataflows.task_types(name))

    def send_events(self, source: str, events: bytes, producer: str | None = None, first: int = 0) -> SentAnswer:
        """Send events as JSON lines, once even if they have to be sent again; without a producer all are new."""
        name = producer or f"{sources.ONE_TIME_PREFIX}{secrets.token_hex(8)}"
        return self.send(sources.send_events(source, events, producer=name, first=first))

    def producer(self, source: str, producer: str) -> ProducerAnswer:
        """The number of a producer's next event in a source."""
        return self.send(sources.producer(source, producer))

    def set_visibility(self, name: str, form: VisibilityForm) -> Stopped:
        """Set who may read a source; the answer counts the dataflows that this stopped."""
        return self.send(sources.set_visibility(name, form))

    def declare_fields(self, name: str, form: SchemaForm, *, dry_run: bool = False) -> SchemaAnswer:
        """Change the schema of a source; running dataflows keep the one that they were submitted with."""
        return self.send(sources.declare_fields(name, form, dry_run=dry_run))

    def revoke_source(self, name: str) -> Stopped:
        """Revoke a source; the answer counts the dataflows that this stopped."""
        return self.send(sources.revoke_source(name))

    def running_tasks(self, *, job: str | None = None) -> Iterator[RunningTaskAnswer]:
        """The running graph, or one job's part of it, by instance; operators only."""
        return self._items(jobs.running_tasks(job))

    def running_dags(self) -> Iterator[RunningDagAnswer]:
        """The running DAGs; operators only."""
        return self._items(jobs.running_dags())

    def jobs(self) -> Iterator[JobAnswer]:
        """The jobs; operators only."""
        return self._items(jobs.jobs())

    def job(self, name: str) -> JobAnswer:
        """One job; operators only."""
        return self.send(jobs.job(name))

    def streams(self) -> Iterator[StreamAnswer]:
        """The derived streams that cross jobs; operators only."""
        return self._items(jobs.streams())

    def hosts(self) -> Iterator[HostAnswer]:
        """The hosts; operators only."""
        return self._items(jobs.hosts())

    def overview(self) -> OverviewAnswer:
        """Counts of dataflows, tasks and jobs by state: of all tenants for an operator, its own for a tenant."""
        return self.send(jobs.overview())

    def fragmentation(self) -> FragmentationAnswer:
        """The fragmentation of the jobs; operators only."""
        return self.send(jobs.fragmentation())

    def preview_defragmentation(self) -> DefragmentationPreviewAnswer:
        """What `defragment` would do now; nothing is moved; operators only."""
        return self.send(jobs.preview_defragmentation())

    def defragment(self) -> MoveAnswer:
        """Consolidate the jobs now, or relieve an overloaded one; the journal has the outcome; operators only."""
        return self.send(jobs.defragment())

    def savings(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """The savings by sharing in an interval, by default the last hour; a tenant sees its own."""
        return self.send(reports.savings(since=since, until=until, tenant=tenant, dataflow=dataflow))

    def savings_series(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """The savings by sharing in each step of an interval, by default the last hour; `step` is in seconds."""
        return self.send(reports.savings_series(since=since, until=until, step=step, tenant=tenant))

    def bill(
        self, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """The costs of each tenant and dataflow in whole hours, by default this month so far."""
        return self.send(reports.bill(since=since, until=until, tenant=tenant))

    def operations(self, *, kind: OperationKind | None = None, subject: str | None = None) -> Iterator[OperationAnswer]:
        """The journal, newest first."""
        return self._items(reports.operations(kind=kind, subject=subject))

    def dead_letters(self, *, dataflow: str | None = None) -> Iterator[DeadLetterAnswer]:
        """The events that tasks of the caller's dataflows could not process, newest first."""
        return self._items(dead_letters.dead_letters(dataflow=dataflow))

    def dead_letter_groups(self, *, dataflow: str | None = None) -> Iterator[DeadLetterGroupAnswer]:
        """The same by task and reason, the group with the newest first."""
        return self._items(dead_letters.dead_letter_groups(dataflow=dataflow))

    def replay_dead_letter(self, letter: int, *, alike: bool = False) -> Replayed:
        """Replay one dead letter or its whole group, once; only operators may if others use its task too."""
        return self.send(dead_letters.replay_dead_letter(letter, alike=alike))

    def replay_dead_letters(self, dataflow: str) -> Replayed:
        """Replay the dead letters of a dataflow, oldest first; `left` counts those that remain."""
        return self.send(dead_letters.replay_dead_letters(dataflow))

    def discard_dead_letter(self, letter: int, *, alike: bool = False) -> Discarded:
        """Discard one dead letter or its whole group: a tenant for itself, an operator for everyone."""
        return self.send(dead_letters.discard_dead_letter(letter, alike=alike))

    def discard_dead_letters(self, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, even a removed one; an operator does so for everyone."""
        return self.send(dead_letters.discard_dead_letters(dataflow))

    def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> Iterator[OutputEvent]:
        """Follow all outputs of a dataflow or one, without end, from the last so many past events, as far as kept."""
        return self._stream(OutputStreamReader(self.url, dataflow, sink, last))

    def events(self) -> Iterator[EventAnswer]:
        """Follow what happens from now on, without end."""
        return self._stream(EventStreamReader(self.url))
