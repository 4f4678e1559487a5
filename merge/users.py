"""Who uses a task: a small tuple for most tasks, a persistent set for the popular ones.

Nearly every task serves a handful of dataflows, where a set takes four times the memory of a tuple; a popular source
serves nearly all of them, where a tuple would be copied whole at every submission.
"""

from typing import TypeAlias

from rpds import HashTrieSet

Users: TypeAlias = "tuple[str, ...] | HashTrieSet[str]"

FEW = 8


def with_user(users: Users, dataflow: str) -> Users:
    """The users and one more.

    >>> with_user(("a",), "b")
    ('a', 'b')
    """
    if not isinstance(users, tuple):
        return users.insert(dataflow)
    if len(users) < FEW:
        return (*users, dataflow)
    return HashTrieSet([*users, dataflow])


def without_user(users: Users, dataflow: str) -> Users:
    """The users less one.

    >>> without_user(("a", "b"), "a")
    ('b',)
    """
    if isinstance(users, tuple):
        return tuple(user for user in users if user != dataflow)
    fewer = users.remove(dataflow)
    return fewer if len(fewer) > FEW else tuple(fewer)
