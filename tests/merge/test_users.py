"""The users of a task: a tuple while they are few, a set from then on."""

from merge.running_graph import FEW, Users, with_user, without_user

NAMES = tuple("abcdefghijkl")


def test_few_users_are_a_tuple() -> None:
    """Up to eight users stand in a tuple, in the order in which they came."""
    users: Users = ()
    for name in NAMES[:8]:
        users = with_user(users, name)
    assert (8, NAMES[:8]) == (FEW, users)


def test_the_ninth_user_makes_a_set() -> None:
    """With more than eight users they are a set, and the tuple before is as it was."""
    few = NAMES[:8]
    assert set(NAMES[:9]) == with_user(few, "i")
    assert NAMES[:8] == few


def test_many_users_are_changed_in_place() -> None:
    """A set takes one more and gives one up without being copied."""
    many: Users = set(NAMES[:10])
    assert with_user(many, "k") is many
    assert without_user(many, "a") is many
    assert set(NAMES[1:11]) == many


def test_few_are_left_of_many() -> None:
    """Once eight are left of a set they are a tuple again, sorted, because a set has no order."""
    many: Users = set(NAMES[:10])
    nine = without_user(many, "j")
    assert set(NAMES[:9]) == nine
    assert ("a", "b", "c", "d", "e", "f", "g", "i") == without_user(nine, "h")


def test_without_the_last_user() -> None:
    """A task that only one dataflow used has no users without it."""
    assert () == without_user(("a",), "a")


def test_without_one_of_few_users() -> None:
    """The others stay in their order."""
    assert ("c", "b") == without_user(("c", "a", "b"), "a")
