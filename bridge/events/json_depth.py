"""The depth of JSON: how many levels objects and arrays may be nested.

Writers and readers of JSON use one stack frame for each level, and how many there are depends on the caller. So events
that are too deep are refused where they come in, by a fixed limit.
"""

from typing import Any

DEEPEST = 100
"""Levels of JSON in a field of a raw event, or in all its undeclared fields together."""
DEEPEST_PARKED = 200
"""Levels of parked events that come back: a task may have wrapped them."""


def deeper_than(value: Any, most: int) -> bool:
    """True if lists and objects are nested deeper than so many levels. Any depth can be checked.

    >>> deeper_than({"a": [1]}, 2), deeper_than({"a": [[]]}, 2)
    (False, True)
    """
    level = [value]
    for _ in range(most + 1):
        level = [each for each in level if isinstance(each, list | dict)]
        if not level:
            return False
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return True
