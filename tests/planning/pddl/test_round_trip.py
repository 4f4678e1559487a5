"""Export and import: PDDL says the same plans, in one form, and nothing that it cannot say."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dags.pddl.names import name, parts
from dags.pddl.texts import Pddl, PddlError
from planning.pddl.pddl_export import exported
from planning.pddl.pddl_import import imported
from planning.planning_problem import (
    Criterion,
    PlanningProblem,
)
from tests.planning.oracle import answers
from tests.planning.pddl.said import said_problems, streets

# unified-planning calls pyparsing by names that it gives up.
pytestmark = pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")
GOLDEN = Path(__file__).parent


def _plans(problem: PlanningProblem) -> Counter[tuple[frozenset[tuple[str, str]], int]]:
    return Counter((frozenset(each.options.items()), each.reached[Criterion.COST]) for each in answers(problem))


def _hold(problem: PlanningProblem) -> None:
    back = imported(exported(problem))
    assert _plans(problem) == _plans(back)
    assert exported(back) == exported(imported(exported(back)))


@settings(max_examples=6)
@given(said_problems())
def test_what_comes_back_has_the_same_plans(problem: PlanningProblem) -> None:
    """Export and import keep every plan and its cost, and make no other; a second time changes nothing at all."""
    _hold(problem)


@pytest.mark.slow
@settings(max_examples=100)
@given(said_problems())
def test_much_that_comes_back_has_the_same_plans(problem: PlanningProblem) -> None:
    """The same, of a hundred."""
    _hold(problem)


@given(st.lists(st.text(), min_size=1, max_size=3))
@example(["a.", "b"])
@example(["a", ".b"])
@example(["Low", "_"])
def test_names_come_back(texts: list[str]) -> None:
    """A name says what it is made of, and has only signs that PDDL knows."""
    found = name("kind", *texts)
    assert ("kind", *texts) == parts(found)
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")


def test_the_text_is_as_ever() -> None:
    """One problem with a meeting of either, a choice and a cost is exported as the golden files say."""
    found = exported(streets())
    assert (GOLDEN / "streets_domain.pddl").read_text() == found.domain
    assert (GOLDEN / "streets_problem.pddl").read_text() == found.problem


def test_what_pddl_cannot_say_is_refused_at_once() -> None:
    """One message names every vertex, what is unsaid there, and the remedy."""
    problem = streets()
    clean, join = problem.vertices
    join = replace(join, same="clean", mixes_types=True)
    clean = replace(clean, options=(replace(clean.options[0], cost=-1),))
    with pytest.raises(PddlError, match=r"leave it out.*join: same, join: mixes_types, clean: a negative cost"):
        exported(replace(problem, vertices=(clean, join)))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("(define (domain braid)", "(define", "no PDDL"),
        ("(:action leave__join", "(:action left__join", "join is left twice or never"),
        ("(now vertex__join ready)))", "(now vertex__clean ready)))", "clean is left twice or never"),
        ("(open out__clean__out variable__noise)", "(open out__clean__out variable__kind)", "other variables"),
        ("(is out__clean__out variable__noise json__null)", "(met out__clean__out)", "opens other variables"),
        ("fill__clean__smooth_40_1", "fill__clean__other", "as Braid exports it"),
    ],
)
def test_other_pddl_is_refused(before: str, after: str, why: str) -> None:
    """Texts that are no PDDL, or of another form, are refused with a message and not misread."""
    found = exported(streets())
    assert before in found.domain
    with pytest.raises(PddlError, match=why):
        imported(Pddl(domain=found.domain.replace(before, after), problem=found.problem))
