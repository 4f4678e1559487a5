"""Calls into third-party task types. Any exception becomes a problem of the task."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dags.problems import Problem, pointer, quoted

P = ParamSpec("P")
R = TypeVar("R")


def ask(task: int, type_name: str, hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | Problem:
    """The hook's result, or a problem if it raises.

    >>> ask(2, "halve", lambda: 1 / 0).message
    "the task type 'halve' failed on this task: ZeroDivisionError: division by zero"
    """
    try:
        return hook(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - third parties may raise anything
        return Problem(
            pointer=pointer("tasks", task),
            code="task-type-failed",
            message=f"the task type {quoted(type_name)} failed on this task: {type(error).__name__}: {_text(error)}",
            remedy="report it to the provider of the type",
        )


def _text(error: Exception) -> str:
    """The text of an error, even if making it fails or it contains unprintable characters."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception:  # noqa: BLE001 - third parties may raise anything, here too
        return "no reason given"
