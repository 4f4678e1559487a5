"""Calls into task types that others wrote: whatever they raise becomes a problem of the task, not of the caller."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dags.problems import Problem, pointer, quoted

P = ParamSpec("P")
R = TypeVar("R")


def ask(task: int, type_name: str, hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | Problem:
    """What the hook answers, or the problem that it did not.

    >>> ask(2, "halve", lambda: 1 / 0).message
    "the task type 'halve' failed on this task: ZeroDivisionError: division by zero"
    """
    try:
        return hook(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - third parties may raise anything
        return Problem(
            pointer=pointer("tasks", task),
            code="task-type-failed",
            message=f"the task type {quoted(type_name)} failed on this task: {type(error).__name__}: {_told(error)}",
            remedy="report it to whoever provides the type",
        )


def _told(error: Exception) -> str:
    """What an error says; it may fail at that, or hold characters that cannot be written."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception:  # noqa: BLE001 - third parties may raise anything, here too
        return "it does not say why"
