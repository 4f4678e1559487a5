"""The users of a task: a small tuple for most tasks, a set for the popular ones.

Nearly every task serves a handful of dataflows, where a set takes four times the memory of a tuple; a popular source
serves nearly all of them, where a tuple would be copied whole at every submission.
"""

from typing import TypeAlias

Users: TypeAlias = tuple[str, ...] | set[str]

FEW = 8


def with_user(users: Users, dataflow: str) -> Users:
    """The users and one more; a set is changed in place.

    >>> with_user(("a",), "b")
    ('a', 'b')
    """
    if isinstance(users, set):
        users.add(dataflow)
        return users
    return (*users, dataflow) if len(users) < FEW else {*users, dataflow}


def without_user(users: Users, dataflow: str) -> Users:
    """The users less one; a set is changed in place, until few are left.

    >>> without_user(("a", "b"), "a")
    ('b',)
    """
    if isinstance(users, set):
        users.discard(dataflow)
        return users if len(users) > FEW else tuple(sorted(users))
    return tuple(user for user in users if user != dataflow)
