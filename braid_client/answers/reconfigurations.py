"""Reconfigurations: the tasks to change, the scope of the change, and its progress."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from braid_client.answers.base import Answer, SentDocument
from dags.vocabulary import Scheduler


class ReconfigurationForm(BaseModel):
    """The tasks to change, all at once: patches by task id, or the whole edited document."""

    # By default NaN would be sent as null, which removes a field in a merge patch.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    tasks: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=10_000)
    """For each task a JSON merge patch (RFC 7396) of its `type` and `config`."""
    document: SentDocument | None = None
    """The whole document instead; tasks may differ in types and configs, and come and go between those that stay."""
    fresh: list[str] = Field(default_factory=list, max_length=10_000)
    """The changed tasks that begin without state."""
    dataflows: list[str] = Field(default_factory=list, max_length=1_000)
    """Other dataflows to change in the same way, so that shared tasks are changed in place. For operators."""
    scheduler: Scheduler = Scheduler.FRIES
    """How the jobs switch. Others than `fries` are for comparison, and for operators."""


class ReconfigurationState(StrEnum):
    """The state of a reconfiguration."""

    PREVIEW = "preview"
    """Nothing was begun."""
    WAITING = "waiting"
    """It has its place in the queue, and begins by itself."""
    PREPARING = "preparing"
    """Jobs that wait for others get ready; nothing has changed yet."""
    SWITCHING = "switching"
    SWITCHED = "switched"
    """Every job runs the new version. Events from before may still be under way, and a failing task undoes it."""
    DONE = "done"
    """The events from before are gone too."""
    ABANDONED = "abandoned"
    """It changed nothing."""
    REVERTED = "reverted"
    """A task failed after the switch, so another reconfiguration undid it."""


class TaskPresence(StrEnum):
    """Whether a task is in the dataflow before and after."""

    STAYS = "stays"
    INSERTED = "inserted"
    REMOVED = "removed"


class ChangedTaskAnswer(Answer):
    """A task that is changed, copied, inserted or taken out, or that other tasks feed than before."""

    dataflow: str
    task: str
    in_place: bool
    """True if it stays and keeps its instance; a copy is made if others use the task or one above it."""
    presence: TaskPresence = TaskPresence.STAYS
    shared: bool = False
    """True if other dataflows use it too."""
    changed: bool
    """False for one whose type and config stay as they are."""
    state: str
    """The fate of its state: `kept`, `transformed` or `fresh`; `dropped` with a task that is taken out."""
    job: str


class ComponentAnswer(Answer):
    """Tasks that switch in step: a component of the covering sub-DAG."""

    tasks: tuple[str, ...]
    heads: tuple[str, ...]
    """Those that switch first."""


class ReconfigurationScope(Answer):
    """The tasks, states and jobs that a reconfiguration changes."""

    tasks: tuple[ChangedTaskAnswer, ...]
    components: tuple[ComponentAnswer, ...]
    jobs: tuple[str, ...]
    waiting: tuple[str, ...]
    """Those of them that wait for a marker."""
    delay_seconds: float
    """The expected delay until the last job has switched."""


class QueueAnswer(Answer):
    """The place of a reconfiguration that waits."""

    place: int
    """1 if none that waits goes before it."""
    behind: tuple[str, ...]
    """The reconfigurations that it waits for, in the order in which they go on."""
    behind_others: int = 0
    """How many more it waits for, which the caller may not see."""
    behind_moves: bool = False
    """True while tasks that are being moved from job to job are in the way as well."""


class ReconfigurationAnswer(Answer):
    """A reconfiguration: under way, past, or a preview of one."""

    id: str
    """Empty for a preview."""
    state: ReconfigurationState
    dataflows: tuple[str, ...]
    who: str
    begun: datetime
    """When it was asked for."""
    queue: QueueAnswer | None = None
    """Its place while it waits; None too where a manager answers that does not lead."""
    switched: datetime | None = None
    """When all jobs ran the new version."""
    ended: datetime | None = None
    """When it was over: of one that is `done`, when the events from before were gone."""
    undoes: str | None = None
    outcome: str = ""
    """Why it was given up or undone."""
    scope: ReconfigurationScope | None = None
    """What it changes, or would change as it was looked at last while it waits; None for some old ones."""
