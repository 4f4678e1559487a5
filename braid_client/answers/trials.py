"""Events at the ports of tasks: of a draft in a trial, with its form, and of a task that runs."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from braid_client.answers.base import Answer, FieldProblem, Form

MOST_TRIED = 500
"""The most events of one source in a trial."""
MOST_TRIED_SOURCES = 100
"""The most sources that get events in a trial."""


class TrialForm(Form):
    """A document to try, and events for its sources."""

    document: dict[str, Any]
    """It may have problems: the tasks that are sound run."""
    events: Annotated[dict[str, tuple[Any, ...]], Field(max_length=MOST_TRIED_SOURCES)] = Field(default={})
    """Events for a source, by the id of its task or by its name. Others give their newest events that are kept."""
    newest: Annotated[int, Field(ge=0, le=MOST_TRIED)] = 200
    """The most events that are taken of each source that is not in `events`."""


class TriedEvents(Answer):
    """Events at a port."""

    count: int
    newest: tuple[str, ...] = ()
    """The last of them, in order, each as JSON. A very long one is cut, and ends in an ellipsis."""


class TriedRejection(Answer):
    """Events that were rejected for one reason, and would be dead letters."""

    port: str
    reason: str
    events: TriedEvents


class TriedTask(Answer):
    """What a task did in a trial."""

    id: str
    not_run: str = ""
    """Why it did not run; empty if it did. What entered it is what it would have written, or asked for."""
    lacks: tuple[str, ...] = ()
    """The tasks above it that did not run, and whose events it therefore lacks."""
    taken: int = 0
    """The events that it took; at a source those that entered."""
    origin: Literal["pasted", "kept", "none"] | None = None
    """Where the events of a source came from; None if it is no source."""
    seen: int | None = None
    """The events that its state has seen; None if it keeps none."""
    inputs: dict[str, TriedEvents] = Field(default={})
    outputs: dict[str, TriedEvents] = Field(default={})
    rejected: int = 0
    rejections: tuple[TriedRejection, ...] = ()


class TrialAnswer(Answer):
    """The result of a trial. Nothing was written outside, and nothing of it runs on."""

    tasks: tuple[TriedTask, ...]
    """The sound tasks, in the order of the document."""
    problems: tuple[FieldProblem, ...] = ()
    """What is wrong with the document, as a submission would say."""


class SeenEvents(TriedEvents):
    """Events at a port of a task that runs, counted since somebody has looked."""

    seen: tuple[datetime, ...] = ()
    """When each of `newest` was seen."""


class TaskEvents(Answer):
    """The newest events at the ports of a task that runs."""

    id: str
    type: str
    waits: bool
    """Whether its job has run no batch yet since somebody has looked."""
    inputs: dict[str, SeenEvents]
    outputs: dict[str, SeenEvents]
