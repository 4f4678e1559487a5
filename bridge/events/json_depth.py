"""Nesting: how deep objects and arrays may lie in each other.

Whatever writes or reads JSON goes one level deeper in its stack with each, and which level is the last depends on where
it was called. So what is too deep is told at the door, by a number.
"""

from typing import Any

DEEPEST = 100
"""Levels of JSON in a field of a raw event, or in all that is not declared of it together."""
DEEPEST_PARKED = 200
"""Levels that events may have which come back from where they were parked: a task may have put some around them."""


def deeper_than(value: Any, most: int) -> bool:
    """Whether lists and objects lie in each other deeper than so many levels; however deep that is.

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
