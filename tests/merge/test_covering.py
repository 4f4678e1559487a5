"""The components of a reconfiguration, in the examples of the paper on Fries (Wang et al., VLDB 2022)."""

from collections.abc import Collection

import pytest

from merge.reconfiguration.covering import components

FRAUD = "source>FC FC>FM FM>MC MC>sink"
"""Figures 1 and 2."""
SCOPE = "A>C B>G C>D C>E D>F E>F F>H G>H"
"""Figures 5 and 7."""
EITHER = "X>C X>D"
"""Figure 6."""
JOIN = "FC>J J>SP SP>FMX SP>FMY FMX>U FMY>U"
"""Figure 8."""
APART = "RE>C RE>D C>E D>F"
"""Figure 9 (I) and (II)."""
TOGETHER = "RE>C RE>D C>X D>X"
"""Figure 9 (III)."""
SELF_JOIN = "RE>C RE>D C>SJ D>SJ SJ>E"
"""Figure 10."""
W2 = "J1>J2 J2>J3 J3>J4"
W3 = "J5>U1 J6>U1 J7>U1 U1>J8 J8>J9"
W4 = "F1>U2 U2>FD1 U2>FD2 FD1>F2 FD2>F2"
W5 = "RE>FD3 FD3>S1 S1>F3 F3>SJ RE>F4 F4>FD4 FD4>SJ SJ>E1"


def found(edges: str, changed: str, several: str = "", per_edge: str = "", unique: str = "") -> list[tuple[str, str]]:
    """The scope and the heads of each component, in alphabetical order."""
    streams = [(above, below) for above, _, below in (edge.partition(">") for edge in edges.split())]
    return [
        (_sorted(each.scope), _sorted(each.heads))
        for each in components(streams, changed.split(), several.split(), per_edge.split(), unique.split())
    ]


def _sorted(names: Collection[str]) -> str:
    return " ".join(sorted(names))


@pytest.mark.parametrize(
    ("edges", "changed", "expected"),
    [
        pytest.param(FRAUD, "FM MC", [("FM MC", "FM")], id="figure 2"),
        pytest.param(EITHER, "C D", [("C", "C"), ("D", "D")], id="figure 6"),
        pytest.param(SCOPE, "C F G", [("C D E F", "C"), ("G", "G")], id="figure 7"),
        pytest.param(JOIN, "FMX", [("FMX", "FMX")], id="figure 8, blue"),
        pytest.param(W2, "J1", [("J1", "J1")], id="table 4, J1"),
        pytest.param(W2, "J2", [("J2", "J2")], id="table 4, J2"),
        pytest.param(W2, "J1 J3", [("J1 J2 J3", "J1")], id="table 4, J1 J3"),
        pytest.param(W2, "J1 J4", [("J1 J2 J3 J4", "J1")], id="table 4, J1 J4"),
        pytest.param(W2, "J3 J4", [("J3 J4", "J3")], id="table 4, J3 J4"),
        pytest.param(W3, "J5", [("J5", "J5")], id="table 4, J5"),
        pytest.param(W3, "J5 J6", [("J5", "J5"), ("J6", "J6")], id="table 4, J5 J6"),
        pytest.param(W3, "J5 J6 J7 J8", [("J5 J6 J7 J8 U1", "J5 J6 J7")], id="table 4, J5 to J8"),
        pytest.param(W3, "J5 J6 J7 J9", [("J5 J6 J7 J8 J9 U1", "J5 J6 J7")], id="table 4, J5 to J9"),
        pytest.param(W3, "J7 J8 J9", [("J7 J8 J9 U1", "J7")], id="table 4, J7 J8 J9"),
    ],
)
def test_one_to_one_tasks(edges: str, changed: str, expected: list[tuple[str, str]]) -> None:
    """A component holds changed tasks, and all on paths between them."""
    assert expected == found(edges, changed)


