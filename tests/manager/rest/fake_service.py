"""A service in plain dictionaries, which knows tenants, keys and roles, and runs nothing."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from prometheus_client import Metric as Family

from braid_client.answers.base import Page
from braid_client.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DataflowTasksAnswer,
    ExplainAnswer,
    RemovalAnswer,
    Saving,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
    TaskFiguresAnswer,
    TaskState,
)
from braid_client.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from braid_client.answers.jobs import (
    DefragmentationPreviewAnswer,
    FragmentationAnswer,
    HostAnswer,
    ImageAnswer,
    ImageForm,
    JobAnswer,
    MachineAnswer,
    MoveAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
    RunningDagAnswer,
    RunningTaskAnswer,
    StreamAnswer,
)
from braid_client.answers.machines import MachineClassAnswer, MachineClassForm, RentalAnswer
from braid_client.answers.overview import OperationAnswer, OperationKind, OverviewAnswer
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from braid_client.answers.savings import BillAnswer, SavingsAnswer, SeriesAnswer
from braid_client.answers.series import HistoryAnswer, HistoryRange
from braid_client.answers.sources import (
    ProposalAnswer,
    ProposalForm,
    SchemaAnswer,
    SchemaForm,
    SourceAnswer,
    SourceForm,
    Stopped,
    VisibilityForm,
)
from braid_client.answers.tenants import (
    BrokerCredentials,
    BrokerLogin,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    Quota,
    QuotaUse,
    Role,
    SecretAnswer,
    SecretForm,
    TenantAnswer,
    TenantForm,
)
from braid_client.answers.trials import TaskEvents, TrialAnswer
from bridge import topics
from dags import InvalidDocument
from dags.document import read
from engine.log_lines import note
from manager.adaptation.use_cases import Adaptations
from manager.dataflows.port_events import PortEvents
from manager.dataflows.use_cases import Bundles, Dataflows
from manager.documents.canonical import documents_in
from manager.documents.revisions import Tags
from manager.jobs.placements import Placements
from manager.jobs.use_cases import RunningJobs
from manager.machines.use_cases import Images, MachineClasses, Machines, Rentals
from manager.moves.use_cases import Defragmentation
from manager.outputs.dead_letters import DeadLetters
from manager.outputs.readers import OutputLook, OutputWatcher, Tail
from manager.overview.audit import Audit
from manager.overview.use_cases import Metrics, Operations, Overview, TaskTypes
from manager.pipelines.modules import Modules, Wheels
from manager.pipelines.use_cases import Pipelines
from manager.problem import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidDataflow,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    Unauthenticated,
)
from manager.reconfigurations.use_cases import Reconfigurations
from manager.rest.examples import example
from manager.savings.use_cases import Bills, Savings
from manager.series.use_cases import Histories
from manager.service import Service
from manager.sources.use_cases import SourceEvents, Sources
from manager.sources.webhooks import Webhooks
from manager.tenants.secrets import Secrets
from manager.tenants.use_cases import Administration, Sessions, matches, new_key, parse_key
from manager.trials.use_cases import Trials, trial_request
from manager.use_case import Caller, Paging, Tools

T = TypeVar("T")
THEN = datetime(2026, 1, 2, tzinfo=UTC)
_NO_TOOLS = cast("Tools", SimpleNamespace(store=None, committer=None, changes=None, seeing=None))
"""Nobody asks a fake for sessions, plans, adaptations, modules, wheels or task types, or sends it events."""


class FakeService:
    """One operator, and the tenants ann and bob, in dictionaries that tests may look at."""

    def __init__(self) -> None:
        self.leads = True
        self.hashes: dict[str, str] = {}
        self.known_keys: dict[str, KeyAnswer] = {}
        self.known_secrets: dict[tuple[str, str], SecretAnswer] = {}
        self.known_tenants = {name: _tenant(name, Quota()) for name in ("ann", "bob")}
        self.known_sources: dict[str, SourceAnswer] = {}
        self.submitted: dict[str, DataflowDetail] = {}
        self.idempotent: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.seen: list[tuple[str | None, bytes]] = []
        """Of each submission the idempotency key and the document."""
        self.journal: list[OperationAnswer] = []
        self.parked: list[DeadLetterAnswer] = []
        self.operator = self.new_key(None).key
        self.ann = self.new_key("ann").key
        self.bob = self.new_key("bob").key
        self.outputs: OutputWatcher | None = None
        self.use_cases = Service(
            adaptations=Adaptations(_NO_TOOLS),
            administration=_FakeAdministration(self),
            audit=Audit(_NO_TOOLS),
            bundles=_FakeBundles(self),
            bills=_FakeBills(self),
            dataflows=_FakeDataflows(self),
            dead_letters=_FakeDeadLetters(self),
            defragmentation=_FakeDefragmentation(self),
            histories=_FakeHistories(self),
            images=_FakeImages(self),
            placements=_FakePlacements(self),
            port_events=_FakePortEvents(self),
            rentals=_FakeRentals(self),
            machine_classes=_FakeMachineClasses(self),
            machines=_FakeMachines(self),
            metrics=_FakeMetrics(self),
            modules=Modules(_NO_TOOLS),
            operations=_FakeOperations(self),
            overview=_FakeOverview(self),
            pipelines=Pipelines(_NO_TOOLS),
            reconfigurations=_FakeReconfigurations(self),
            running=_FakeRunningJobs(self),
            savings=_FakeSavings(self),
            secrets=_FakeSecrets(self),
            sources=_FakeSources(self),
            sessions=Sessions(_NO_TOOLS),
            source_events=SourceEvents(_NO_TOOLS),
            task_types=TaskTypes(_NO_TOOLS),
            trials=_FakeTrials(self),
            webhooks=Webhooks(_NO_TOOLS),
            wheels=Wheels(_NO_TOOLS),
        )

    def new_key(self, tenant: str | None, note: str = "") -> NewKeyAnswer:
        made = new_key()
        role = Role.OPERATOR if tenant is None else Role.TENANT
        self.hashes[made.id] = made.hash
        self.known_keys[made.id] = KeyAnswer(
            id=made.id, role=role, tenant=tenant, note=note, created=THEN, revoked=None
        )
        return NewKeyAnswer(**dict(self.known_keys[made.id]), key=made.text)

    def tenant_for(self, caller: Caller, tenant: str | None) -> str:
        if caller.tenant is not None and tenant not in {None, caller.tenant}:
            raise NotFound("tenant", tenant or "")
        owner = caller.tenant or tenant
        if owner is None:
            problem = FieldError(pointer="/query/tenant", code="missing", message="for whom?", remedy="say for whom")
            raise InvalidRequest([problem])
        if owner not in self.known_tenants:
            raise NotFound("tenant", owner)
        return owner

    def own(self, caller: Caller, dataflow: str) -> DataflowDetail:
        if dataflow not in self.submitted or caller.tenant not in {None, self.submitted[dataflow].tenant}:
            raise NotFound("dataflow", dataflow)
        return self.submitted[dataflow]

    def submitted_answer(self, name: str) -> SubmitAnswer:
        detail = self.submitted[name]
        return SubmitAnswer(**dict(_short(detail)), reused=(), started=detail.tasks)

    def note(self, kind: OperationKind, caller: Caller, subject: str) -> None:
        number = len(self.journal) + 1
        who = caller.tenant or "operator"
        self.journal.append(OperationAnswer(id=number, at=THEN, kind=kind, who=who, subject=subject, seconds=0.0))


class _FakeAdministration(Administration):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def caller(self, sent: str) -> Caller:
        return self.holder(sent)

    def holder(self, key: str) -> Caller:
        parsed = parse_key(key)
        if parsed is None or not matches(parsed[1], self._fake.hashes.get(parsed[0], "")):
            raise Unauthenticated
        known = self._fake.known_keys[parsed[0]]
        if known.revoked is not None:
            raise Unauthenticated
        return Caller(key=known.id, role=known.role, tenant=known.tenant)

    def admit(self, caller: Caller, form: TenantForm) -> TenantAnswer:
        _operators_only(caller)
        if form.name in self._fake.known_tenants:
            raise Conflict("there is such a tenant already; choose another name")
        self._fake.known_tenants[form.name] = _tenant(form.name, form.quota)
        return self._fake.known_tenants[form.name]

    def tenants(self, caller: Caller, paging: Paging) -> Page[TenantAnswer]:
        return _paged(
            [each for each in self._fake.known_tenants.values() if caller.tenant in {None, each.name}], paging
        )

    def set_quota(self, caller: Caller, tenant: str, quota: Quota) -> TenantAnswer:
        _operators_only(caller)
        if tenant not in self._fake.known_tenants:
            raise NotFound("tenant", tenant)
        self._fake.known_tenants[tenant] = _tenant(tenant, quota)
        return self._fake.known_tenants[tenant]

    def make_key(self, caller: Caller, form: KeyForm) -> NewKeyAnswer:
        if caller.tenant is not None and form.tenant not in {None, caller.tenant}:
            raise Forbidden("leave the tenant out")
        tenant = caller.tenant or form.tenant
        if tenant is not None and tenant not in self._fake.known_tenants:
            raise NotFound("tenant", tenant)
        return self._fake.new_key(tenant, form.note)

    def keys(self, caller: Caller, paging: Paging) -> Page[KeyAnswer]:
        return _paged([each for each in self._fake.known_keys.values() if caller.tenant in {None, each.tenant}], paging)

    def revoke_key(self, caller: Caller, key: str) -> KeyAnswer:
        if key not in self._fake.known_keys or caller.tenant not in {None, self._fake.known_keys[key].tenant}:
            raise NotFound("API key", key)
        if key == caller.key:
            raise Conflict("this is the key that asks; use another to revoke it")
        self._fake.known_keys[key] = self._fake.known_keys[key].model_copy(update={"revoked": THEN})
        return self._fake.known_keys[key]

    def make_credentials(self, caller: Caller, tenant: str) -> BrokerCredentials:
        return BrokerCredentials(**self.broker_login(caller, tenant).model_dump(), password="once")  # noqa: S106 - an example

    def broker_login(self, caller: Caller, tenant: str) -> BrokerLogin:
        if tenant not in self._fake.known_tenants or caller.tenant not in {None, tenant}:
            raise NotFound("tenant", tenant)
        return BrokerLogin(url="mqtt://127.0.0.1", user=tenant, reads=(), writes=(), made=THEN)


class _FakeBills(Bills):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def bill(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,  # noqa: ARG002 - as the service has it
        tenant: str | None = None,
    ) -> BillAnswer:
        if tenant not in {None, caller.tenant} and not caller.is_operator:
            raise NotFound("tenant", tenant or "")
        answer = example(BillAnswer).model_copy(update={} if since is None else {"since": since.astimezone(UTC)})
        return answer if caller.is_operator else answer.model_copy(update={"whole": None})


class _FakeTrials(Trials):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def run(self, caller: Caller, sent: bytes, *, tenant: str | None = None) -> TrialAnswer:
        self._fake.tenant_for(caller, tenant)
        _checked(trial_request(sent).document)
        return example(TrialAnswer)


class _FakePortEvents(PortEvents):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def newest(self, caller: Caller, dataflow: str, task: str) -> TaskEvents:
        if task not in {known.id for known in self._fake.own(caller, dataflow).tasks}:
            raise NotFound("task", task)
        return example(TaskEvents).model_copy(update={"id": task})


class _FakeBundles(Bundles):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def submit(
        self,
        caller: Caller,
        sent: bytes,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> BundleAnswer:
        found = [
            self._fake.use_cases.dataflows.submit(
                caller, each, tenant=tenant, idempotency_key=idempotency_key and f"{idempotency_key} {at}", start=start
            )
            for at, each in enumerate(documents_in(sent))
        ]
        return BundleAnswer(dataflows=tuple(found))

    def explain(
        self, caller: Caller, sent: bytes, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        explained = [
            self._fake.use_cases.dataflows.explain(caller, each, tenant=tenant, start=start)
            for each in documents_in(sent)
        ]
        return BundleExplainAnswer(documents=tuple(explained), started=sum(len(each.started) for each in explained))


class _FakeDataflows(Dataflows):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def id_of(self, caller: Caller, named: str) -> str:  # noqa: ARG002 - as the service has it
        return named

    def submit(
        self,
        caller: Caller,
        raw: bytes,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,  # noqa: ARG002 - as the service has it
    ) -> SubmitAnswer:
        if not self._fake.leads:
            raise StateNotReady("another manager leads", retry_after=2.5)
        owner = self._fake.tenant_for(caller, tenant)
        self._fake.seen.append((idempotency_key, raw))
        if idempotency_key is not None and (owner, idempotency_key) in self._fake.idempotent:
            before, name = self._fake.idempotent[owner, idempotency_key]
            if before != raw:
                raise Conflict("the idempotency key was used for another document; choose another")
            note(repeated=True)
            return self._fake.submitted_answer(name)
        held = sum(dataflow.tenant == owner for dataflow in self._fake.submitted.values())
        if held >= self._fake.known_tenants[owner].quota.dataflows:
            raise QuotaExceeded("no more dataflows are allowed; remove one", retry_after=0.3)
        document = _checked(raw)
        name = f"d-{len(self._fake.submitted)}"
        tasks = tuple(
            TaskAnswer(id=task["id"], type=task["type"], instance=number, reused=False)
            for number, task in enumerate(document["tasks"])
        )
        self._fake.submitted[name] = DataflowDetail(
            id=name,
            tenant=owner,
            name=document["name"],
            revision=1,
            state=DataflowState.RUNNING,
            submitted=THEN,
            outputs=(),
            tasks=tasks,
            document=document,
        )
        if idempotency_key is not None:
            self._fake.idempotent[owner, idempotency_key] = raw, name
        self._fake.note(OperationKind.SUBMIT, caller, name)
        return self._fake.submitted_answer(name)

    def replace(
        self,
        caller: Caller,
        dataflow: str,
        raw: bytes,
        *,
        tags: Tags | None = None,  # noqa: ARG002 - as the service has it
    ) -> SubmitAnswer:
        old = self._fake.own(caller, dataflow)
        if old.state is DataflowState.REMOVED:
            raise Conflict("the dataflow was removed; submit it again")
        document = _checked(raw)
        self._fake.submitted[dataflow] = old.model_copy(
            update={"revision": old.revision + 1, "document": document, "name": document["name"]}
        )
        return self._fake.submitted_answer(dataflow)

    def remove(
        self,
        caller: Caller,
        dataflow: str,
        how: Stop,
        *,
        tags: Tags | None = None,  # noqa: ARG002 - as the service has it
    ) -> DataflowAnswer:
        old = self._fake.own(caller, dataflow)
        if old.state is DataflowState.REMOVED:
            raise Conflict("the dataflow was removed before")
        state = DataflowState.REMOVED if how is Stop.NOW else DataflowState.DRAINING
        self._fake.submitted[dataflow] = old.model_copy(update={"state": state})
        self._fake.note(OperationKind.REMOVE, caller, dataflow)
        return _short(self._fake.submitted[dataflow])

    def preview_removal(self, caller: Caller, dataflow: str) -> RemovalAnswer:
        return RemovalAnswer(dataflow=dataflow, stops=self._fake.own(caller, dataflow).tasks, goes_on=0, streams=())

    def tasks(self, caller: Caller, dataflow: str) -> DataflowTasksAnswer:
        since = datetime(2026, 1, 2, tzinfo=UTC)
        tasks = (
            TaskFiguresAnswer(id=task.id, state=TaskState.RUNNING, since=since, others=0)
            for task in self._fake.own(caller, dataflow).tasks
        )
        return DataflowTasksAnswer(dataflow=dataflow, tasks=tuple(tasks))

    def look(self, caller: Caller, dataflow: str, sink: str) -> AbstractContextManager[OutputLook]:
        found = self._fake.own(caller, dataflow)
        assert self._fake.outputs is not None
        return self._fake.outputs.look(caller.who, topics.output(found.tenant, found.id, sink))

    @contextmanager
    def tail(
        self,
        caller: Caller,
        dataflow: str,
        sink: str | None,
        *,
        last: int,  # noqa: ARG002 - as the service has it
    ) -> Iterator[Tail]:
        found = self._fake.own(caller, dataflow)
        assert self._fake.outputs is not None
        name = sink or "averages"
        with self._fake.outputs.tail(caller.who, {topics.output(found.tenant, found.id, name): name}) as tail:
            yield tail

    def explain(
        self,
        caller: Caller,
        raw: bytes,
        *,
        tenant: str | None = None,
        start: Start = Start.LATEST,
        draft: bool = False,  # noqa: ARG002 - as the service has it
    ) -> ExplainAnswer:
        self._fake.tenant_for(caller, tenant)
        document = _checked(raw)
        started = tuple(task["id"] for task in document["tasks"])
        saving = Saving(tasks=0, cores_by_packing=0.0)
        return ExplainAnswer(reused=(), started=started, collapsed=(), saving=saving, start=start)

    def page(  # noqa: PLR0913 - each is a filter
        self,
        caller: Caller,
        paging: Paging,
        *,
        tenant: str | None = None,
        state: DataflowState | None = None,
        name: str | None = None,
        source: str | None = None,
        search: str | None = None,
    ) -> Page[DataflowAnswer]:
        found = [
            _short(each)
            for each in self._fake.submitted.values()
            if caller.tenant in {None, each.tenant}
            and tenant in {None, each.tenant}
            and name in {None, each.name}
            and (each.state == state if state else each.state is not DataflowState.REMOVED)
            and (source is None or source in json.dumps(each.document))
            and (search is None or search in {each.id, each.name})
        ]
        return _paged(found, paging)

    def get(self, caller: Caller, dataflow: str) -> DataflowDetail:
        return self._fake.own(caller, dataflow)


class _FakeDeadLetters(DeadLetters):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(self, caller: Caller, paging: Paging, *, dataflow: str | None = None) -> Page[DeadLetterAnswer]:
        if caller.role is Role.TENANT and dataflow is not None and dataflow not in self._fake.submitted:
            return Page(items=())
        return _paged([each for each in self._fake.parked if dataflow is None or dataflow in each.dataflows], paging)

    def groups(self, caller: Caller, paging: Paging, *, dataflow: str | None = None) -> Page[DeadLetterGroupAnswer]:
        """Each letter in a group of its own."""
        page = self.page(caller, paging, dataflow=dataflow)
        groups = (
            DeadLetterGroupAnswer(
                newest=each.id,
                instance=each.instance,
                dataflows=each.dataflows,
                reason=each.reason,
                dead_letters=1,
                first=each.at,
                last=each.at,
            )
            for each in page.items
        )
        return Page(items=tuple(groups), next=page.next)

    def replay(self, caller: Caller, letter: str, *, alike: bool = False) -> Replayed:  # noqa: ARG002 - as above
        return Replayed(dead_letters=self.discard(caller, letter).dead_letters, events=1)

    def replay_all(self, caller: Caller, dataflow: str) -> Replayed:
        return Replayed(dead_letters=self.discard_all(caller, dataflow).dead_letters, events=1)

    def discard(self, caller: Caller, letter: str, *, alike: bool = False) -> Discarded:  # noqa: ARG002 - as the service has it
        left = [each for each in self._fake.parked if str(each.id) != letter]
        if len(left) == len(self._fake.parked):
            raise NotFound("dead letter", letter)
        self._fake.parked = left
        return Discarded(dead_letters=1)

    def discard_all(self, caller: Caller, dataflow: str) -> Discarded:
        self._fake.own(caller, dataflow)
        left = [each for each in self._fake.parked if dataflow not in each.dataflows]
        count = len(self._fake.parked) - len(left)
        self._fake.parked = left
        return Discarded(dead_letters=count)


class _FakeDefragmentation(Defragmentation):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def fragmentation(self, caller: Caller) -> FragmentationAnswer:
        _operators_only(caller)
        return example(FragmentationAnswer)

    def preview(self, caller: Caller) -> DefragmentationPreviewAnswer:
        _operators_only(caller)
        return example(DefragmentationPreviewAnswer)

    def begin(self, caller: Caller) -> MoveAnswer:
        _operators_only(caller)
        return example(MoveAnswer)


class _FakeMachines(Machines):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(self, caller: Caller, paging: Paging) -> Page[MachineAnswer]:
        _operators_only(caller)
        return _paged(example(Page[MachineAnswer], "machines").items, paging)

    def drain(self, caller: Caller, machine: str, *, draining: bool = True) -> MachineAnswer:
        del draining
        _operators_only(caller)
        if machine != example(MachineAnswer).name:
            raise NotFound("machine", machine)
        return example(MachineAnswer, "drain_machine")

    def admit(self, caller: Caller, machine: str, key: str | None = None) -> MachineAnswer:
        self.drain(caller, machine)
        if key is not None:
            raise Conflict(f"machine {machine} has another key")
        return example(MachineAnswer)

    def undrain(self, caller: Caller, machine: str) -> MachineAnswer:
        self.drain(caller, machine)
        return example(MachineAnswer)

    def forget(self, caller: Caller, machine: str) -> MachineAnswer:
        self.drain(caller, machine)
        return example(MachineAnswer, "forget_machine")


class _FakeMachineClasses(MachineClasses):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(self, caller: Caller, paging: Paging) -> Page[MachineClassAnswer]:
        _operators_only(caller)
        return _paged((example(MachineClassAnswer),), paging)

    def put(self, caller: Caller, name: str, form: MachineClassForm) -> MachineClassAnswer:
        _operators_only(caller)
        return MachineClassAnswer(name=name, **form.model_dump() | {"tags": tuple(sorted(form.tags))})

    def remove(self, caller: Caller, name: str) -> MachineClassAnswer:
        _operators_only(caller)
        if name != example(MachineClassAnswer).name:
            raise NotFound("class of machines", name)
        return example(MachineClassAnswer)


class _FakeRentals(Rentals):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(self, caller: Caller, paging: Paging) -> Page[RentalAnswer]:
        _operators_only(caller)
        return _paged((example(RentalAnswer),), paging)


class _FakeImages(Images):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(self, caller: Caller, paging: Paging) -> Page[ImageAnswer]:
        _operators_only(caller)
        return _paged((example(ImageAnswer),), paging)

    def put(self, caller: Caller, name: str, form: ImageForm) -> ImageAnswer:
        _operators_only(caller)
        return ImageAnswer(name=name, **form.model_dump(exclude={"tags"}), tags=tuple(sorted(form.tags)))

    def remove(self, caller: Caller, name: str) -> ImageAnswer:
        _operators_only(caller)
        if name != example(ImageAnswer).name:
            raise NotFound("image", name)
        return example(ImageAnswer)


class _FakePlacements(Placements):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def explain(self, caller: Caller, dataflow: str, task: str | None = None) -> PlacementAnswer:
        _operators_only(caller)
        elsewhere = () if task is None else example(PlacementAnswer).elsewhere
        return example(PlacementAnswer).model_copy(update={"dataflow": dataflow, "elsewhere": elsewhere})

    def export(self, caller: Caller, dataflow: str) -> PlacementPddlAnswer:
        _operators_only(caller)
        return example(PlacementPddlAnswer).model_copy(update={"dataflow": dataflow})

    def check_plan(self, caller: Caller, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        _operators_only(caller)
        assert form.plan
        return example(PlacementPlanAnswer).model_copy(update={"dataflow": dataflow})


class _FakeMetrics(Metrics):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def collect(self, caller: Caller) -> list[Family]:
        _operators_only(caller)
        return []


class _FakeOperations(Operations):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def page(
        self, caller: Caller, paging: Paging, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> Page[OperationAnswer]:
        found = [
            each
            for each in reversed(self._fake.journal)
            if caller.tenant in {None, each.who} and kind in {None, each.kind} and subject in {None, each.subject}
        ]
        return _paged(found, paging)


class _FakeOverview(Overview):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def counts(self, caller: Caller) -> OverviewAnswer:
        answer = example(OverviewAnswer)
        return answer if caller.is_operator else answer.model_copy(update={"jobs": None})


class _FakeRunningJobs(RunningJobs):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def tasks(self, caller: Caller, paging: Paging, *, job: str | None = None) -> Page[RunningTaskAnswer]:
        task = example(RunningTaskAnswer).model_copy(update={"tenant": caller.tenant or "ann"})
        return _paged([task] if job in {None, task.job} else [], paging)

    def dags(self, caller: Caller, paging: Paging) -> Page[RunningDagAnswer]:
        _operators_only(caller)
        return _paged((example(RunningDagAnswer),), paging)

    def jobs(self, caller: Caller, paging: Paging) -> Page[JobAnswer]:
        _operators_only(caller)
        return _paged((example(JobAnswer),), paging)

    def job(self, caller: Caller, job: str) -> JobAnswer:
        _operators_only(caller)
        if job != example(JobAnswer).job:
            raise NotFound("job", job)
        return example(JobAnswer)

    def streams(self, caller: Caller, paging: Paging) -> Page[StreamAnswer]:
        _operators_only(caller)
        return _paged((example(StreamAnswer),), paging)

    def hosts(self, caller: Caller, paging: Paging) -> Page[HostAnswer]:
        _operators_only(caller)
        return _paged((example(HostAnswer),), paging)


class _FakeSavings(Savings):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def report(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,  # noqa: ARG002 - as the service has it
        tenant: str | None = None,
        dataflow: str | None = None,  # noqa: ARG002 - as the service has it
    ) -> SavingsAnswer:
        if tenant not in {None, caller.tenant} and not caller.is_operator:
            raise NotFound("tenant", tenant or "")
        answer = example(SavingsAnswer).model_copy(update={} if since is None else {"since": since.astimezone(UTC)})
        return answer if caller.is_operator else answer.model_copy(update={"whole": None})

    def series(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,  # noqa: ARG002 - as the service has it
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        if tenant not in {None, caller.tenant} and not caller.is_operator:
            raise NotFound("tenant", tenant or "")
        answer = example(SeriesAnswer).model_copy(update={} if since is None else {"since": since.astimezone(UTC)})
        return answer if step is None else answer.model_copy(update={"step": step})


class _FakeHistories(Histories):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def history(
        self,
        caller: Caller,
        dataflow: str,
        *,
        reach: HistoryRange = HistoryRange.HOUR,  # noqa: ARG002 - as the service has it
        since: datetime | None = None,
    ) -> HistoryAnswer:
        found = {"dataflow": self._fake.own(caller, dataflow).id}
        return example(HistoryAnswer).model_copy(update=found if since is None else found | {"since": since})


class _FakeSecrets(Secrets):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def put(self, caller: Caller, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:  # noqa: ARG002 - as the service has it
        found = SecretAnswer(tenant=self._fake.tenant_for(caller, tenant), name=name)
        self._fake.known_secrets[found.tenant, name] = found
        return found

    def page(self, caller: Caller, paging: Paging, *, tenant: str | None = None) -> Page[SecretAnswer]:
        owner = None if caller.tenant is None and tenant is None else self._fake.tenant_for(caller, tenant)
        return _paged([each for each in self._fake.known_secrets.values() if owner in {None, each.tenant}], paging)

    def remove(self, caller: Caller, name: str, *, tenant: str | None = None) -> SecretAnswer:
        key = (self._fake.tenant_for(caller, tenant), name)
        if key not in self._fake.known_secrets:
            raise NotFound("secret", name)
        return self._fake.known_secrets.pop(key)


class _FakeReconfigurations(Reconfigurations):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake
        self._begun: list[ReconfigurationAnswer] = []
        self._keyed: dict[str, tuple[ReconfigurationForm, ReconfigurationAnswer]] = {}

    def preview(
        self,
        caller: Caller,
        dataflow: str,
        form: ReconfigurationForm,
        *,
        lenient: bool = False,  # noqa: ARG002 - as the real one's
        tags: Tags | None = None,  # noqa: ARG002 - as the real one's
    ) -> ReconfigurationAnswer:
        return self._made(caller, dataflow, form).model_copy(update={"state": ReconfigurationState.PREVIEW, "id": ""})

    def begin(
        self,
        caller: Caller,
        dataflow: str,
        form: ReconfigurationForm,
        *,
        idempotency_key: str | None = None,
        tags: Tags | None = None,  # noqa: ARG002 - as the real one's
    ) -> ReconfigurationAnswer:
        before = self._keyed.get(idempotency_key or "")
        if before is not None:
            if before[0] != form:
                raise Conflict("the idempotency key was used for another reconfiguration; choose another")
            note(repeated=True)
            return before[1]
        self._begun.append(self._made(caller, dataflow, form))
        if idempotency_key is not None:
            self._keyed[idempotency_key] = form, self._begun[-1]
        return self._begun[-1]

    def page(self, caller: Caller, dataflow: str, paging: Paging) -> Page[ReconfigurationAnswer]:
        self._own(caller, dataflow)
        return _paged([each for each in reversed(self._begun) if dataflow in each.dataflows], paging)

    def get(self, caller: Caller, dataflow: str, reconfiguration: str) -> ReconfigurationAnswer:
        self._own(caller, dataflow)
        for each in self._begun:
            if each.id == reconfiguration and dataflow in each.dataflows:
                return each
        raise NotFound("reconfiguration", reconfiguration)

    def cancel(self, caller: Caller, dataflow: str, reconfiguration: str) -> ReconfigurationAnswer:
        self.get(caller, dataflow, reconfiguration)
        raise Conflict("this reconfiguration is over, or went on meanwhile")

    def undo(
        self,
        caller: Caller,
        dataflow: str,
        reconfiguration: str,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,  # noqa: ARG002 - as the real one's
    ) -> ReconfigurationAnswer:
        undone = self.get(caller, dataflow, reconfiguration)
        number = "" if dry_run else str(len(self._begun) + 1)
        self._begun.append(undone.model_copy(update={"id": number, "undoes": undone.id}))
        return self._begun[-1]

    def _made(self, caller: Caller, dataflow: str, form: ReconfigurationForm) -> ReconfigurationAnswer:
        self._own(caller, dataflow)
        if form.dataflows:
            _operators_only(caller)
        if not form.tasks and form.document is None:
            raise Conflict("nothing would change; edit the type or the config of a task")
        # Whatever is under way is in the way.
        answer = example(ReconfigurationAnswer, "ReconfigurationAnswer 202" if self._begun else "")
        return answer.model_copy(update={"id": str(len(self._begun) + 1), "dataflows": (dataflow,), "who": caller.who})

    def _own(self, caller: Caller, dataflow: str) -> None:
        found = self._fake.submitted.get(dataflow)
        if found is None or caller.tenant not in {None, found.tenant}:
            raise NotFound("dataflow", dataflow)


class _FakeSources(Sources):
    def __init__(self, fake: FakeService) -> None:
        self._fake = fake

    def register(self, caller: Caller, form: SourceForm) -> SourceAnswer:
        owner = caller.tenant or form.owner
        if owner is None:
            problem = FieldError(pointer="/owner", code="missing", message="whose is it?", remedy="say so")
            raise InvalidRequest([problem])
        if form.owner not in {None, owner}:
            raise Forbidden("leave the owner out")
        if owner not in self._fake.known_tenants:
            raise NotFound("tenant", owner)
        if (name := f"{owner}:{form.name}") in self._fake.known_sources:
            raise Conflict("there is such a source already; choose another name")
        answer = SourceAnswer(
            name=name,
            owner=owner,
            fields=form.fields,
            visibility=form.visibility,
            connection=form.connection,
            readers=tuple(sorted(form.readers)),
            dataflows=0,
        )
        self._fake.known_sources[name] = answer
        return answer

    def propose(self, caller: Caller, form: ProposalForm) -> ProposalAnswer:  # noqa: ARG002 - nothing comes here
        return example(ProposalAnswer)

    def page(self, caller: Caller, paging: Paging) -> Page[SourceAnswer]:
        return _paged([each for each in self._fake.known_sources.values() if _may_read(caller, each)], paging)

    def get(self, caller: Caller, name: str) -> SourceAnswer:
        if name not in self._fake.known_sources or not _may_read(caller, self._fake.known_sources[name]):
            raise NotFound("source", name)
        return self._fake.known_sources[name]

    def declare(self, caller: Caller, name: str, form: SchemaForm, *, dry_run: bool = False) -> SchemaAnswer:
        source = self._owned(caller, name).model_copy(update={"fields": form.fields})
        if not dry_run:
            self._fake.known_sources[name] = source
        return SchemaAnswer(source=source, going_on=0, dependent=())

    def set_visibility(self, caller: Caller, name: str, form: VisibilityForm) -> Stopped:
        source = self._owned(caller, name)
        update = {"visibility": form.visibility, "readers": tuple(sorted(form.readers))}
        self._fake.known_sources[name] = source.model_copy(update=update)
        return Stopped(dataflows=0)

    def revoke(self, caller: Caller, name: str) -> Stopped:
        self._owned(caller, name)
        del self._fake.known_sources[name]
        return Stopped(dataflows=0)

    def _owned(self, caller: Caller, name: str) -> SourceAnswer:
        source = self.get(caller, name)
        if caller.tenant not in {None, source.owner}:
            raise Forbidden("the source belongs to another tenant; ask it")
        return source


def _checked(raw: bytes) -> dict[str, Any]:
    try:
        if problems := read(raw).problems:
            raise InvalidDataflow(problems)
    except InvalidDocument as error:
        raise InvalidDataflow(error.problems) from None
    document: dict[str, Any] = json.loads(raw)
    return document


def _paged(found: Sequence[T], paging: Paging) -> Page[T]:
    try:
        start = int(paging.after or 0)
    except ValueError:
        problem = FieldError(pointer="/query/after", code="bad-cursor", message="no cursor", remedy="use `next`")
        raise InvalidRequest([problem]) from None
    if start < 0 or start > len(found):
        start = len(found)
    end = start + paging.limit
    return Page(items=tuple(found[start:end]), next=str(end) if end < len(found) else None)


def _short(detail: DataflowDetail) -> DataflowAnswer:
    return DataflowAnswer(**{name: getattr(detail, name) for name in DataflowAnswer.model_fields})


def _tenant(name: str, quota: Quota) -> TenantAnswer:
    uses = QuotaUse(**dict.fromkeys(QuotaUse.model_fields, 0))
    return TenantAnswer(name=name, quota=quota, uses=uses, created=THEN)


def _may_read(caller: Caller, source: SourceAnswer) -> bool:
    return (
        caller.tenant in {None, source.owner}
        or source.visibility == "public"
        or (source.visibility == "named" and caller.tenant in (source.readers or ()))
    )


def _operators_only(caller: Caller) -> None:
    if caller.role is not Role.OPERATOR:
        raise Forbidden("this is for operators only; ask one")
