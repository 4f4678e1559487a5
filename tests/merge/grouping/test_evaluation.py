"""What is said to be wrong with groups, and what they cost, by examples worked out by hand."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from merge.grouping import Expense, Group, GroupedStream, GroupId, Image, PresentGroup, TaskId, cost_of, problems_of
from tests.merge.grouping.problems import ALL, COSTS, PLAIN, problem_of

JOB = PresentGroup(id="job", image="plain", tasks=frozenset({"s"}), work=0.1, owner="ann")
CLOSED = PresentGroup(id="closed", image="all", tasks=frozenset({"t"}), takes_more=False)
LINE = problem_of(
    [0.1, 0.1, 0.4],
    [("s", 0), (0, 1), (1, 2)],
    images=(ALL, PLAIN),
    present=(JOB, CLOSED),
    tags={0: "gpu sql"},
    owners={1: "ann", 2: "bob"},
)


def group(image: str, *tasks: TaskId, present: GroupId | None = None) -> Group:
    """Tasks on an image."""
    return Group(image=image, tasks=tasks, present=present)


@pytest.mark.parametrize(
    ("groups", "wrong"),
    [
        pytest.param((group("all", 0, 1), group("all", 2)), (), id="nothing"),
        pytest.param(
            (group("all", 0), group("plain", 1, present="job"), group("all", 2)),
            ("groups wait for each other",),
            id="a cycle over what stays",
        ),
        pytest.param((group("all", 0, 1),), ("task 2 is in no group",), id="a task is left out"),
        pytest.param((group("all", 0, 1), group("all", 2, 7)), ("task 7 is not to be grouped",), id="an unknown task"),
        pytest.param((group("all", 0, 1), group("all", 1, 2)), ("task 1 is in 2 groups",), id="a task twice"),
        pytest.param((group("all", 0, 1), group("arm", 2)), ("there is no image 'arm'",), id="an unknown image"),
        pytest.param(
            (group("all", 0, 1), group("all", 2, present="gone")), ("no group 'gone' is there",), id="an unknown group"
        ),
        pytest.param(
            (group("plain", 0, present="job"), group("plain", 1, present="job"), group("all", 2)),
            ("group 'job' is named 2 times",),
            id="a group twice",
        ),
        pytest.param((group("all", 0, 1), group("all", 2), group("all")), ("a group is empty",), id="an empty group"),
        pytest.param(
            (group("all", 0, 1, present="job"), group("all", 2)),
            ("group 'job' has image 'plain', not 'all'",),
            id="another image for what stays",
        ),
        pytest.param(
            (group("plain", 0), group("plain", 1), group("plain", 2)),
            ("the group of 0 on 'plain' lacks gpu, sql",),
            id="tags that the image lacks",
        ),
        pytest.param(
            (group("all", 0), group("all", 1, 2)),
            (
                "the group of 1 on 'all' mixes code of ann, bob",
                "the group of 1 on 'all' is beyond capacity with 0.5 cores of work",
            ),
            id="two owners and too much work",
        ),
        pytest.param(
            (group("all", 0), group("all", 1), group("plain", 2, present="job")),
            (
                "the group of 2 on 'plain' mixes code of ann, bob",
                "the group of 2 on 'plain' is beyond capacity with 0.5 cores of work",
                "groups wait for each other",
            ),
            id="the owner and the work of what stays count too",
        ),
        pytest.param(
            (group("all", 0, present="closed"), group("all", 1), group("all", 2)),
            ("the group of 0 on 'all' takes no more tasks",),
            id="what takes no more",
        ),
        pytest.param(
            (group("all", 1), group("all", 0), group("all", 2)),
            ("a group is listed before one that feeds it",),
            id="order",
        ),
    ],
)
def test_what_is_wrong_with_groups_is_named(groups: Sequence[Group], wrong: tuple[str, ...]) -> None:
    """Each problem has the task, the group or the image in it, and valid groups have none."""
    assert wrong == tuple(problem.partition(": [")[0] for problem in problems_of(LINE, groups))


@pytest.mark.parametrize(
    ("work", "wrong"),
    [
        pytest.param(0.2, (), id="just full"),
        pytest.param(0.2000009, (), id="as much as is rounded"),
        pytest.param(0.200002, ("the group of 0 on 'all' is beyond capacity with 0.400002 cores of work",), id="more"),
    ],
)
def test_a_group_is_full_at_its_capacity(work: float, wrong: tuple[str, ...]) -> None:
    """A batch of 0.1 seconds leaves 0.4 cores of work; one task alone may have more."""
    assert wrong == problems_of(problem_of([0.2, work]), [group("all", 0, 1)])
    assert () == problems_of(problem_of([0.9]), [group("all", 0)])


@pytest.mark.parametrize(
    ("cores", "stays", "wrong"),
    [
        pytest.param(0.6, 0.0, (), id="just enough"),
        pytest.param(0.5999991, 0.0, (), id="as little less as is rounded"),
        pytest.param(0.599998, 0.0, ("image 'only' needs 0.6 cores and has 0.599998",), id="too little"),
        pytest.param(1.0, 0.3, (), id="with what stays"),
        pytest.param(0.9, 0.3, ("image 'only' needs 1 cores and has 0.9",), id="too little with what stays"),
        pytest.param(0.5, 3.0, ("image 'only' needs 3.7 cores and has 0.5",), id="what stays alone is too much"),
    ],
)
def test_groups_take_no_more_cores_than_there_may_be(cores: float, stays: float, wrong: tuple[str, ...]) -> None:
    """Two groups need the cores of their work and of two batches, beside those of what stays."""
    only = Image(name="only", tags=frozenset(), cores=cores, most=1)
    present = (PresentGroup(id="job", image="only", work=stays),) if stays else ()
    problem = problem_of([0.1, 0.3], images=(only, PLAIN), present=present)
    assert wrong == problems_of(problem, [group("only", 0), group("only", 1)])
    assert () == problems_of(problem, [group("plain", 0), group("plain", 1)])


def test_a_grouping_costs_batches_bridges_latency_and_hosts() -> None:
    """What stays costs nothing but by what is added to it: a bridge to it, its longer batches, another host."""
    image = Image(name="all", tags=frozenset(), cores=0.5, start=20.0, price=3.0, there=1)
    first = PresentGroup(id="first", image="all", tasks=frozenset({"s"}), work=0.1)
    second = PresentGroup(id="second", image="all", tasks=frozenset({"t"}))
    costs = replace(COSTS, hop=0.02, second=0.5, start=0.001, price=0.01)
    problem = problem_of(
        [0.1, 0.2, 0.3], [("s", "t"), ("s", 0), (0, 1), (0, 2)], images=(image,), present=(first, second), costs=costs
    )
    raw = replace(problem, streams=(*problem.streams, GroupedStream(parent=2, child=1, port="raw", raw=True)))
    # Of one core in all, or 1.2 in more groups, the host that is there has a half.
    for cost, groups in (
        ({"latency": 0.02 + 0.5 * (0.2 + 0.1)}, None),
        (
            {"groups": 0.1, "bridges": 0.01, "latency": 0.02 + 0.5 * (0.3 + 0.6), "starts": 0.02, "prices": 0.03},
            [group("all", 0, present="first"), group("all", 2, 1)],
        ),
        (
            {"groups": 0.3, "bridges": 0.03, "latency": 0.04 + 0.5 * (0.2 + 0.2 + 0.4), "starts": 0.04, "prices": 0.06},
            [group("all", 0), group("all", 2), group("all", 1)],
        ),
    ):
        asked = raw if groups else replace(problem, tasks=(), streams=problem.streams[:1])
        assert pytest.approx(asdict(Expense(**cost))) == asdict(cost_of(asked, groups or ()))
