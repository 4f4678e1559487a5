"""Trials of documents: what a draft makes of a few events, before it is submitted."""

import json
import time
from collections.abc import Mapping
from typing import Annotated

import msgspec

from braid_client.answers.base import FieldProblem
from braid_client.answers.overview import OperationKind
from braid_client.answers.trials import MOST_TRIED, MOST_TRIED_SOURCES, TrialAnswer
from dags import InvalidDocument
from dags.canonical import outline
from dags.canonical.outlines import Outline
from dags.problems import pointer
from engine.behaviour import installed_behaviours
from manager.dataflows.use_cases import Dataflows
from manager.kernel.registered_sources import Readable, Registered
from manager.problem import FieldError, InvalidDataflow, StateNotReady, TooLarge, Trouble, invalid
from manager.trials.orders import DraftTrial, TrialWishes
from manager.trials.processes import TrialEnded
from manager.use_case import Base, Caller, note

_AGAIN = 5.0


class TrialRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A `TrialForm` whose document and events are as they were sent."""

    raw: msgspec.Raw = msgspec.field(name="document")
    events: dict[str, list[msgspec.Raw]] = msgspec.field(default_factory=dict)
    newest: Annotated[int, msgspec.Meta(ge=0, le=MOST_TRIED)] = 200

    @property
    def document(self) -> bytes:
        """The document."""
        return bytes(self.raw)

    @property
    def pasted(self) -> dict[str, list[str]]:
        """The events of each source, each as JSON."""
        return {
            name: [bytes(event).decode(errors="replace") for event in events] for name, events in self.events.items()
        }


def trial_request(sent: bytes) -> TrialRequest:
    """The body of a request, within its bounds.

    >>> trial_request(b'{"document": {"version":  1}, "events": {"s": [{"t": 1}]}}').pasted
    {'s': ['{"t": 1}']}
    """
    try:
        request = msgspec.json.decode(sent, type=TrialRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        remedy = 'send {"document": { ... }, "events": {"task": [ ... ]}, "newest": 200}'
        raise invalid("", "not-a-trial", f"the body is no trial: {error}", remedy) from None
    if len(request.events) > MOST_TRIED_SOURCES or any(len(events) > MOST_TRIED for events in request.events.values()):
        raise TooLarge(MOST_TRIED, f"events of one source, or events of more than {MOST_TRIED_SOURCES} sources")
    return request


class Trials(Base):
    """Trials of documents."""

    def run(self, caller: Caller, sent: bytes, *, tenant: str | None = None) -> TrialAnswer:
        """Try a document, which may have problems; the journal notes it, and nothing else is changed."""
        begun = time.monotonic()
        owner = self._known_tenant(caller, tenant)
        # Before it is read: a tenant has one document at a time in hand here, as elsewhere.
        with self._tools.trials.admitted(owner):
            request = trial_request(sent)
            document = Dataflows(self._tools).plain(owner, request.document)
            drawn, sources = self._outlined(owner, document)
            wishes = TrialWishes(pasted=request.pasted, newest=request.newest, now=time.time())
            trial = DraftTrial(drawn.sound, sources, wishes)
            try:
                result = self._tools.trials.run(trial.order(self._tools.jobs_root, installed_behaviours()))
            except TrialEnded as ended:
                raise _refusal(ended, trial, document) from ended
        ids = [task.id for task in drawn.tasks]
        answer = TrialAnswer(
            tasks=tuple(trial.answers(result, ids)),
            problems=tuple(FieldProblem.model_validate(problem, from_attributes=True) for problem in drawn.problems),
        )
        events = sum(task.taken for task in answer.tasks if task.origin is not None)
        with self._store.write() as session:
            note(session, OperationKind.TRY, caller, drawn.sound.name, begun, f"events: {events:,}")
        return answer

    def _outlined(self, owner: str, document: bytes) -> tuple[Outline, Mapping[str, Registered]]:
        with self._committer.looking() as state:
            sources = state.sources
        try:
            drawn = outline(
                document,
                dataflow="tried",
                tenant=owner,
                catalogue=self._tools.catalogue,
                sources=Readable(owner, sources),
            )
        except InvalidDocument as error:
            raise InvalidDataflow(error.problems) from error
        return drawn, sources


def _refusal(ended: TrialEnded, trial: DraftTrial, document: bytes) -> Trouble:
    """Why there is no answer: because of the task that ran when the trial was ended, if one did."""
    task = None if ended.instance is None else trial.task_at(ended.instance)
    if task is None:
        return StateNotReady(f"the trial {ended.why}, before any task ran; try again, or with fewer events", _AGAIN)
    at = next(at for at, form in enumerate(json.loads(document)["tasks"]) if form["id"] == task)
    return InvalidDataflow(
        [
            FieldError(
                pointer=pointer("tasks", at),
                code="trial-ended",
                message=f"the trial {ended.why} while the task ran",
                remedy="let the task do less for an event, or try it with fewer events",
            )
        ]
    )