@pytest.mark.parametrize(
    ("edges", "changed", "several", "expected"),
    [
        pytest.param(JOIN, "FMX", "J", [("FMX J SP", "J")], id="figure 8, red"),
        pytest.param(JOIN, "U", "FMX FMY", [("FMX FMY U", "FMX FMY")], id="figure 8, two earliest"),
        pytest.param(APART, "E", "RE", [("C E RE", "RE")], id="figure 9 (I), red"),
        pytest.param(SELF_JOIN, "E", "RE", [("C D E RE SJ", "RE")], id="figure 10, red"),
        pytest.param(W4, "F1 U2", "U2", [("F1 U2", "F1")], id="table 5, F1 U2"),
        pytest.param(W4, "FD1", "U2", [("FD1 U2", "U2")], id="table 5, FD1"),
        pytest.param(W4, "F2", "U2", [("F2 FD1 FD2 U2", "U2")], id="table 5, F2"),
        pytest.param(W5, "FD4", "RE", [("F4 FD4 RE", "RE")], id="table 6, FD4"),
        pytest.param(W5, "F3", "RE", [("F3 FD3 RE S1", "RE")], id="table 6, F3"),
        pytest.param(W5, "F4", "RE", [("F4 RE", "RE")], id="table 6, F4"),
        pytest.param(W5, "FD3 FD4", "RE", [("F4 FD3 FD4 RE", "RE")], id="table 6, FD3 FD4"),
        pytest.param(W5, "E1", "RE", [("E1 F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="table 6, E1"),
        pytest.param("a>b b>c c>d", "d", "a c", [("a b c d", "a")], id="only the earliest is a head"),
    ],
)
def test_one_to_many_tasks_before_changed_ones(
    edges: str, changed: str, several: str, expected: list[tuple[str, str]]
) -> None:
    """The earliest of them start the markers."""
    assert expected == found(edges, changed, several)


@pytest.mark.parametrize(
    ("edges", "changed", "per_edge", "expected"),
    [
        pytest.param(APART, "E", "RE", [("E", "E")], id="figure 9 (I)"),
        pytest.param(APART, "E F", "RE", [("C D E F RE", "RE")], id="figure 9 (II)"),
        pytest.param(TOGETHER, "X", "RE", [("C D RE X", "RE")], id="figure 9 (III)"),
        pytest.param(W5, "FD4", "RE", [("FD4", "FD4")], id="table 6, FD4"),
        pytest.param(W5, "F3", "RE", [("F3", "F3")], id="table 6, F3"),
        pytest.param(W5, "F4", "RE", [("F4", "F4")], id="table 6, F4"),
        pytest.param(W5, "FD3 FD4", "RE", [("F4 FD3 FD4 RE", "RE")], id="table 6, FD3 FD4"),
        pytest.param("a>b a>b", "b", "a", [("a b", "a")], id="two edges to one task"),
        pytest.param("a>b a>z b>c b>d", "c d", "a b", [("b c d", "b")], id="a later task splits the one path again"),
        pytest.param("a>b a>z b>c b>d", "c d", "a", [("c", "c"), ("d", "d")], id="a later task goes either way"),
        pytest.param("a>b a>c b>c", "b c", "a", [("a b c", "a")], id="both edges lead to the later of two"),
    ],
)
def test_edge_wise_pruning(edges: str, changed: str, per_edge: str, expected: list[tuple[str, str]]) -> None:
    """A task that emits one tuple on each edge counts only if several edges lead to changed tasks."""
    assert expected == found(edges, changed, per_edge, per_edge)


@pytest.mark.parametrize(
    ("edges", "changed", "unique", "expected"),
    [
        pytest.param(SELF_JOIN, "E", "SJ", [("E", "E")], id="figure 10"),
        pytest.param(W5, "E1", "SJ", [("E1", "E1")], id="table 6, E1"),
        pytest.param(W5, "F3 E1", "SJ", [("E1 F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="another is changed before the join"),
        pytest.param(W5, "SJ", "SJ", [("F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="the join itself is changed"),
        pytest.param(TOGETHER, "X", "RE", [("X", "X")], id="the task itself is unique"),
        pytest.param(TOGETHER, "X", "C D", [("C D RE X", "RE")], id="two unique tasks give two tuples"),
        pytest.param(APART, "E F", "C D", [("C D E F RE", "RE")], id="two unique tasks give one tuple each"),
        pytest.param("RE>C RE>D C>X D>X X>E", "E", "C D X", [("E", "E")], id="two unique tasks meet in a third"),
        pytest.param(
            "RE>C RE>D C>SJ D>SJ SJ>E J>C J>F", "E F", "SJ", [("C E F J SJ", "J")], id="markers pass the join"
        ),
        pytest.param("RE>C RE>D C>U D>U U>SJ", "SJ", "U SJ", [("SJ", "SJ")], id="the later of two is changed"),
        pytest.param(
            "RE>C RE>D C>U D>U U>SJ G>SJ SJ>E", "G E", "U SJ", [("E G SJ", "G")], id="the later of two is covered"
        ),
    ],
)
def test_uniqueness_pruning(edges: str, changed: str, unique: str, expected: list[tuple[str, str]]) -> None:
    """A task counts only if its tuples can reach changed tasks past the unique one."""
    assert expected == found(edges, changed, "RE J", unique=unique)


@pytest.mark.parametrize(
    ("edges", "changed", "expected"),
    [
        pytest.param(f"{SELF_JOIN} SJ>F", "E", [("E", "E")], id="one of two leads to a changed task"),
        pytest.param(f"{SELF_JOIN} SJ>F", "E F", [("C D E F RE SJ", "RE")], id="both do"),
        pytest.param("RE>C RE>D", "C", [("C", "C")], id="the task itself, towards one"),
        pytest.param("RE>C RE>D", "C D", [("C D RE", "RE")], id="the task itself, towards both"),
    ],
)
def test_a_task_that_is_unique_on_each_edge(edges: str, changed: str, expected: list[tuple[str, str]]) -> None:
    """It counts as unique if one edge alone leads to changed tasks: it gives a copy to each."""
    assert expected == found(edges, changed, "RE SJ", "SJ RE", "SJ RE")


def test_changed_tasks_without_streams_are_components() -> None:
    """They are their own heads, and components come by name."""
    assert [("B", "B"), ("J2 J3", "J2"), ("Z", "Z")] == found(W2, "Z J3 B J2")


def test_nothing_changes() -> None:
    """Then there are no components."""
    assert [] == found(W5, "", "RE")


def test_a_cycle_is_named() -> None:
    """Also one that has nothing to do with the changed tasks."""
    with pytest.raises(ValueError, match=r"^streams lead in a circle, (b > c > b|c > b > c); a dataflow has none$"):
        found("a>b b>c c>b c>d e>f", "f")
